"""Writes a complete configuration for a developer's machine into one folder.

Everything that needs a secret gets a random one. Client secrets stand in one file that only its owner can read, the
service itself knows their digests; reviewers' passwords are shown once. The result is for loopback only, and says so.
"""

import base64
import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import httpx2

from arap_service.directory import PeopleFile, PersonEntry, add_account, import_people
from arap_service.key_file import write_new_ring
from arap_service.settings import Settings
from arap_service.store.database import Database, WriteSession
from arap_service.store.migrate import upgrade
from arap_service.web.passwords import hash_password

GATE_SCOPES: Final = (
    "authzen:evaluate",
    "arap:submit",
    "arap:status",
    "arap:result",
    "arap:cancel",
    "arap:report",
)
RESOLVER_SCOPES: Final = ("approval:read", "approval:resolve", "approval:revoke")
REVIEWERS: Final = PeopleFile(
    people=(
        PersonEntry(id="grace", name="Grace", groups=frozenset({"reviewers"})),
        PersonEntry(id="ada", name="Ada", groups=frozenset({"reviewers"})),
    )
)
_POLICY: Final = """\
# What may happen, and what somebody has to approve. Checked with: arap policy check policy.yaml
version: 1

groups:
  reviewers: Reviewers

clients:
  - client: gate
    may: "true"

rules:
  - id: reading
    when: action.name == "read"
    permit: true
  - id: tool-calls
    when: resource.type == "tool"
    request: tool-call

templates:
  tool-call:
    title: Call a tool
    explanation: An agent wants to call a tool that nobody has permitted in advance.
    risk: medium
    steps:
      - id: review
        title: Review
        groups: [reviewers]
        resolvers: [resolver]
"""
_CONFIG: Final = """\
# A service for this machine alone: plain http on loopback, and tokens from the built-in issuer.
insecure_loopback: true
{simulator}identifier: http://127.0.0.1:{port}
bind: 127.0.0.1:{port}
database: sqlite:///arap.db
policy_path: policy.yaml
key_file: keys.json
builtin_issuer:
  enabled: true
  clients:
    - client_id: gate
      secret_hash: {gate}
      scopes: [{gate_scopes}]
    - client_id: resolver
      secret_hash: {resolver}
      scopes: [{resolver_scopes}]
    # An agent that acts for a person; its tokens are for the gate, not for this service.
    - client_id: agent
      secret_hash: {agent}
      subject: alice@example.com
      audience: http://127.0.0.1:{gate_port}/mcp
{director}callbacks:
  gate:
    endpoints: ["http://127.0.0.1:{gate_port}/callbacks/arap"]
    keys: ["{callback_key}"]
    allow_destinations: ["127.0.0.1:{gate_port}"]
"""
_SIMULATOR: Final = """\
# It approves, denies and misbehaves as it is told: arap simulate, and docs/simulator.md.
simulator: true
limits:
  poll_seconds: 1
"""
_DIRECTOR: Final = """\
    # Whoever tells the simulator what to do.
    - client_id: simulator
      secret_hash: {digest}
      scopes: [admin]
"""
_GATE: Final = """\
# The gate before an MCP server, for this machine alone. Start it with: mcp-gate proxy --config gate.yaml
insecure_loopback: true
server_name: my-server
front: {{http: "127.0.0.1:{gate_port}"}}
# What the agents' tokens must be meant for, and who issues them.
resource: http://127.0.0.1:{gate_port}/mcp
issuers:
  - issuer: http://127.0.0.1:{port}/issuer
    jwks_uri: http://127.0.0.1:{port}/issuer/jwks.json
# The MCP server behind the gate: command and args for stdio, or url for Streamable HTTP.
upstream:
  command: mcp-server-git
  args: [--repository, /path/to/repository]
database: sqlite:///{folder}/gate.db
key_file: {folder}/gate.keys.yaml
backend:
  identifier: http://127.0.0.1:{port}
  token_endpoint: http://127.0.0.1:{port}/issuer/token
  client_id: gate
  client_secret: {gate_secret}
  callback: {{endpoint: "http://127.0.0.1:{gate_port}/callbacks/arap", key: "{callback_key}"}}
  # How long the service remembers a submission; a gate never repeats one that is older.
  idempotency_retention_seconds: 86400
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was written, and the passwords that are written nowhere, by account."""

    folder: Path
    port: int
    passwords: dict[str, str]


def prepare(folder: Path, *, port: int, gate_port: int, now: datetime, simulator: bool = False) -> Prepared:
    """Fill the new or empty `folder`: configuration of service and gate, rules, keys, secrets, two reviewers.

    With `simulator` the service is one, and there is a client `simulator` that tells it what to do.

    Raises:
        FileExistsError: The folder holds something.
        OSError, StoreUnavailable: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(17, "the folder is not empty", str(folder))
    names = ("gate", "resolver", "agent", *(("simulator",) if simulator else ()))
    made = {name: secrets.token_urlsafe(32) for name in names}
    callback_key = secrets.token_bytes(32)
    write_new_ring(folder / "keys.json")
    _write(folder / "policy.yaml", _POLICY)
    config = _CONFIG.format(
        port=port,
        gate_port=gate_port,
        gate=_digest(made["gate"]),
        resolver=_digest(made["resolver"]),
        agent=_digest(made["agent"]),
        gate_scopes=", ".join(GATE_SCOPES),
        resolver_scopes=", ".join(RESOLVER_SCOPES),
        callback_key=_base64(callback_key),
        simulator=_SIMULATOR if simulator else "",
        director=_DIRECTOR.format(digest=_digest(made["simulator"])) if simulator else "",
    )
    _write(folder / "arap.yaml", config, private=True)
    gate = _GATE.format(
        port=port,
        gate_port=gate_port,
        gate_secret=made["gate"],
        callback_key=_base64(callback_key),
        folder=folder.resolve(),
    )
    _write(folder / "gate.yaml", gate, private=True)
    listed = {"clients": made, "callback_key": _base64(callback_key)}
    _write(folder / "secrets.json", json.dumps(listed, indent=2) + "\n", private=True)
    passwords = _seed(f"sqlite:///{folder / 'arap.db'}", issuer=f"http://127.0.0.1:{port}", now=now)
    return Prepared(folder, port, passwords)


class NoToken(Exception):
    """No token is to be had; the text says why and what to do."""


def secret_of(client_id: str, path: Path) -> str:
    """The secret of a client in the file that `prepare` wrote.

    Raises:
        NoToken: The file does not name the client.
        OSError: It cannot be read.
    """
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["clients"][client_id])
    except (ValueError, KeyError, TypeError):
        raise NoToken(f"{path}: names no secret of the client {client_id}") from None


def fetch_token(settings: Settings, client_id: str, *, secret: str) -> str:
    """An access token of the built-in issuer of the service that runs with `settings`.

    Raises:
        NoToken: The service does not answer, or refuses.
    """
    endpoint = settings.builtin_issuer_identifier + "/token"
    try:
        answer = httpx2.post(
            endpoint, data={"grant_type": "client_credentials"}, auth=(client_id, secret), trust_env=False
        )
    except httpx2.HTTPError:
        raise NoToken(f"{endpoint} does not answer; is the service running?") from None
    if answer.status_code != 200:
        raise NoToken(f"{endpoint} refused the client {client_id} ({answer.status_code})")
    return str(answer.json()["access_token"])


def _seed(database: str, *, issuer: str, now: datetime) -> dict[str, str]:
    upgrade(database)
    passwords = {person.id: secrets.token_urlsafe(12) for person in REVIEWERS.people}
    hashes = {login: hash_password(password) for login, password in passwords.items()}

    def work(session: WriteSession) -> None:
        import_people(session, REVIEWERS, now=now)
        for login, hashed in hashes.items():
            # For trying things out on one machine: random, shown once, and good from the first log-in on.
            add_account(session, login, person_id=login, password_hash=hashed, first_until=None, issuer=issuer, now=now)

    opened = Database.open(database)
    try:
        opened.write_now(work)
    finally:
        opened.close()
    return passwords


def _write(path: Path, text: str, *, private: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def _base64(key: bytes) -> str:
    return base64.b64encode(key).decode()
