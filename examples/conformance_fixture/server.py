"""Builds the fixture: one MCP server, its gate, and the backend that decides."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette

from examples.conformance_fixture.approvals import Approvals
from examples.conformance_fixture.features import add_features
from examples.conformance_fixture.jobs import ForTaskClients, add_jobs
from examples.conformance_fixture.rounds import add_rounds
from mcp_gate import Gate
from mcp_gate.runtime import Parts
from mcp_gate.settings import GateSettings, parse_settings

NAME: Final = "conformance-fixture"


def build(folder: Path) -> MCPServer[Any]:
    """The gated server; what it stores lies in `folder`."""
    approvals = Approvals(clock=lambda: datetime.now(UTC))
    gate = Gate(settings(folder), parts=Parts(backend=approvals))
    server: MCPServer[Any] = MCPServer(
        NAME,
        version="1",
        extensions=[ForTaskClients(), gate],
        lifespan=gate.lifespan(),
        log_level="WARNING",
    )
    add_features(server)
    add_rounds(server)
    add_jobs(server, approvals)
    gate.bind(server)
    return server


def application(folder: Path) -> Starlette:
    """The server over Streamable HTTP, at `/mcp`."""
    return build(folder).streamable_http_app()


def settings(folder: Path) -> GateSettings:
    """The gate's configuration: nobody is authenticated, so it is for a loopback address alone."""
    return parse_settings(
        {
            "server_name": NAME,
            "backend": {"identifier": "https://approvals.invalid", "idempotency_retention_seconds": 86_400},
            "anonymous": {"iss": "https://nobody.invalid", "sub": "anybody", "client": "any-client"},
            "insecure_loopback": True,
            # The suite wants to hear "method not found" of methods that nobody knows; a gate denies them by default.
            "deny_unknown_methods": False,
            "database": f"sqlite:///{folder / 'gate.sqlite'}",
            "key_file": str(folder / "gate.keys.yaml"),
            "limits": {"poll_interval_seconds": 0.1, "open_tasks": 10_000, "submissions_per_minute": 100_000},
        }
    )
