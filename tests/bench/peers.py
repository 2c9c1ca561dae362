"""Programs of others that are measured beside ours, each in an environment of its own that `make` sets up.

`mcp-hangar` is a gateway that decides calls and forwards them; `fastmcp-tasks` makes a task of a call. Both are pinned
in `locks`. Where an environment is missing its peer is too, and the figure says which command makes it.
"""

import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import yaml

from tests.bench.figures import ROOT
from tests.bench.servers import bound_to_us, free_port, running
from tests.bench.service import Service

HANGAR: Final = ".venv-hangar"
HANGAR_NAME: Final = "mcp-hangar 2.34.4"
FASTMCP: Final = ".venv-fastmcp"
FASTMCP_NAME: Final = "fastmcp-tasks 4.1.4"
AUDIENCE: Final = "https://tools.example/mcp"
"""Whom the tokens are for that callers of the two gateways show."""


class PeerMissing(Exception):
    """The environment of a peer is not there; the text names the command that makes it."""


def program(environment: str, name: str, *, root: Path = ROOT) -> str:
    """The program `name` of an environment.

    Raises:
        PeerMissing: It has not been set up.
    """
    path = root / environment / "bin" / name
    if not (root / environment / ".ready").is_file() or not path.is_file():
        raise PeerMissing(f"{environment} is not there; make it with: make {environment}/.ready")
    return str(path)


def caller() -> dict[str, str]:
    """A client of the service's issuer that calls tools behind a gateway, with a secret of this run."""
    return {
        "client_id": "assistant",
        "secret": secrets.token_urlsafe(24),
        "subject": "priya",
        "audience": AUDIENCE,
    }


def hangar(stack: ExitStack, folder: Path, issuer: Service, upstream: str) -> str:
    """The address of `mcp-hangar` as the front door of the tools at `upstream`, for callers with a token of the issuer.

    Its callers need a tenant and a role. Everything else is as it comes, but its record of calls, which is in memory,
    so that it is not measured with writes that ours does not make for a permitted call, and its limit of ten calls a
    second, which would end the measurement.

    Raises:
        PeerMissing: Its environment is not there.
    """
    command = program(HANGAR, "mcp-hangar")
    folder.mkdir()
    port = free_port()
    settings = {
        "event_store": {"driver": "memory"},
        "rate_limit": {"rps": 1_000_000, "burst": 1_000_000},
        "mcp_servers": {"bench": {"mode": "remote", "endpoint": upstream}},
        "tool_access": {"mode": "front_door", "required_catalogue": {"servers": ["bench"], "retry_for_s": 60}},
        "auth": {
            "enabled": True,
            "api_key": {"enabled": False},
            "oidc": {
                "enabled": True,
                "issuer": f"{issuer.url}/issuer",
                "jwks_uri": f"{issuer.url}/issuer/jwks.json",
                "audience": AUDIENCE,
                "tenant_claim": "client_id",
            },
            "role_assignments": [{"principal": "priya", "role": "developer", "scope": "global"}],
        },
    }
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    base = f"http://127.0.0.1:{port}"
    started = [command, "serve", "--config", str(config), "--http", "--port", str(port), "--log-level", "ERROR"]
    log = folder / "hangar.log"
    home = {"HOME": str(folder)}  # some of its files go there, others into the folder where it is started
    ready = f"{base}/health/ready"
    stack.enter_context(running(bound_to_us(started), ready=ready, log=log, environment=home, within=folder))
    return f"{base}/mcp"


def fastmcp_tasks(stack: ExitStack, folder: Path) -> str:
    """The address of a server of FastMCP that makes a task of each call.

    Raises:
        PeerMissing: Its environment is not there.
    """
    port = free_port()
    script = str(Path(__file__).with_name("serve_fastmcp.py"))
    command = [program(FASTMCP, "python"), "-P", script, str(port)]  # -P, since files beside it bear names of modules
    base = f"http://127.0.0.1:{port}"
    stack.enter_context(running(bound_to_us(command), ready=base, log=folder / "fastmcp.log"))
    return f"{base}/mcp"
