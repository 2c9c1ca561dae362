"""Declared mappings: their shape, their expressions, and the values that these have for one call.

Pure. Decides whether a mapping may be used at all; who may be named in it, `mapping` decides. COAZ framework, "The
Mapping", "Literals and Expressions"; COAZ-MCP, "Mapping Envelopes", "Declared Mappings".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from arap_service.protocol.expressions import ABSENT, Environment, ExpressionError, ExpressionInvalid, ValueExpression
from mcp_gate.errors import InvalidParams

Json = dict[str, Any]

_ENTRY_MEMBERS: Final = frozenset({"action", "resource", "context"})
_ENVELOPES: Final = {
    "evaluation": _ENTRY_MEMBERS | {"subject"},
    "evaluations": _ENTRY_MEMBERS | {"subject", "evaluations", "options"},
}
_CEL: Final = Environment({"params": "map", "token": "map"})
# An approval binds every property, so none may say what can change while it is waited for (PEP-25, X-04).
_CALL_ONLY: Final = Environment({"params": "map"})
_PROPERTIES: Final = "properties"
_WITH_PROPERTIES: Final = frozenset({"subject", "resource", "action"})


class MappingError(InvalidParams):
    """The call can't be turned into an authorization request; the decision point is not asked (-32602)."""

    text = "The call could not be mapped to an authorization request"

    def __init__(self, where: str) -> None:
        super().__init__(f"{self.text}: {where}")
        self.where = where


@dataclass(frozen=True, slots=True)
class ToolMapping:
    """A declared mapping whose shape is checked and whose expressions are compiled."""

    envelope: str
    template: Json
    allow_unanchored_subject: bool = False


def declared_mapping(mapping: object, *, allow_unanchored_subject: bool = False) -> ToolMapping:
    """Reads an `x-authzen-mapping`.

    Raises:
        MappingError: It isn't exactly one known envelope (PEP-20), or an expression doesn't compile.
    """
    if not isinstance(mapping, dict) or len(mapping) != 1 or next(iter(mapping)) not in _ENVELOPES:
        raise MappingError("the mapping needs exactly one of `evaluation` and `evaluations`")
    envelope, template = next(iter(mapping.items()))
    if not isinstance(template, dict):
        raise MappingError(envelope)
    _check_members(template, _ENVELOPES[envelope], envelope)
    if envelope == "evaluations":
        entries = template.get("evaluations")
        if not isinstance(entries, list) or not entries:
            raise MappingError("evaluations.evaluations")
        for index, entry in enumerate(entries):
            where = f"evaluations.evaluations[{index}]"
            if not isinstance(entry, dict):
                raise MappingError(where)
            _check_members(entry, _ENTRY_MEMBERS, where)  # PEP-20: no `subject` in an entry
    return ToolMapping(envelope, _compiled_entry(template, envelope), allow_unanchored_subject)


def _check_members(template: Mapping[str, object], known: frozenset[str], where: str) -> None:
    for name in template:
        if name not in known:
            raise MappingError(f"{where}.{name}")


def _compiled_entry(template: Mapping[str, Any], where: str) -> Any:
    """The template of one question, or of several; its properties may read the call alone."""
    compiled: Json = {}
    for name, member in template.items():
        place = f"{where}.{name}"
        if name in _WITH_PROPERTIES and isinstance(member, dict):
            compiled[name] = {
                part: _compiled(value, f"{place}.{part}", bound=part == _PROPERTIES) for part, value in member.items()
            }
        elif name == "evaluations":
            compiled[name] = [_compiled_entry(entry, f"{place}[{index}]") for index, entry in enumerate(member)]
        else:
            compiled[name] = _compiled(member, place)
    return compiled


def _compiled(value: object, where: str, *, bound: bool = False) -> Any:
    """The value with each `$` string replaced by its compiled expression and each `$$` unescaped (PEP-21).

    What is `bound` may read the call alone, which never changes, and not the token, which is a snapshot (PEP-25).
    """
    if isinstance(value, dict):
        return {name: _compiled(member, f"{where}.{name}", bound=bound) for name, member in value.items()}
    if isinstance(value, list):
        return [_compiled(member, f"{where}[{index}]", bound=bound) for index, member in enumerate(value)]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if value.startswith("$$"):
        return value[1:]
    try:
        compiled = _CEL.compile_value(value[1:])
    except ExpressionInvalid:
        raise MappingError(f"{where} is not a valid expression") from None
    if bound:
        try:
            _CALL_ONLY.compile_value(value[1:])
        except ExpressionInvalid:
            raise MappingError(f"{where} reads the token; what may change meanwhile belongs in the context") from None
    return compiled


def filled(template: object, inputs: Mapping[str, Any], where: str) -> Any:
    """The template with the value of each expression in its place; what is absent is left out.

    Raises:
        MappingError: An expression has no value.
    """
    if isinstance(template, dict):
        members = ((name, filled(member, inputs, f"{where}.{name}")) for name, member in template.items())
        return {name: member for name, member in members if member is not ABSENT}
    if isinstance(template, list):
        items = (filled(member, inputs, f"{where}[{index}]") for index, member in enumerate(template))
        return [item for item in items if item is not ABSENT]
    if not isinstance(template, ValueExpression):
        return template
    try:
        return template.evaluate(inputs)
    except ExpressionError:
        raise MappingError(f"{where} failed to evaluate") from None
