"""A server of the handshake era in raw messages, as `python -m tests.gate.handshake_server EFFECTS`.

Written from the 2025-11-25 specification alone: its results know neither `resultType` nor anything about caching.
Every run of `wire` appends one line to the file EFFECTS.
"""

import json
import sys
from pathlib import Path
from typing import Any

UNKNOWN_METHOD = {"code": -32601, "message": "Method not found"}


def answer(method: str, params: dict[str, Any], effects: Path) -> dict[str, Any] | None:
    """The result of a request, or None for a method that this era does not have."""
    if method == "initialize":
        info = {"name": "old", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("wire", "read", "broken")]}
    if method != "tools/call":
        return None
    text = params["name"]
    if text == "wire":
        arguments = params["arguments"]
        with effects.open("a", encoding="utf-8") as file:
            file.write(f"{arguments['to']} {arguments['amount']}\n")
    return {"content": [{"type": "text", "text": f"{text} of old"}], "isError": text == "broken"}


def main() -> None:
    """Serve until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}), Path(sys.argv[1]))
            shown = {"error": UNKNOWN_METHOD} if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **shown}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
