"""From request schemas to fields, and from what was typed to values (ARS-105, ARS-107)."""

from typing import Any

import pytest

from arap_service.domain.forms import (
    MOST_FIELDS,
    MOST_TEXT,
    Choice,
    FormField,
    added,
    fields_of,
    merged,
    open_part,
    read,
    unaskable,
)
from arap_service.domain.policy_load import PolicyInvalid, load_policy


def wishes(*required: str, **properties: Any) -> dict[str, Any]:
    """A request schema for these members of `requested_access`."""
    part = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "object", "properties": {"requested_access": part}}


def field_for(part: Any, *, required: bool = False) -> FormField:
    """The one field of a schema with one member."""
    [field] = fields_of(wishes(*(["it"] if required else []), it=part), context={}, bound=())
    return field


def reading(part: Any, text: str, *, required: bool = False) -> Any:
    """The value of what was typed, or the message about it."""
    field = field_for(part, required=required)
    filled = read([field], {field.name: text})
    return filled.messages.get(field.name) or filled.values.get("requested_access", {}).get("it")


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "string"}, "long"),
        ({"type": "string", "maxLength": 200}, "text"),
        ({"type": "string", "maxLength": 201}, "long"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "moment"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "choice"),
        ({"enum": ["a", 1, None]}, "choice"),
        ({"const": True}, "choice"),
        ({"oneOf": [{"const": "a", "title": "An A"}, {"const": "b"}]}, "choice"),
        ({"type": "array", "items": {"type": "string"}}, "lines"),
    ],
)
def test_kind_of_a_field_follows_its_schema(part: dict[str, Any], kind: str) -> None:
    assert field_for(part).kind == kind


@pytest.mark.parametrize(
    "part",
    [
        True,
        {},
        {"type": ["string", "null"]},
        {"type": "object"},
        {"type": "array"},
        {"type": "array", "items": {"type": "integer"}},
        {"enum": [{"a": 1}]},
        {"oneOf": [{"const": "a"}, {"type": "string"}]},
        {"type": "string", "readOnly": True},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://x.example/schema"},
    ],
)
def test_what_no_form_can_ask_for_is_no_field_and_a_fault_where_it_is_required(part: Any) -> None:
    assert fields_of(wishes(it=part), context={}, bound=()) == ()
    assert unaskable(wishes(it=part)) == ()
    assert unaskable(wishes("it", it=part)) == ("/requested_access/it",)


def test_fields_are_flat_and_required_only_with_all_that_is_around_them() -> None:
    inner = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    schema = wishes("needed", needed={"$ref": "#/$defs/inner", "title": "n"}, free=inner) | {"$defs": {"inner": inner}}
    found = [(field.pointer, field.required) for field in fields_of(schema, context={}, bound=())]
    assert found == [("/requested_access/needed/a", True), ("/requested_access/free/a", False)]


def test_reference_that_leads_in_a_circle_is_no_field() -> None:
    schema = wishes(it={"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert fields_of(schema, context={}, bound=()) == ()


def test_very_deep_objects_are_no_fields() -> None:
    part: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        part = {"type": "object", "required": ["it"], "properties": {"it": part}}
    assert fields_of(wishes("it", it=part), context={}, bound=()) == ()
    assert len(unaskable(wishes("it", it=part))) == 1


def test_titles_and_hints_come_from_the_schema_or_from_the_name() -> None:
    field = field_for({"type": "string", "title": "A title", "description": "A hint"}, required=True)
    assert (field.title, field.hint, field.required) == ("A title", "A hint", True)
    field = field_for({"type": "string", "title": " ", "maxLength": 100_000})
    assert (field.title, field.hint, field.longest) == ("It", None, MOST_TEXT)
    [field] = fields_of(wishes(cost_centre={"type": "string"}), context={}, bound=())
    assert field.title == "Cost centre"


def test_choices_have_labels() -> None:
    assert field_for({"enum": ["low", 2, None, "", True]}).choices == (
        Choice("0", "low", "low"),
        Choice("1", "2", 2),
        Choice("2", "null", None),
        Choice("3", '""', ""),
        Choice("4", "Yes", True),
    )
    assert field_for({"oneOf": [{"const": "a", "title": "An A"}]}).choices == (Choice("0", "An A", "a"),)


@pytest.mark.requirement("ARS-107")
def test_context_that_is_bound_stated_or_the_profiles_own_is_never_asked_for() -> None:
    names = ("ticket", "bound", "there", "server", "agent", "arguments_hash", "approval", "trace_id", "about")
    about = {"type": "object", "properties": {"inner": {"type": "string"}, "other": {"type": "string"}}}
    part = {"type": "object", "properties": {name: {"type": "string"} for name in names} | {"about": about}}
    schema = {"type": "object", "properties": {"context": part}}
    context = {"there": "x", "about": {"inner": "x"}}
    found = [field.pointer for field in fields_of(schema, context=context, bound=("bound",))]
    assert found == ["/context/ticket", "/context/about/other"]
    assert [field.pointer for field in fields_of(schema, context={"about": 1}, bound=("bound",))] == [
        "/context/ticket",
        "/context/there",
        "/context/about/inner",
        "/context/about/other",
    ]


@pytest.mark.requirement("ARS-107")
def test_what_is_bound_is_taken_out_of_what_was_filled_in() -> None:
    filled = {"context": {"bound": 1, "server": "s", "ticket": 2}, "requested_access": {"role": "r"}}
    assert open_part(filled, bound=("bound",)) == {"context": {"ticket": 2}, "requested_access": {"role": "r"}}
    assert open_part({"context": {"bound": 1}}, bound=("bound",)) == {}


def test_a_form_has_a_limited_number_of_fields() -> None:
    names = [f"n{number}" for number in range(MOST_FIELDS + 1)]
    schema = wishes(*names, **{name: {"type": "string"} for name in names})
    assert len(fields_of(schema, context={}, bound=())) == MOST_FIELDS
    assert unaskable(schema) == (f"/requested_access/n{MOST_FIELDS}",)
    assert unaskable(wishes("unlisted")) == ("/requested_access/unlisted",)


@pytest.mark.parametrize(
    ("part", "text", "value"),
    [
        ({"type": "string"}, " two\r\nlines ", "two\nlines"),
        ({"type": "integer"}, "-25", -25),
        ({"type": "integer"}, "9007199254740991", 2**53 - 1),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "25", 25),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "1", False),
        ({"enum": ["low", 2]}, "1", 2),
        ({"type": "string", "format": "date"}, "2026-01-31", "2026-01-31"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T12:00", "2026-01-31T12:00:00Z"),
        ({"type": "array", "items": {"type": "string"}}, "a\n\n b \n", ["a", "b"]),
        ({"type": "string"}, "  ", None),
    ],
)
def test_what_was_typed_becomes_a_value(part: Any, text: str, value: Any) -> None:
    found = reading(part, text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ({"type": "string"}, "a\x00b", "characters that cannot be shown"),
        ({"type": "string", "maxLength": 3}, "abcd", "at most 3 characters"),
        ({"type": "integer"}, "2.5", "whole number"),
        ({"type": "integer"}, "٣", "whole number"),
        ({"type": "integer"}, "9007199254740992", "whole number"),
        ({"type": "number"}, "9007199254740992", "write a number"),
        ({"type": "number"}, "1e999", "write a number"),
        ({"type": "number"}, "NaN", "write a number"),
        ({"enum": ["low"]}, "low", "choose one"),
        ({"type": "string", "format": "date"}, "2026-02-30", "write a date"),
        ({"type": "string", "format": "date"}, "20260131", "write a date"),
        ({"type": "string", "format": "date-time"}, "2026-01-31T25:00", "date and time in UTC"),
        ({"type": "string", "format": "date-time"}, "tomorrow", "date and time in UTC"),
    ],
)
def test_what_cannot_be_a_value_is_explained(part: Any, text: str, message: str) -> None:
    assert message in str(reading(part, text))


def test_required_fields_must_not_be_empty() -> None:
    assert reading({"type": "string"}, " ", required=True) == "Please fill this in."
    assert reading({"enum": ["low"]}, "", required=True) == "Please choose."


def test_own_members_count_and_the_rest_is_added() -> None:
    own = {"a": 1, "deep": {"x": 1}, "flat": 2}
    beneath = {"a": 9, "b": 2, "deep": {"x": 9, "y": 2}, "flat": {"z": 1}}
    assert merged(own, beneath) == {"a": 1, "b": 2, "deep": {"x": 1, "y": 2}, "flat": 2}
    assert added(own, beneath) == {"b": 2, "deep": {"y": 2}}
    assert added(own, {"deep": {"x": 5}}) == {}


RULES = """version: 1
rules: []
templates:
  t:
    title: T
    explanation: E
    steps: [{id: s, title: S, groups: [g]}]
    form: true
"""
SCHEMA = "    request_schema: {type: object, properties: {requested_access: {type: object, required: [a], properties: "


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("", "a form needs a request_schema that says what to fill in"),
        (SCHEMA + "{a: {type: object}}}}}\n", "no form can ask for /requested_access/a"),
        (SCHEMA + "{a: {type: thing}}}}}\n", "not a JSON Schema 2020-12"),
    ],
)
def test_form_that_could_not_be_filled_in_is_refused_with_the_rules(more: str, fault: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(RULES + more)
    assert [fault in str(problem) for problem in refused.value.problems] == [True]
    assert load_policy(RULES + SCHEMA + "{a: {type: string}}}}}\n").templates["t"].form is True
