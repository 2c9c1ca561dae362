"""What a request for approval still needs, as a flat form, and where the answers belong. Pure.

Reads the backend's request schema: an object with `context` and `requested_access` (ARS-106). MCP's forms carry flat
primitive members only, so a schema that wants more is refused rather than half filled. Answers are workflow input:
they add members to the submission and never replace one (PEP-86). SEP-2848, "Collecting submission input"; ARAP,
"Machine-Readable Forms".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import JsonValue

from arap_service.protocol.canonical import digest
from mcp_gate.backend import NOTHING, InputQuestion, Supplied
from mcp_gate.mapping import AGENT, RESERVED_CONTEXT
from mcp_gate.schema import Schema, SchemaInvalid
from mcp_gate.texts import sanitised_tree
from mcp_gate.views import elicitation, is_elicitable

Json = dict[str, Any]
Section = Literal["context", "requested_access"]

SECTIONS: Final[tuple[Section, ...]] = ("context", "requested_access")
# What the call itself says; nobody may be asked to say it differently.
_RESERVED: Final[Mapping[Section, frozenset[str]]] = {
    "context": frozenset({*RESERVED_CONTEXT, AGENT}),
    "requested_access": frozenset(),
}
# What MCP's form schemas know. Other rules of the request schema hold as well; they are checked when answers arrive.
_KEYWORDS: Final = frozenset(
    {
        *("type", "title", "description", "enum", "enumNames", "oneOf", "items"),
        *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"),
    }
)
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


class FormNeeded(Exception):
    """The schema wants what a flat form of primitive fields cannot give."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its name on the form, and the member of the submission that it fills."""

    name: str
    section: Section
    member: str
    schema: Mapping[str, Any]
    is_required: bool


@dataclass(frozen=True, slots=True)
class Form:
    """The fields to ask for; `reference` tells whether it is the form that was answered."""

    fields: tuple[Field, ...]
    reference: str

    def request(self, message: str) -> Json:
        """The form as an elicitation; the schema's words are untrusted, so they are sanitised (PEP-127)."""
        schema: Json = {
            "type": "object",
            "properties": {asked.name: _shown(asked.schema) for asked in self.fields},
            "required": [asked.name for asked in self.fields if asked.is_required],
        }
        return elicitation(InputQuestion(message, schema, 1))

    def place(self, content: Mapping[str, JsonValue]) -> Supplied:
        """The answers where they belong; what was not asked goes nowhere (PEP-86)."""
        placed: dict[Section, dict[str, JsonValue]] = {"context": {}, "requested_access": {}}
        for asked in self.fields:
            if (value := content.get(asked.name)) is not None:
                placed[asked.section][asked.member] = value
        return Supplied(placed["context"], placed["requested_access"])


def submitted(question: Mapping[str, Any], supplied: Supplied) -> Json:
    """The two objects that a request schema describes, as they would be submitted: the call's own members win."""
    context = question.get("context")
    own = context if isinstance(context, dict) else {}
    return {"context": {**supplied.context, **own}, "requested_access": dict(supplied.requested_access)}


def fault(document: Mapping[str, Any] | None, question: Mapping[str, Any], supplied: Supplied = NOTHING) -> str | None:
    """JSON pointer of what the request schema objects to; None when it is satisfied, or when there is none.

    Raises:
        SchemaInvalid: It is no schema that we can apply, or not to this.
    """
    return None if document is None else Schema(document).fault(submitted(question, supplied))


def form_of(document: Mapping[str, Any] | None, question: Mapping[str, Any]) -> Form | None:
    """What to ask for, optional members included, so that one round is enough (PEP-87); None when nothing is missing.

    Raises:
        FormNeeded: The form cannot be expressed, or filling it would not do.
    """
    if document is None:
        return None
    given = submitted(question, NOTHING)
    try:
        missing = Schema(document).missing(given)
    except SchemaInvalid:
        raise FormNeeded from None
    if missing is None:
        raise FormNeeded
    if not missing:
        return None
    fields = tuple(sorted(_fields(document, given), key=lambda asked: not asked.is_required))
    covered = {(f"/{asked.section}", asked.member) for asked in fields}
    if not missing <= covered or len({asked.name for asked in fields}) != len(fields):
        raise FormNeeded
    reference = digest({"fields": [[asked.name, asked.section, repr(asked.schema)] for asked in fields]})
    return Form(fields, reference)


def _fields(document: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[Field]:
    """Every member that is not given yet and that a form can ask for."""
    members = {section: _members(document, section) for section in SECTIONS}
    shared = set(members["context"]) & set(members["requested_access"])
    for section in SECTIONS:
        required = _object(_object(document.get("properties")).get(section)).get("required")
        for member, schema in members[section].items():
            if member in given[section] or member in _RESERVED[section] or not _is_expressible(member, schema):
                continue
            name = f"{section}_{member}" if member in shared else member
            yield Field(name, section, member, schema, isinstance(required, list) and member in required)


def _members(document: Mapping[str, Any], section: Section) -> Mapping[str, Any]:
    return _object(_object(_object(document.get("properties")).get(section)).get("properties"))


def _is_expressible(name: str, schema: object) -> bool:
    """Whether a field can be shown as it is; a choice that sanitising changes could never be answered."""
    if not isinstance(schema, Mapping) or not is_elicitable({"type": "object", "properties": {name: schema}}):
        return False
    return all(sanitised_tree(choices) == choices for choices in _choices(schema))


def _choices(schema: Mapping[str, Any]) -> Iterator[Any]:
    for place in (schema, _object(schema.get("items"))):
        for keyword in ("enum", "oneOf", "anyOf"):
            if keyword in place:
                yield place[keyword]


def _shown(schema: Mapping[str, Any]) -> Json:
    shown = {name: value for name, value in schema.items() if name in _KEYWORDS}
    return {**shown, "format": schema["format"]} if schema.get("format") in _FORMATS else shown


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
