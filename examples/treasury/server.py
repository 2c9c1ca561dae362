"""The treasury: an MCP server of our own, with the gate as an extension object.

`wire_transfer` writes one line to a ledger file, which stands for the bank. What may be transferred, and what somebody
has to approve, stands in the rules of the approval service and not here: the lines in `build` that name the gate are
all that it asks of a server.
"""

import argparse
import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import httpx2
import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcp_gate import Gate, GateSettings, load_settings
from mcp_gate.front_auth import JwtVerifier

Account = Annotated[str, Field(pattern=r"^acct-[0-9]+$", description="The account that receives the money.")]
Amount = Annotated[int, Field(gt=0, description="US dollars, without cents.")]


def build(settings: GateSettings, ledger: Path) -> MCPServer[Any]:
    """The server with its tools, behind bearer tokens and the gate."""
    gate = Gate(settings)
    server: MCPServer[Any] = MCPServer(
        "treasury",
        extensions=[gate],
        lifespan=gate.lifespan(),
        token_verifier=_verifier(settings),
        auth=_auth(settings),
    )
    gate.bind(server)

    @server.tool()
    def wire_transfer(to: Account, amount: Amount) -> str:
        """Transfer US dollars to an account. A transfer cannot be called back."""
        _write(ledger, {"at": datetime.now(UTC).isoformat(timespec="seconds"), "to": to, "amount": amount})
        return f"Transfer of ${amount:,} to {to} completed."

    server.custom_route("/healthz", methods=["GET"])(_alive)
    return server


async def _alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _write(ledger: Path, entry: dict[str, Any]) -> None:
    with ledger.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _auth(settings: GateSettings) -> AuthSettings:
    return AuthSettings(
        issuer_url=AnyHttpUrl(settings.issuers[0].issuer),
        resource_server_url=AnyHttpUrl(str(settings.resource)),
        validate_token_resource=True,
    )


def _verifier(settings: GateSettings) -> JwtVerifier:
    http = httpx2.AsyncClient(timeout=10, follow_redirects=False, trust_env=False)
    return JwtVerifier(settings.issuers, resource=str(settings.resource), http=http, clock=lambda: datetime.now(UTC))


def _stop_with_stdin(server: uvicorn.Server) -> None:
    # Not through sys.stdin: this thread would hold its lock when the process ends, and Python aborts then.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True


def main() -> None:
    """Serve over Streamable HTTP at the address that the gate's settings name."""
    parser = argparse.ArgumentParser(prog="python -m examples.treasury.server", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the gate's settings (YAML)")
    parser.add_argument("--ledger", type=Path, required=True, help="the file that transfers are written to")
    parser.add_argument("--die-with-stdin", action="store_true", help="stop when standard input ends")
    options = parser.parse_args()
    settings = load_settings(options.config)
    host, port = settings.front.bind()
    app = build(settings, options.ledger).streamable_http_app(host=host)
    running = uvicorn.Server(
        uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=10)
    )
    if options.die_with_stdin:
        threading.Thread(target=_stop_with_stdin, args=(running,), daemon=True).start()
    running.run()


if __name__ == "__main__":
    main()
