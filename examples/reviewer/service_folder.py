"""Prepares what the reviewer's service needs in a folder: settings, rules, keys, tokens, and the control file."""

import base64
import json
import secrets
import time
from pathlib import Path
from typing import Any, Final

import yaml
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from arap_service.key_file import write_new_ring

HOST: Final = "127.0.0.1"
DENIAL_SECONDS: Final = 60
PENDING_SECONDS: Final = 120
SKEW_SECONDS: Final = 5
TOKEN_SECONDS: Final = 12 * 3600
REVIEWER: Final = "carol-the-reviewer"
DECIDING: Final = "approval:read approval:resolve approval:revoke"
ENFORCING: Final = "authzen:evaluate arap:submit arap:status arap:result arap:cancel arap:catalog"
# Who holds which token: the client, and what it may.
CALLERS: Final = {
    "pep": ("gate", ENFORCING),
    "again": ("gate", ENFORCING),
    "second": ("other-gate", ENFORCING),
    "reader": ("gate", "arap:status"),
    "reviewer": (REVIEWER, DECIDING),
}
VERBS: Final = (
    *("approve", "approve_briefly", "approve_item", "approve_wider", "ask", "deny", "deny_item"),
    *("expire", "expire_denial", "forbid", "revoke"),
)
RULES: Final[dict[str, Any]] = {
    "version": 1,
    "clients": [{"client": "gate", "may": "true"}, {"client": "other-gate", "may": "true"}],
    "catalogs": {
        "roles": {
            "items": [
                *({"value": f"role-{number}", "label": f"Role {number}"} for number in range(1, 6)),
                {"value": "payroll", "label": "Payroll", "when": 'subject.id == "nobody@example.com"'},
            ]
        }
    },
    "rules": [
        {"id": "closed", "when": "resource_entity.?closed.orValue(false) == true", "deny": "closed"},
        {"id": "pages", "when": 'resource.type == "page"', "permit": True},
        {"id": "secrets", "when": 'resource.type == "secret"', "deny": "never"},
        {"id": "notes", "when": 'resource.type == "note"', "request": "note"},
        {"id": "data", "when": 'resource.type == "dataset"', "request": "dataset"},
        {"id": "accounts", "when": 'resource.type in ["account", "vault"]', "request": "account"},
    ],
    "templates": {
        "account": {
            "title": "Work on an account",
            "explanation": "Somebody wants to work on an account.",
            "scope": {"may_vary": ["/resource/id"], "words": "Any account."},
        },
        "note": {
            "title": "Write a note",
            "explanation": "Notes are harmless.",
            "evaluators": [{"id": "harmless", "when": "true", "decision": "approve", "reason": "Harmless."}],
        },
        "dataset": {
            "title": "Access to a data set",
            "explanation": "The owner of the data decides.",
            "request_schema": {
                "type": "object",
                "required": ["context", "requested_access"],
                "properties": {
                    "context": {
                        "type": "object",
                        "required": ["justification"],
                        "properties": {"justification": {"type": "string", "minLength": 10}},
                    },
                    "requested_access": {
                        "type": "object",
                        "required": ["role"],
                        "properties": {"role": {"type": "string"}},
                    },
                },
            },
            "catalogs": {"/requested_access/role": {"catalog": "roles"}},
        },
    },
}
LIVES: Final[dict[str, Any]] = {
    "denial_seconds": DENIAL_SECONDS,
    "pending_seconds": PENDING_SECONDS,
    "approval_seconds": 900,
    "steps": [{"id": "one", "title": "One reviewer", "resolvers": [REVIEWER]}],
}
MANY: Final = (
    *("submissions_per_minute", "polls_per_minute", "requestable_denials_per_minute"),
    *("open_requests_per_client", "catalog_calls_per_minute"),
)


def rules(closed: dict[str, dict[str, Any]] | None = None) -> str:
    """The rules file; `closed` is what policy has closed since, by type and id."""
    templates = {name: {**template, **LIVES} for name, template in RULES["templates"].items()}
    return yaml.safe_dump({**RULES, "templates": templates, "entities": closed or {}}, sort_keys=False)


def questions() -> dict[str, Any]:
    """One question of each kind."""

    def about(kind: str, **more: Any) -> dict[str, Any]:
        subject = {"type": "identity", "id": "ada@example.com"}
        resource = {"type": kind, "id": f"{kind}-{{marker}}"}
        return {"subject": subject, "action": {"name": "work"}, "resource": resource, **more}

    added = {"context": {"justification": "For the yearly report."}, "requested_access": {"role": "role-1"}}
    return {
        "requestable": about("account"),
        "permitted": about("page"),
        "denied": about("secret"),
        "automatic": about("note"),
        "with_context": about("account", context={"project": "north"}),
        "with_number": about("account", action={"name": "work", "properties": {"level": 1}}),
        "form": about("dataset", input=added),
        "catalog": about("dataset", input=added),
        "within": about("account", resource={"type": "account", "id": "another-{marker}"}),
        "beyond": about("vault"),
    }


def control(control_url: str, *, listen: str) -> dict[str, Any]:
    """The control file."""
    named = "task={task}&item={item}"
    return {
        "questions": questions(),
        "tokens": {role: {"file": f"token-{role}"} for role in CALLERS if role != "reviewer"},
        "verbs": {verb: {"post": f"{control_url}/control/{verb}?{named}"} for verb in VERBS},
        "callbacks": {
            "listen": listen,
            "endpoint": f"http://{listen}/callbacks/arap",
            "standard_webhooks": {"file": "callback.key"},
            "inside": [f"https://{HOST}:1/inside", "https://169.254.169.254/latest", "https://10.0.0.1/inside"],
        },
        "hidden": {"people": [REVIEWER], "catalog": ["payroll", "Payroll"]},
        "seconds": {"request": 60, "verb": 60, "end": 60, "poll": 0.1, "settle": 0.3, "check": 300},
    }


def prepare(
    folder: Path, *, port: int, control_url: str, callback_port: int, database: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything in `folder`; the settings of the service, and the key set of the issuer that its tokens are from."""
    folder.mkdir(parents=True, exist_ok=True)
    identifier = f"http://{HOST}:{port}"
    key = ECKey.generate_key("P-256", parameters={"kid": "reviewer", "use": "sig", "alg": "ES256"})
    for role, (client_id, scope) in CALLERS.items():
        write(folder / f"token-{role}", _token(key, client_id, scope, issuer=control_url, audience=identifier))
    callback_key = base64.b64encode(secrets.token_bytes(32)).decode()
    write(folder / "callback.key", callback_key)
    write(folder / "policy.yaml", rules())
    if not (folder / "keys.json").exists():
        write_new_ring(folder / "keys.json")
    listen = f"{HOST}:{callback_port}"
    write(folder / "control.yaml", json.dumps(control(control_url, listen=listen), indent=1))
    settings = {
        "insecure_loopback": True,
        "identifier": identifier,
        "bind": f"{HOST}:{port}",
        "database": database,
        "policy_path": folder / "policy.yaml",
        "key_file": folder / "keys.json",
        "clock_skew_seconds": SKEW_SECONDS,
        "issuers": [{"issuer": control_url, "jwks_uri": f"{control_url}/jwks.json"}],
        "callbacks": {
            "gate": {
                "endpoints": [f"http://{listen}/callbacks/arap"],
                "keys": [callback_key],
                "allow_destinations": [listen],
            }
        },
        "limits": {"poll_seconds": 1, **dict.fromkeys(MANY, 1_000_000)},
        "log_level": "warning",
    }
    return settings, dict(KeySet([key]).as_dict(private=False))


def _token(key: ECKey, client_id: str, scope: str, *, issuer: str, audience: str) -> str:
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": client_id,
        "client_id": client_id,
        "scope": scope,
        "jti": secrets.token_hex(8),
        "iat": now,
        "exp": now + TOKEN_SECONDS,
    }
    return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "reviewer"}, claims, key)


def write(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="utf-8")
