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

from arap_service.directory import PeopleFile, PersonEntry, add_account, import_people
from arap_service.key_file import write_new_ring
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
identifier: http://127.0.0.1:{port}
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
callbacks:
  gate:
    endpoints: ["http://127.0.0.1:{gate_port}/callbacks/arap"]
    keys: ["{callback_key}"]
    allow_destinations: ["127.0.0.1:{gate_port}"]
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was written, and the passwords that are written nowhere, by account."""

    folder: Path
    port: int
    passwords: dict[str, str]


def prepare(folder: Path, *, port: int, gate_port: int, now: datetime) -> Prepared:
    """Fill the new or empty `folder`: configuration, rules, keys, secrets, database with two reviewers.

    Raises:
        FileExistsError: The folder holds something.
        OSError, StoreUnavailable: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(17, "the folder is not empty", str(folder))
    made = {name: secrets.token_urlsafe(32) for name in ("gate", "resolver")}
    callback_key = secrets.token_bytes(32)
    write_new_ring(folder / "keys.json")
    _write(folder / "policy.yaml", _POLICY)
    config = _CONFIG.format(
        port=port,
        gate_port=gate_port,
        gate=_digest(made["gate"]),
        resolver=_digest(made["resolver"]),
        gate_scopes=", ".join(GATE_SCOPES),
        resolver_scopes=", ".join(RESOLVER_SCOPES),
        callback_key=_base64(callback_key),
    )
    _write(folder / "arap.yaml", config, private=True)
    listed = {"clients": made, "callback_key": _base64(callback_key)}
    _write(folder / "secrets.json", json.dumps(listed, indent=2) + "\n", private=True)
    passwords = _seed(f"sqlite:///{folder / 'arap.db'}", issuer=f"http://127.0.0.1:{port}", now=now)
    return Prepared(folder, port, passwords)


def _seed(database: str, *, issuer: str, now: datetime) -> dict[str, str]:
    upgrade(database)
    passwords = {person.id: secrets.token_urlsafe(12) for person in REVIEWERS.people}
    hashes = {login: hash_password(password) for login, password in passwords.items()}

    def work(session: WriteSession) -> None:
        import_people(session, REVIEWERS, now=now)
        for login, hashed in hashes.items():
            add_account(session, login, person_id=login, password_hash=hashed, issuer=issuer, now=now)

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
