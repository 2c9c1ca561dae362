"""Prepares what the reviewer's gate needs in a folder: settings, keys, tokens, and the control file for the suite."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from examples.reviewer.approvals import APPROVER, ARTIFACTS
from examples.reviewer.book import VERBS

ROOT: Final = Path(__file__).parents[2]
PRINCIPALS: Final = {"first": "alice", "second": "bob"}
TOKEN_SECONDS: Final = 12 * 3600
TRANSFER: Final[dict[str, Any]] = {"to": "acct-991", "amount": 50_000, "memo": "{marker}", "owner": "ada"}
SHORT: Final[dict[str, Any]] = {"to": "acct-991", "amount": 50_000, "memo": "{marker}"}
CALLS: Final[dict[str, Any]] = {
    "gated": {"tool": "transfer", "arguments": TRANSFER},
    "permitted": {"tool": "balance"},
    "denied": {"tool": "close_bank", "arguments": {"memo": "{marker}"}},
    "failing": {"tool": "bounce", "arguments": SHORT},
    "lost": {"tool": "vanish", "arguments": SHORT},
    "before": {"tool": "donate", "arguments": SHORT},
    "changed_tool": {"tool": "payout", "arguments": TRANSFER},
    "changed_arguments": {"tool": "transfer", "arguments": TRANSFER | {"amount": 50_001}},
    "changed_subject": {"tool": "transfer", "arguments": TRANSFER | {"owner": "grace"}},
    "changed_resource": {"tool": "transfer", "arguments": TRANSFER | {"to": "acct-992"}},
}


def mapping(action: str) -> dict[str, Any]:
    """About whose money it is, and which account."""
    return {
        "mapping": {
            "evaluation": {
                "subject": {"type": "person", "id": "$params.arguments.owner"},
                "action": {"name": action},
                "resource": {"type": "account", "id": "$params.arguments.to"},
            }
        },
        "allow_unanchored_subject": True,
    }


def settings(folder: Path) -> dict[str, Any]:
    """What both transports share."""
    return {
        "server_name": "bank",
        "instance": "reviewer",
        "backend": {
            "identifier": "https://approvals.invalid",
            "idempotency_retention_seconds": 86_400,
            "timeout_seconds": 1,
        },
        "upstream": {
            "command": sys.executable,
            "args": ["-m", "examples.reviewer.tools"],
            "env": {"BOOK": str(folder), "PYTHONPATH": str(ROOT)},
            "call_seconds": 1.5,
        },
        "key_file": str(folder / "gate.keys.yaml"),
        "tools": {"transfer": mapping("transfer"), "payout": mapping("payout")},
        # A gate that was killed keeps its tasks from the next one for so long.
        "limits": {
            "lease_seconds": 4,
            "poll_interval_seconds": 0.1,
            "open_tasks": 10_000,
            "submissions_per_minute": 100_000,
        },
    }


def control() -> dict[str, Any]:
    """What both control files share."""
    return {
        "calls": CALLS,
        "answers": {"ticket": "T-1"},
        "hidden": {"artifacts": list(ARTIFACTS), "people": [APPROVER]},
        "seconds": {"settle": 0.5, "poll": 0.2, "end": 120, "request": 120, "verb": 200, "check": 500},
    }


def prepare_http(folder: Path, *, port: int, control_url: str) -> dict[str, Any]:
    """Everything for HTTP in `folder`; the key set of the issuer that its tokens are from."""
    folder.mkdir(parents=True, exist_ok=True)
    resource = f"http://127.0.0.1:{port}/mcp"
    key = ECKey.generate_key("P-256", parameters={"kid": "reviewer", "use": "sig", "alg": "ES256"})
    for sub in PRINCIPALS.values():
        _write(folder / f"token-{sub}", _token(key, sub, issuer=control_url, resource=resource))
    document = {
        **settings(folder),
        "front": {"http": f"127.0.0.1:{port}"},
        "resource": resource,
        "issuers": [{"issuer": control_url, "jwks_uri": f"{control_url}/jwks.json"}],
        "insecure_loopback": True,
    }
    posted = {verb: {"post": f"{control_url}/control/{verb}?marker={{marker}}"} for verb in (*VERBS, "restart")}
    tokens = {name: {"file": f"token-{sub}"} for name, sub in PRINCIPALS.items()}
    _write(folder / "gate.yaml", json.dumps(document, indent=1))  # JSON is YAML
    _write(folder / "control.yaml", json.dumps({**control(), "verbs": posted, "tokens": tokens}, indent=1))
    return dict(KeySet([key]).as_dict(private=False))


def prepare_stdio(folder: Path) -> None:
    """Everything for stdio in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    principal = {"iss": "https://login.example", "sub": "alice", "client": "reviewer"}
    document = {**settings(folder), "front": {"stdio": True}, "stdio": {"principal": principal}}
    book = [sys.executable, "-m", "examples.reviewer.book"]
    run = {verb: {"run": [*book, verb, "{marker}", "--folder", str(folder)]} for verb in VERBS}
    _write(folder / "gate.yaml", json.dumps(document, indent=1))
    _write(folder / "control.yaml", json.dumps({**control(), "verbs": run}, indent=1))


def _token(key: ECKey, sub: str, *, issuer: str, resource: str) -> str:
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": resource,
        "sub": sub,
        "client_id": "reviewer",
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
    return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "reviewer"}, claims, key)


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="utf-8")
