"""Who is calling: from the verified token of the request, or from the configuration where there is no token.

Decides nothing about what the caller may do. Design section 3; COAZ, "Token Integrity".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from mcp_gate.errors import GateError
from mcp_gate.mapping import Principal
from mcp_gate.settings import GateSettings, StdioPrincipal
from mcp_gate.writable import is_writable


class Unidentified(GateError):
    """Nothing says who is calling, so nothing can be decided (-32603)."""

    text = "The caller is not identified; the tool did not run"


@dataclass(frozen=True, slots=True)
class FrontCaller:
    """The caller of one request; `claims` are verified."""

    principal: Principal
    claims: Mapping[str, Any]


def caller_of(ctx: ServerRequestContext[Any, Any], settings: GateSettings) -> FrontCaller:
    """The caller behind a request.

    Raises:
        Unidentified: there is neither a verified token nor a configured principal that applies.
    """
    token = get_access_token()
    if token is not None:
        return _of_token(token, settings)
    # A principal of stdio must never stand in for an HTTP caller whom nobody authenticated.
    configured = settings.stdio.principal if ctx.request is None and settings.stdio is not None else settings.anonymous
    if configured is None:
        raise Unidentified
    return _of_configuration(configured, settings)


def _is_storable(principal: Principal) -> bool:
    names = (principal.iss, principal.sub, principal.client_id, principal.agent)
    return all(is_writable(name) for name in names if name is not None)


def configured_caller(settings: GateSettings) -> FrontCaller | None:
    """The caller whom the configuration names for requests without a token, if it names one."""
    configured = settings.stdio.principal if settings.stdio is not None else settings.anonymous
    return None if configured is None else _of_configuration(configured, settings)


def _of_token(token: AccessToken, settings: GateSettings) -> FrontCaller:
    claims = {"client_id": token.client_id, "sub": token.subject, **(token.claims or {})}
    return caller_of_claims(claims, settings)


def caller_of_claims(claims: Mapping[str, Any], settings: GateSettings) -> FrontCaller:
    """The caller whom verified claims name.

    Raises:
        Unidentified: They name none, or one for whom no task could be kept.
    """
    issuer, subject = claims.get("iss"), claims.get(settings.subject_claim)
    if not isinstance(issuer, str) or not isinstance(subject, str) or not issuer or not subject:
        raise Unidentified
    agent, client = claims.get(settings.agent_claim), claims.get("client_id")
    principal = Principal(
        iss=issuer,
        sub=subject,
        client_id=client if isinstance(client, str) else None,
        agent=agent if isinstance(agent, str) else None,
        delegation=claims.get("act"),
    )
    if not _is_storable(principal):  # no task could be kept for it
        raise Unidentified
    return FrontCaller(principal, claims)


def _of_configuration(configured: StdioPrincipal, settings: GateSettings) -> FrontCaller:
    principal = Principal(
        iss=configured.iss, sub=configured.sub, client_id=configured.client, agent=configured.agent or configured.client
    )
    claims: dict[str, Any] = {
        "iss": configured.iss,
        "sub": configured.sub,
        "aud": settings.resource or settings.server_name,
        "client_id": configured.client,
    }
    return FrontCaller(principal, claims)
