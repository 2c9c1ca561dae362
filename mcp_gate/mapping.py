"""Turns a `tools/call` and its caller into an AuthZEN request, and into the binding that everything later is held to.

Pure. Decides which mapping applies, anchors the identities that a mapping's author must not choose, and computes the
call's digest. It doesn't ask the decision point and doesn't validate tokens. COAZ-MCP, "Default Mappings", "Declared
Mappings"; SEP-2848, "The task handle is not authority"; design section 8.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from arap_service.protocol.canonical import (
    MACHINERY,
    TOOL_CALL,
    Unrepresentable,
    arguments_hash,
    digest,
    find_unrepresentable,
)
from mcp_gate.templates import Json, MappingError, ToolMapping, filled
from mcp_gate.writable import is_encodable, is_writable

ARGUMENTS_HASH: Final = "arguments_hash"
SERVER: Final = "server"
AGENT: Final = "agent"
ACT: Final = "act"
# A mapping comes from the server that is being authorized, so it may never speak for the gate or the profile.
RESERVED_CONTEXT: Final = MACHINERY | {TOOL_CALL, ARGUMENTS_HASH, SERVER}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who called, from a validated token or from the configuration of a stdio gate.

    `agent` is the agent-identity claim's value; `delegation` is the token's verified `act` chain.
    """

    iss: str
    sub: str
    client_id: str | None = None
    agent: str | None = None
    delegation: Any = None


@dataclass(frozen=True, slots=True)
class CallBinding:
    """One call, captured whole at the first request and never changed afterwards (PEP-67).

    `context` holds what binds at the decision point; `evaluations` replaces subject, resource and action of the
    request when the tool's mapping asks several questions. `unrepresentable` is the JSON pointer of an argument that
    RFC 8785 can't carry, in which case nothing is hashed and no approval is possible. `disclosed` names the arguments
    that the decision point may see; None discloses all.
    """

    server: str
    tool: str
    arguments: Json
    principal: Principal
    subject: Json
    resource: Json
    action: Json
    context: Json
    title: str | None = None
    evaluations: tuple[Json, ...] = ()
    unrepresentable: str | None = None
    disclosed: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def to_json(self) -> Json:
        """The binding as JSON, for the sealed column."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The binding back from `to_json`."""
        disclosed = value["disclosed"]
        return cls(
            **{
                **value,
                "principal": Principal(**value["principal"]),
                "evaluations": tuple(value["evaluations"]),
                "warnings": tuple(value["warnings"]),
                "disclosed": None if disclosed is None else tuple(disclosed),
            }
        )


@dataclass(frozen=True, slots=True)
class Resolved:
    """The AuthZEN request that a mapping amounts to for one call, and what an operator should be warned about."""

    request: Json
    warnings: tuple[str, ...] = ()

    def entries(self) -> tuple[Json, ...]:
        """Every question of it, each whole."""
        return tuple(entry for _, entry in _entries(self.request))


def resolve(
    mapping: ToolMapping | None,
    params: Mapping[str, Any],
    *,
    token: Mapping[str, Any],
    agent: str | None,
    subject_claim: str = "sub",
) -> Resolved:
    """The request that COAZ demands, with subject and agent anchored; nothing of the gate's own is in it yet.

    Raises:
        MappingError: An expression failed, a required member is missing, or an identity isn't the token's.
    """
    anchor = token.get(subject_claim)
    if not isinstance(anchor, str) or not anchor:
        raise MappingError(f"the token has no `{subject_claim}`")
    if mapping is None:  # PEP-15: the default mapping
        request: Json = {
            "subject": {"type": "identity", "id": anchor},
            "action": {"name": "tools/call"},
            "resource": {"type": "tool", "id": params["name"]},
        }
        return Resolved(request if agent is None else {**request, "context": {AGENT: agent}})
    request = filled(mapping.template, {"params": dict(params), "token": dict(token)}, mapping.envelope)
    request.pop("options", None)  # every question must be permitted, whatever the mapping would settle for (PEP-22)
    warnings = _anchor_subject(request, mapping, anchor)
    _anchor_agent(request, agent)
    for where, entry in _entries(request):
        _check_entry(entry, where)
    return Resolved(request, warnings)


def _anchor_subject(request: Json, mapping: ToolMapping, anchor: str) -> tuple[str, ...]:
    subject = request.setdefault("subject", {})
    if not isinstance(subject, dict):
        raise MappingError("subject")
    declared = mapping.template.get("subject")
    if not (isinstance(declared, dict) and "id" in declared):
        subject.setdefault("id", anchor)  # PEP-17: supplied when the mapping leaves it out, not when it yields nothing
    subject.setdefault("type", "identity")
    if subject.get("id") == anchor:
        return ()
    if not mapping.allow_unanchored_subject:  # PEP-17, PEP-18
        raise MappingError("subject.id is not the caller's")
    return ("subject_not_anchored",)


def _anchor_agent(request: Json, agent: str | None) -> None:
    """PEP-19: the agent is the token's, in the request and wherever an entry replaces the context."""
    contexts = [request, *(entry for entry in request.get("evaluations", ()) if "context" in entry)]
    for holder in contexts:
        if agent is None:
            if isinstance(holder.get("context"), dict):
                holder["context"].pop(AGENT, None)
            continue
        context = holder.setdefault("context", {})
        if not isinstance(context, dict):
            raise MappingError("context")
        if context.setdefault(AGENT, agent) != agent:
            raise MappingError("context.agent is not the caller's")


def _entries(request: Json) -> Iterator[tuple[str, Json]]:
    """Each question of the request with the top-level members as its defaults, as AuthZEN merges them."""
    shared: Json = {name: request[name] for name in ("subject", "action", "resource", "context") if name in request}
    if "evaluations" not in request:
        yield "evaluation", shared
    for index, entry in enumerate(request.get("evaluations", ())):
        yield f"evaluations[{index}]", {**shared, **entry}


def _check_entry(entry: Json, where: str) -> None:
    for name, members in (("subject", ("type", "id")), ("resource", ("type", "id")), ("action", ("name",))):
        value = entry.get(name)
        if not isinstance(value, dict):
            raise MappingError(f"{where}.{name}")
        for member in members:
            if not isinstance(value.get(member), str) or not value[member]:
                raise MappingError(f"{where}.{name}.{member}")
    context = entry.get("context", {})
    if not isinstance(context, dict):
        raise MappingError(f"{where}.context")
    if taken := RESERVED_CONTEXT & context.keys():
        raise MappingError(f"{where}.context.{min(taken)} is reserved")


def map_call(
    mapping: ToolMapping | None,
    *,
    server: str,
    tool: str,
    title: str | None,
    arguments: Mapping[str, Any],
    token_claims: Mapping[str, Any],
    principal: Principal,
    subject_claim: str = "sub",
    disclosed: tuple[str, ...] | None = None,
) -> CallBinding:
    """Captures one call.

    Raises:
        MappingError: See `resolve`.
    """
    if not is_writable(tool):
        raise MappingError("the name of the tool")
    if not is_encodable(arguments):
        raise MappingError("the arguments have no UTF-8 form")
    params = {"name": tool, "arguments": dict(arguments)}
    resolved = resolve(mapping, params, token=token_claims, agent=principal.agent, subject_claim=subject_claim)
    pointer = find_unrepresentable(params["arguments"])
    own: Json = {SERVER: server}
    if pointer is None:
        own[ARGUMENTS_HASH] = arguments_hash(arguments)  # PEP-24
    entries = [_completed(entry, own, delegation=principal.delegation) for entry in resolved.entries()]
    first = entries[0]
    bound = CallBinding(
        server=server,
        tool=tool,
        title=title,
        arguments=dict(arguments),
        principal=principal,
        subject=first["subject"],
        resource=first["resource"],
        action=first["action"],
        context=first["context"],
        evaluations=tuple(entries) if "evaluations" in resolved.request else (),
        unrepresentable=pointer,
        disclosed=disclosed,
        warnings=resolved.warnings,
    )
    if pointer is None:
        _check_digest(bound)
    return bound


def _completed(entry: Json, own: Json, *, delegation: Any) -> Json:
    context = {**entry.get("context", {}), **own}
    return {**entry, "subject": _acted_for(entry["subject"], delegation), "context": context}


def _acted_for(subject: Json, delegation: Any) -> Json:
    """The subject with the token's own `act` chain, which no mapping speaks for: who acts may not approve (GOV-12)."""
    properties = subject.get("properties", {})
    if not isinstance(properties, dict):
        raise MappingError("subject.properties")
    shown = {name: value for name, value in properties.items() if name != ACT}
    if delegation is not None:
        shown[ACT] = delegation
    kept = {name: value for name, value in subject.items() if name != "properties"}
    return {**kept, "properties": shown} if shown else kept


def _check_digest(bound: CallBinding) -> None:
    """Refuses what the caller's token or an expression brought in besides the arguments, when it has no exact form."""
    try:
        call_digest(bound)
    except Unrepresentable:
        raise MappingError("a value of the request has no canonical form") from None


def questions(binding: CallBinding) -> tuple[Json, ...]:
    """Every AuthZEN request that must be permitted before the call may run (PEP-22)."""
    shown = {TOOL_CALL: _tool_call(binding)}
    entries = binding.evaluations or (
        {
            "subject": binding.subject,
            "resource": binding.resource,
            "action": binding.action,
            "context": binding.context,
        },
    )
    return tuple({**entry, "context": {**entry["context"], **shown}} for entry in entries)


def question(binding: CallBinding) -> Json:
    """The AuthZEN request of a call whose mapping asks one question."""
    return questions(binding)[0]


def _tool_call(binding: CallBinding) -> Json:
    """The call as rules and reviewers see it; it doesn't bind, `arguments_hash` does (design section 4)."""
    shown = binding.arguments
    if binding.disclosed is not None:
        shown = {name: value for name, value in shown.items() if name in binding.disclosed}
    call: Json = {"server": binding.server, "tool": binding.tool, "arguments": shown}
    if binding.title is not None:
        call["title"] = binding.title
    call["complete"] = binding.disclosed is None
    return call


def call_digest(binding: CallBinding) -> str:
    """SHA-256 over the canonical binding: the deduplication key, verified again at the claim (PEP-64, PEP-68).

    Raises:
        Unrepresentable: The arguments have no canonical form; such a call never becomes a task.
    """
    who = binding.principal
    captured: Json = {
        "v": 1,
        "server": binding.server,
        "tool": binding.tool,
        "arguments": binding.arguments,
        "principal": {"iss": who.iss, "sub": who.sub},
        "client": who.client_id,
        "agent": who.agent,
        "delegation": who.delegation,
        "subject": binding.subject,
        "resource": binding.resource,
        "action": binding.action,
    }
    return digest(captured)


def fingerprint(schema: Mapping[str, Any], mapping: object, *, code: bytes = b"") -> str:
    """What the tool was when the call was captured: its schema, its mapping and, embedded, its code (PEP-105)."""
    text = json.dumps([schema, mapping, code.hex()], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return digest({"tool": text})
