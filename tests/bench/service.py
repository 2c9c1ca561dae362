"""A service to measure: its own folder, configuration and database, started as operators start it."""

import base64
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml

from arap_service.key_file import write_new_ring
from arap_service.store.migrate import upgrade
from tests.bench.servers import free_port, python, running

HERE: Final = Path(__file__).parent
ARAP: Final = python("-c", "from arap_service.cli import main; main()")
SCOPES: Final = ("authzen:evaluate", "arap:submit", "arap:status", "arap:result", "arap:cancel", "arap:report")
EVALUATION: Final = "/access/v1/evaluation"
SUBMISSION: Final = "/access/v1/request"
RATES: Final = (
    "evaluations_per_minute",
    "submissions_per_minute",
    "requestable_denials_per_minute",
    "open_requests_per_client",
)
POLL_SECONDS: Final = 3600
"""Tasks that wait are not polled while something else is measured."""
_NO_LIMIT: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Service:
    """A running service, and the credentials of its one client."""

    url: str
    client_id: str
    client_secret: str

    def of(self, client: Mapping[str, str]) -> "Service":
        """The same service as another client of it sees it."""
        return Service(self.url, client["client_id"], client["secret"])

    def bearer(self) -> dict[str, str]:
        """The header of a fresh access token of the client."""
        given = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        answer = httpx2.post(
            f"{self.url}/issuer/token",
            data={"grant_type": "client_credentials"},
            headers={"Authorization": f"Basic {given}"},
            trust_env=False,
        )
        answer.raise_for_status()
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}


@contextmanager
def service(
    folder: Path,
    *,
    rules: str,
    authenticated: bool = True,
    clients: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> Iterator[Service]:
    """A service on a fresh SQLite database with the rules of one of the files beside this one.

    `clients` are further ones of its issuer, `more` further settings.
    """
    folder.mkdir()
    port, secret = free_port(), secrets.token_urlsafe(24)
    running_service = Service(f"http://127.0.0.1:{port}", "gate", secret)
    write_new_ring(folder / "keys.json")
    client = {"client_id": "gate", "secret": secret, "scopes": list(SCOPES)}
    settings: dict[str, Any] = {
        "insecure_loopback": True,
        "identifier": running_service.url,
        "bind": f"127.0.0.1:{port}",
        "database": f"sqlite:///{folder / 'arap.db'}",
        "policy_path": str(HERE / rules),
        "key_file": "keys.json",
        "builtin_issuer": {"enabled": True, "token_seconds": 3600, "clients": [client, *clients]},
        "limits": {**dict.fromkeys(RATES, _NO_LIMIT), "poll_seconds": POLL_SECONDS},
        "log_level": "error",
        **more,
    }
    if not authenticated:
        settings["authentication"] = "none"
    config = folder / "arap.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    upgrade(settings["database"])
    command = [*ARAP, "serve", "--config", str(config), "--die-with-stdin"]
    with running(command, ready=f"{running_service.url}/healthz", log=folder / "arap.log"):
        yield running_service


def as_json(value: Any) -> bytes:
    """A request body, in plain ASCII."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")
