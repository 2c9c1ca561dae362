"""What the gate asks the decision point about methods other than `tools/call`: COAZ's default mappings, as data.

Pure. The rows are written as mappings and resolved as mappings, so that they are anchored like any other. `initialize`
and the removed methods have no row; rows of ours are added for what the approval flow cannot do without (X-06).
COAZ-MCP, "Default Mappings", "Unknown Methods".
"""

from collections.abc import Mapping
from typing import Any, Final

from mcp_gate.mapping import SERVER, Principal, resolve
from mcp_gate.templates import Json, MappingError, ToolMapping, declared_mapping
from mcp_gate.writable import is_encodable

RESOURCE_SUBSCRIBE: Final = "resources/subscribe"
LISTEN: Final = "subscriptions/listen"
DISCOVER: Final = "server/discover"

_SERVER_ITSELF: Final[Json] = {"type": "mcp_server", "id": "$token.aud"}
_IS_PROMPT: Final = "params.ref.type == 'ref/prompt'"
_RESOURCES: Final[Mapping[str, Json]] = {
    "tools/list": _SERVER_ITSELF,
    "resources/list": _SERVER_ITSELF,
    "resources/templates/list": _SERVER_ITSELF,  # ours: COAZ forgot the templates
    "prompts/list": _SERVER_ITSELF,
    "logging/setLevel": _SERVER_ITSELF,
    DISCOVER: _SERVER_ITSELF,  # PEP-27
    LISTEN: _SERVER_ITSELF,  # PEP-27
    "resources/read": {"type": "resource", "id": "$params.uri"},
    RESOURCE_SUBSCRIBE: {"type": "resource", "id": "$params.uri"},
    "resources/unsubscribe": {"type": "resource", "id": "$params.uri"},
    "prompts/get": {"type": "prompt", "id": "$params.name"},
    # PEP-28: one expression each; the printed form has a `$` inside.
    "completion/complete": {
        "type": f"${_IS_PROMPT} ? 'prompt' : 'resource'",
        "id": f"${_IS_PROMPT} ? params.ref.name : params.ref.uri",
    },
    "tasks/get": {"type": "task", "id": "$params.taskId"},
    "tasks/cancel": {"type": "task", "id": "$params.taskId"},
    "tasks/update": {"type": "task", "id": "$params.taskId"},  # PEP-27
}
_CONTEXTS: Final[Mapping[str, Json]] = {"logging/setLevel": {"level": "$params.level"}}


def _row(method: str, resource: Json) -> ToolMapping:
    context = {"context": _CONTEXTS[method]} if method in _CONTEXTS else {}
    return declared_mapping({"evaluation": {"action": {"name": method}, "resource": resource, **context}})


METHODS: Final[Mapping[str, ToolMapping]] = {method: _row(method, resource) for method, resource in _RESOURCES.items()}
"""The row of each method."""

SERVER_SCOPED: Final = frozenset(method for method, resource in _RESOURCES.items() if resource is _SERVER_ITSELF)
"""Methods that are about this server as a whole."""

TASK_METHODS: Final = frozenset(method for method in METHODS if method.startswith("tasks/"))

REACHING: Final = METHODS.keys() - SERVER_SCOPED - TASK_METHODS
"""Methods that reach one thing behind the server, as `tools/call` does."""


def server_audience(audience: object, own: str | None) -> str:
    """The one string of the token's `aud` that names this server (PEP-29); `own` is its resource identifier, if known.

    Raises:
        MappingError: `aud` names no server, or several that could be this one.
    """
    if isinstance(audience, str) and audience:
        return audience
    named = audience if isinstance(audience, list) else []
    if own is not None and (own in named or audience is None):
        return own
    if len(named) == 1 and isinstance(named[0], str) and named[0]:
        return named[0]
    raise MappingError("aud does not name this server")


def map_method(
    method: str,
    params: Mapping[str, Any],
    *,
    server: str,
    own: str | None,
    token_claims: Mapping[str, Any],
    principal: Principal,
    subject_claim: str = "sub",
    declared: ToolMapping | None = None,
) -> tuple[Json, ...]:
    """The AuthZEN requests that must all be permitted before `method` may go on.

    `own` is this server's resource identifier; `declared` is the operator's mapping of a method that has no row.

    Raises:
        MappingError: See `mapping.resolve`; also for a method that has no mapping at all.
    """
    row = METHODS.get(method, declared)
    if row is None:
        raise MappingError(method)
    if not is_encodable(params):
        raise MappingError("the parameters have no UTF-8 form")
    token = dict(token_claims)
    if method in SERVER_SCOPED:
        token["aud"] = server_audience(token.get("aud"), own)
    shown = {name: value for name, value in params.items() if name != "_meta"}
    resolved = resolve(row, shown, token=token, agent=principal.agent, subject_claim=subject_claim)
    own_context: Json = {SERVER: server}
    return tuple({**entry, "context": {**entry.get("context", {}), **own_context}} for entry in resolved.entries())
