"""Forms from request schemas. Provenance: ARS-106; ARAP "Machine-Readable Forms"; SEP-2848 "Collecting … input"."""

from typing import Any

import pytest

from mcp_gate.backend import Supplied
from mcp_gate.inputs import FormNeeded, fault, form_of, submitted
from mcp_gate.schema import Schema, SchemaInvalid

TEXT = {"type": "string"}
QUESTION: dict[str, Any] = {"context": {"agent": "agent-7", "server": "treasury", "project": "q4"}}


def schema_of(context: dict[str, Any] | None = None, requested: dict[str, Any] | None = None) -> dict[str, Any]:
    """A request schema whose members are required, as ARS-106 shapes it."""
    sections = {"context": context or {}, "requested_access": requested or {}}
    return {
        "type": "object",
        "properties": {
            name: {"type": "object", "properties": members, "required": list(members)}
            for name, members in sections.items()
        },
        "required": ["context", "requested_access"],
    }


def shown(document: dict[str, Any]) -> dict[str, Any]:
    form = form_of(document, QUESTION)
    assert form is not None
    schema: dict[str, Any] = form.request("Say why")["params"]["requestedSchema"]
    return schema


def test_what_is_missing_is_asked_for_and_the_rest_is_not() -> None:
    document = schema_of({"project": TEXT, "justification": {**TEXT, "minLength": 5}}, {"days": {"type": "integer"}})
    assert shown(document) == {
        "type": "object",
        "properties": {"justification": {"type": "string", "minLength": 5}, "days": {"type": "integer"}},
        "required": ["justification", "days"],
    }


def test_nothing_is_asked_for_when_nothing_is_missing() -> None:
    assert form_of(None, QUESTION) is None
    assert form_of(schema_of({"project": TEXT}), QUESTION) is None


@pytest.mark.requirement("PEP-87")
def test_optional_members_are_asked_for_in_the_same_round_and_after_the_required_ones() -> None:
    document = schema_of({"why": TEXT})
    document["properties"]["context"]["properties"] = {"ticket": TEXT, "why": TEXT, "nested": {"type": "object"}}
    schema = shown(document)
    assert list(schema["properties"]) == ["why", "ticket"]
    assert schema["required"] == ["why"]


@pytest.mark.parametrize(
    "document",
    [
        schema_of({"why": {"type": "object"}}),
        schema_of({"why": {"type": "array", "items": TEXT}}),
        schema_of({"why": {"$ref": "#/$defs/text"}}) | {"$defs": {"text": TEXT}},
        schema_of({"agent\u200b": TEXT}),
        schema_of({"why": {"enum": ["two  blanks"], "type": "string"}}),
        schema_of({"approval": TEXT}),
        schema_of({"arguments_hash": TEXT}),
        schema_of({"project": {"const": "q3"}}),
        {"type": "object", "required": ["justification"]},
        {"anyOf": [schema_of({"why": TEXT}), schema_of({"ticket": TEXT})]},
        {"$ref": "https://elsewhere.example/schema"},
        schema_of({"why": TEXT, "requested_access_why": TEXT}, {"why": TEXT}),
    ],
)
def test_what_a_flat_form_cannot_give_is_not_half_asked_for(document: dict[str, Any]) -> None:
    with pytest.raises(FormNeeded):
        form_of(document, QUESTION)


@pytest.mark.requirement("PEP-127")
def test_words_of_the_schema_are_sanitised_and_only_what_forms_know_is_shown() -> None:
    member = {
        "type": "string",
        "title": "Why\u202e\n now",
        "format": "regex",
        "pattern": "^x$",
        "default": "because",
        "x-internal": "https://backend.example/secret",
    }
    document = schema_of({"why": member, "mail": {"type": "string", "format": "email"}})
    assert shown(document)["properties"] == {
        "why": {"type": "string", "title": "Why now"},
        "mail": {"type": "string", "format": "email"},
    }


@pytest.mark.requirement("PEP-86")
def test_an_answer_goes_where_it_was_asked_for_and_nowhere_else() -> None:
    form = form_of(schema_of({"why": TEXT}, {"why": TEXT, "days": {"type": "integer"}}), QUESTION)
    assert form is not None
    content = {"context_why": "a", "requested_access_why": "b", "days": None, "amount": 9, "server": "mine"}
    assert form.place(content) == Supplied({"why": "a"}, {"why": "b"})


@pytest.mark.requirement("PEP-86")
def test_what_is_supplied_never_replaces_what_the_call_says() -> None:
    given = submitted(QUESTION, Supplied({"project": "other", "why": "x"}))
    assert given == {"context": {**QUESTION["context"], "why": "x"}, "requested_access": {}}


def test_answers_are_held_against_every_rule_of_the_schema() -> None:
    document = schema_of({"why": {"type": "string", "pattern": "^INC"}})
    assert fault(document, QUESTION, Supplied({"why": "no"})) == "/context/why"
    assert fault(document, QUESTION, Supplied({"why": "INC1"})) is None
    assert fault(None, QUESTION) is None
    with pytest.raises(SchemaInvalid):
        fault({"$ref": "https://elsewhere.example/schema"}, QUESTION)


def test_a_form_is_recognised_by_what_it_asks() -> None:
    one, same, other = (form_of(schema_of({"why": {**TEXT, "minLength": n}}), QUESTION) for n in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert one.reference == same.reference != other.reference


def test_members_that_are_missing_are_named_only_when_nothing_else_is_wrong() -> None:
    schema = Schema({"type": "object", "required": ["a", "b"], "properties": {"c": TEXT}})
    assert schema.missing({}) == frozenset({("", "a"), ("", "b")})
    assert schema.missing({"a": 1, "b": 1}) == frozenset()
    assert schema.missing({"c": 1}) is None
