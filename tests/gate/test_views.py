"""How tasks look to clients. Provenance: MCP Tasks extension "Task", "Elicitation"; notes on the SDK: integer ttlMs."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mcp_gate.backend import InputQuestion
from mcp_gate.views import elicitation, instant, is_elicitable

TEXT = {"type": "string"}


def test_instants_are_utc_to_the_millisecond() -> None:
    there = datetime(2026, 1, 2, 3, 4, 5, 678_901, timezone(timedelta(hours=2)))
    assert instant(there) == "2026-01-02T01:04:05.678Z"
    assert instant(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000Z"


@pytest.mark.parametrize(
    ("schema", "is_possible"),
    [
        ({"type": "object", "properties": {"a": TEXT, "b": {"type": "integer"}, "c": {"type": "boolean"}}}, True),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"enum": ["x"]}}}}, True),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"anyOf": [{"const": "x"}]}}}}, True),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, False),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, False),
        ({"type": "object", "properties": {"a": True}}, False),
        ({"type": "object", "properties": {"a\u200b": TEXT}}, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object"}, False),
        ({"type": "string"}, False),
    ],
)
def test_a_form_can_carry_flat_objects_of_primitives_and_choices(schema: dict[str, Any], *, is_possible: bool) -> None:
    assert is_elicitable(schema) is is_possible


@pytest.mark.requirement("PEP-127")
def test_a_question_is_sanitised_and_nothing_but_the_form_travels() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "title": "left out",
        "properties": {"why": {"type": "string", "description": "Say\u202e why\nnow"}},
        "required": ["why", 7],
    }
    asked = elicitation(InputQuestion("Please\x00 explain", schema, 4))
    assert asked == {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Please explain",
            "requestedSchema": {
                "type": "object",
                "properties": {"why": {"type": "string", "description": "Say why now"}},
                "required": ["why"],
            },
        },
    }
    assert "required" not in elicitation(InputQuestion("x", {"properties": {}}, 1))["params"]["requestedSchema"]
