"""A server of the handshake era that announces changes, as `python -m tests.gate.announcing_server MARKS`.

Written in raw messages from the 2025-11-25 specification. A subscription to a resource is answered, and then both the
resource and the list of tools change. Each subscription and its end leave a line in the file MARKS.
"""

import json
import sys
from pathlib import Path
from typing import Any

CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True}}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve until stdin ends."""
    marks = Path(sys.argv[1])
    tools = ["first"]
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message["method"], message.get("params", {})
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": CAPABILITIES,
                "serverInfo": {"name": "old", "version": "1"},
            },
            "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]},
            "resources/subscribe": {},
            "resources/unsubscribe": {},
        }
        if "id" not in message:
            continue
        if method not in results:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            continue
        say({"id": message["id"], "result": results[method]})
        if method in {"resources/subscribe", "resources/unsubscribe"}:
            with marks.open("a", encoding="utf-8") as file:
                file.write(f"{method} {params['uri']}\n")
        if method == "resources/subscribe":
            tools.append("second")
            say({"method": "notifications/resources/updated", "params": {"uri": params["uri"]}})
            say({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    main()
