"""The surroundings of a story: folder, ports, secrets, configuration files and the prepared service.

Everything is made anew for each run under one folder, with random secrets, for loopback only. An operator would type
`arap migrate`, `arap people import` and `arap account add`; here the functions behind them are called at once.
"""

import base64
import fcntl
import hashlib
import json
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from arap_service.client import ClientCredentials
from arap_service.directory import add_account, import_people, read_people
from arap_service.store import migrate
from arap_service.store.database import Database, WriteSession
from arap_service.surroundings import utc_now
from arap_service.web.passwords import hash_password
from examples.demo.supervisor import free_port

GATE_SCOPES: Final = ("authzen:evaluate", "arap:submit", "arap:status", "arap:result", "arap:cancel", "arap:report")
RESOLVER_SCOPES: Final = ("approval:read", "approval:resolve", "approval:revoke")
RESOLVER: Final = "auto-resolver"


class AlreadyRunning(RuntimeError):
    """Another demonstration holds the folder."""


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays: the agent's client id, the person it acts for, the gate's client id, and the reviewer."""

    agent: str
    subject: str
    gate: str
    reviewer: str
    reviewer_name: str
    group: str


@dataclass(frozen=True, slots=True)
class World:
    """One story's surroundings; `secrets` are by client id."""

    folder: Path
    cast: Cast
    service_port: int
    gate_port: int
    password: str
    secrets: Mapping[str, str] = field(repr=False)
    callback_key: str = field(repr=False)

    @classmethod
    def invent(cls, folder: Path, cast: Cast) -> "World":
        """A world in `folder` with fresh ports and secrets; nothing is written yet."""
        return cls(
            folder=folder,
            cast=cast,
            service_port=free_port(),
            gate_port=free_port(),
            password=secrets.token_urlsafe(9),
            secrets={client: secrets.token_urlsafe(32) for client in (cast.agent, cast.gate, RESOLVER)},
            callback_key=base64.b64encode(secrets.token_bytes(32)).decode(),
        )

    @property
    def identifier(self) -> str:
        """The service's identifier, which is also its address."""
        return f"http://127.0.0.1:{self.service_port}"

    @property
    def issuer(self) -> str:
        """The issuer of every token in the story."""
        return f"{self.identifier}/issuer"

    @property
    def gate(self) -> str:
        """The address of the gate."""
        return f"http://127.0.0.1:{self.gate_port}"

    @property
    def mcp(self) -> str:
        """The address of the MCP endpoint, which is also the audience of the agent's tokens."""
        return f"{self.gate}/mcp"

    @property
    def desk(self) -> str:
        """Where the reviewer goes."""
        return f"{self.identifier}/desk"

    def credentials(self, client_id: str) -> ClientCredentials:
        """A token source for one of the clients."""
        return ClientCredentials(f"{self.issuer}/token", client_id=client_id, client_secret=self.secrets[client_id])

    def path(self, name: str) -> Path:
        """A file of the story."""
        return self.folder / name

    def write(self, name: str, settings: Mapping[str, Any]) -> Path:
        """Write a configuration file that only its owner can read; JSON is YAML too."""
        path = self.path(name)
        path.touch(mode=0o600)
        path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        return path


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Empty `folder` and hold it for this run.

    Raises:
        AlreadyRunning: A demonstration is running there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"another demonstration is running in {folder}; end it first (Ctrl-C)") from None
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "logs").mkdir(parents=True, mode=0o700)
        yield


def command(name: str) -> str:
    """Path of a command that is installed beside the interpreter."""
    return str(Path(sys.executable).with_name(name))


def python_module(module: str, *arguments: object) -> list[str]:
    """What runs a module of this checkout."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def write_service(world: World, rules: str) -> None:
    """Write the service's rules, people and configuration."""
    cast = world.cast
    world.path("rules.yaml").write_text(rules, encoding="utf-8")
    reviewer = {"id": cast.reviewer, "name": cast.reviewer_name, "groups": [cast.group]}
    world.write("people.yaml", {"people": [reviewer]})
    ring = base64.b64encode(secrets.token_bytes(32)).decode()
    world.write("service.keys.json", {"current": "first", "keys": {"first": ring}})
    callback = f"{world.gate}/callbacks/arap"
    agent = {"subject": cast.subject, "audience": world.mcp}
    world.write(
        "service.yaml",
        {
            "insecure_loopback": True,
            "identifier": world.identifier,
            "bind": f"127.0.0.1:{world.service_port}",
            "database": "sqlite:///service.db",
            "policy_path": "rules.yaml",
            "key_file": "service.keys.json",
            "builtin_issuer": {
                "enabled": True,
                "clients": [
                    {"client_id": cast.agent, "secret_hash": _digest(world.secrets[cast.agent]), **agent},
                    {
                        "client_id": cast.gate,
                        "secret_hash": _digest(world.secrets[cast.gate]),
                        "scopes": list(GATE_SCOPES),
                    },
                    {
                        "client_id": RESOLVER,
                        "secret_hash": _digest(world.secrets[RESOLVER]),
                        "scopes": list(RESOLVER_SCOPES),
                    },
                ],
            },
            "callbacks": {
                cast.gate: {
                    "endpoints": [callback],
                    "keys": [world.callback_key],
                    "allow_destinations": [f"127.0.0.1:{world.gate_port}"],
                }
            },
        },
    )


def prepare_service(world: World) -> None:
    """Create the database and bring in the reviewer with a local account, as the `arap` commands would.

    Raises:
        StoreUnavailable, DirectoryInvalid: It cannot be written.
    """
    database = f"sqlite:///{world.path('service.db')}"
    migrate.upgrade(database)
    people = read_people(world.path("people.yaml"))
    hashed, now, person = hash_password(world.password), utc_now(), world.cast.reviewer

    def work(session: WriteSession) -> None:
        import_people(session, people, now=now)
        add_account(
            session,
            person,
            person_id=person,
            password_hash=hashed,
            first_until=None,
            issuer=world.identifier,
            now=now,
        )

    opened = Database.open(database)
    try:
        opened.write_now(work)
    finally:
        opened.close()


def gate_settings(world: World, *, server_name: str) -> dict[str, Any]:
    """The settings that both forms of the gate share."""
    return {
        "insecure_loopback": True,
        "server_name": server_name,
        "resource": world.mcp,
        "issuers": [{"issuer": world.issuer, "jwks_uri": f"{world.issuer}/jwks.json"}],
        "front": {"http": f"127.0.0.1:{world.gate_port}"},
        "database": f"sqlite:///{world.path('gate.db')}",
        "key_file": str(world.path("gate.keys.yaml")),
        "backend": {
            "identifier": world.identifier,
            "client_id": world.cast.gate,
            "client_secret": world.secrets[world.cast.gate],
            "token_endpoint": f"{world.issuer}/token",
            "callback": {"endpoint": f"{world.gate}/callbacks/arap", "key": world.callback_key},
            "idempotency_retention_seconds": 86_400,
        },
        "limits": {"poll_interval_seconds": 1},
    }


def _digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()
