"""A service for tests: real parts on a real database, with clock, ids and configuration in the test's hands."""

import base64
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from arap_service import policy_source
from arap_service.app import create_app
from arap_service.checkpoints import Checkpoint, passing
from arap_service.context import Context, random_id
from arap_service.domain.policy import Policy
from arap_service.domain.policy_load import load_policy
from arap_service.issuer import Issuer
from arap_service.jwks import Fetch, fetch_keys
from arap_service.key_file import write_new_ring
from arap_service.outbound import Outbound
from arap_service.settings import Settings
from arap_service.surroundings import open_context
from arap_service.upstream import Upstream

IDENTIFIER = "https://approvals.example"
GATE_SCOPES = ("authzen:evaluate", "arap:submit", "arap:status", "arap:result", "arap:cancel", "arap:report")
RESOLVER_SCOPES = ("approval:read", "approval:resolve", "approval:revoke")
SECRET = "correct horse battery staple"
CALLBACK_KEY = base64.b64encode(b"k" * 32).decode()
CALLBACK = "https://gate.example/callbacks/arap"
_read_once = cache(load_policy)


def _read(text: str) -> Policy:
    """The policy of `text`, read once for thousands of tests that share a few; what one finds out is its own."""
    policy = _read_once(text)
    appointing = policy.appointing
    return policy if appointing is None else replace(policy, appointing=replace(appointing, _held={}))


def client(client_id: str, *scopes: str, agent: str | None = None) -> dict[str, Any]:
    """A client of the built-in issuer whose secret is `SECRET`."""
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    return {"client_id": client_id, "secret_hash": f"sha256:{digest}", "scopes": scopes, "agent": agent}


CLIENTS = (
    client("gate", *GATE_SCOPES),
    client("other-gate", *GATE_SCOPES),
    client("status-only", "arap:status"),
    client("resolver", *RESOLVER_SCOPES),
    client("second-resolver", *RESOLVER_SCOPES),
    client("reader", "approval:read"),
    client("auditor", "audit:read"),
    client("operator", "admin"),
)


def settings_for(folder: Path, *, database: str, policy: str, **changes: Any) -> Settings:
    """Settings of a service at `IDENTIFIER` with the clients above; writes its key file and its policy to `folder`."""
    key_file = folder / "keys.json"
    if not key_file.exists():
        write_new_ring(key_file)
    policy_path = folder / f"policy-{secrets.token_hex(4)}.yaml"
    policy_path.write_text(policy, encoding="utf-8")
    values: dict[str, Any] = {
        "identifier": IDENTIFIER,
        "database": database,
        "policy_path": policy_path,
        "key_file": key_file,
        "builtin_issuer": {"enabled": True, "clients": CLIENTS},
        "callbacks": {"gate": {"endpoints": [CALLBACK], "keys": [CALLBACK_KEY]}},
    }
    return Settings(**{**values, **changes})


@asynccontextmanager
async def service_context(
    settings: Settings,
    *,
    clock: Callable[[], datetime],
    checkpoint: Checkpoint = passing,
    outbound: Outbound | None = None,
    fetch: Fetch = fetch_keys,
    upstream: Upstream | None = None,
) -> AsyncIterator[Context]:
    """A context on a database whose tables exist already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_source, "load_policy", _read)
        context = await open_context(
            settings,
            clock=clock,
            new_id=random_id,
            checkpoint=checkpoint,
            outbound=outbound,
            fetch=fetch,
            upstream=upstream,
        )
    try:
        yield context
    finally:
        await context.aclose()


def token(context: Context, client_id: str, *, scope: str | None = None) -> str:
    """An access token of the built-in issuer for one of its clients."""
    issuer = Issuer(context.settings, context.keys, clock=context.clock, new_id=context.new_id)
    credentials = base64.b64encode(f"{client_id}:{SECRET}".replace(" ", "%20").encode()).decode()
    form = "grant_type=client_credentials" + ("" if scope is None else f"&scope={scope.replace(' ', '+')}")
    status, body, _ = issuer.token(form.encode(), {"Authorization": f"Basic {credentials}"})
    assert status == 200, body
    return str(body["access_token"])


def bearer(context: Context, client_id: str, *, scope: str | None = None) -> dict[str, str]:
    """The header that authenticates `client_id`."""
    return {"Authorization": f"Bearer {token(context, client_id, scope=scope)}"}


def app_for(context: Context) -> FastAPI:
    """The application on `context`, without background work."""
    return create_app(context)


def http(app: FastAPI, **options: Any) -> httpx2.AsyncClient:
    """An HTTP client that speaks to `app` in this process."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url=IDENTIFIER, **options)


def as_json(value: Mapping[str, Any]) -> bytes:
    """`value` as a request body."""
    return json.dumps(value).encode()
