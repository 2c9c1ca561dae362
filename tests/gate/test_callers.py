"""Who is calling, from a verified token or from the configuration (design section 3)."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from mcp_gate.callers import Unidentified, caller_of
from mcp_gate.settings import GateSettings
from tests.gate.world import World

LOCAL = {"iss": "https://local.example", "sub": "tester", "client": "bench"}


@pytest.fixture
def settings(tmp_path: Path) -> GateSettings:
    return World(tmp_path).settings()


def request(*, over_http: bool) -> ServerRequestContext[Any, Any]:
    """All that matters of a request here: whether HTTP carried it."""
    return cast("ServerRequestContext[Any, Any]", SimpleNamespace(request=object() if over_http else None))


def as_caller(settings: GateSettings, **token: Any) -> Any:
    given = AccessToken(**{"token": "", "client_id": "agent-7", "scopes": [], "subject": "alice", **token})
    kept = auth_context_var.set(AuthenticatedUser(given))
    try:
        return caller_of(request(over_http=True), settings)
    finally:
        auth_context_var.reset(kept)


def test_a_token_names_principal_client_agent_and_delegation(settings: GateSettings) -> None:
    caller = as_caller(settings, claims={"iss": "https://issuer.example", "act": {"sub": "agent-7"}})
    assert (caller.principal.iss, caller.principal.sub) == ("https://issuer.example", "alice")
    assert (caller.principal.client_id, caller.principal.agent) == ("agent-7", "agent-7")
    assert caller.principal.delegation == {"sub": "agent-7"}


@pytest.mark.parametrize(
    "token",
    [
        {},
        {"claims": {"iss": ""}},
        {"claims": {"iss": 7}},
        {"subject": None, "claims": {"iss": "https://i"}},
        {"subject": "ali\0ce", "claims": {"iss": "https://i"}},
        {"subject": "ali\ud800ce", "claims": {"iss": "https://i"}},
        {"claims": {"iss": "https://i\0"}},
        {"client_id": "agent\0", "claims": {"iss": "https://i"}},
    ],
)
def test_a_token_whose_names_are_missing_or_cannot_be_kept_names_nobody(
    settings: GateSettings, token: dict[str, Any]
) -> None:
    with pytest.raises(Unidentified):
        as_caller(settings, **token)


def test_without_a_token_the_configured_principal_is_for_stdio_only(settings: GateSettings) -> None:
    assert caller_of(request(over_http=False), settings).principal.sub == "alice"
    with pytest.raises(Unidentified):
        caller_of(request(over_http=True), settings)


def test_an_anonymous_principal_is_for_http_on_loopback(tmp_path: Path) -> None:
    settings = World(tmp_path).settings(anonymous=LOCAL, insecure_loopback=True)
    assert caller_of(request(over_http=True), settings).principal.sub == "tester"
    assert caller_of(request(over_http=False), settings).principal.sub == "alice"
