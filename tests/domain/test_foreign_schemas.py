"""Schemas that others wrote: what is applied, and what is refused since it would hold up the whole process."""

from typing import Any

import pytest

from arap_service.domain.foreign_schemas import MOST, SchemaRefused, cautious


def doubling(times: int) -> dict[str, Any]:
    """A few lines that are two to the power of `times` parts once the references are written out."""
    parts: dict[str, Any] = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(times)
    }
    return {"type": "object", "$defs": {**parts, f"d{times}": True}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "fits", "misfits"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": "x"}),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"minimum": 3}}}, {"a": 3}, {"a": 2}),
        ({"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"const": 1}}}, {"a": 1}, {"a": 2}),
        ({"properties": {"a": {"$ref": "#/allOf/0"}}, "allOf": [{"type": ["object", "null"]}]}, {"a": None}, {"a": 1}),
        ({"$id": "https://tools.example/x", "required": ["a"]}, {"a": 1}, {}),
        ({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}, {"$ref": "x"}, {"$ref": 1}),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "aa"}, {"a": "a" * 5_000 + "b"}),
        (doubling(8), {}, 1),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True},
            2,
            1,
        ),
    ],
)
def test_what_a_schema_says_counts(schema: dict[str, Any], fits: object, misfits: object) -> None:
    validator = cautious(schema)
    assert validator.is_valid(fits)
    assert not validator.is_valid(misfits)


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40),
        {"properties": {"a": {"$ref": "#"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$dynamicAnchor": "a", "properties": {"a": {"$dynamicRef": "#a"}}},
        {"$recursiveRef": "#"},
        {"$ref": "https://schemas.example/x"},
        {"$ref": "#named", "$defs": {"a": {"$anchor": "named"}}},
        {"$ref": "#/$defs/none"},
        {"$ref": "#/allOf/1", "allOf": [True]},
        {"$ref": "#/allOf/x", "allOf": [True]},
        {"properties": {"a": {"$id": "https://other.example/", "$ref": "#/$defs/a"}}, "$defs": {"a": True}},
        {"properties": {"a": {"pattern": "(?=a)"}}},
        {"properties": {"a": {"pattern": "(((a{1,100}){1,100}){1,100})"}}},
        {"type": 7},
        {"$schema": "https://schemas.example/own"},
        {"enum": [0] * (MOST + 1)},
    ],
)
def test_what_cannot_be_applied_soon_or_at_all_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefused):
        cautious(schema)


def test_a_schema_that_is_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5_000):
        schema = {"not": schema}
    with pytest.raises(SchemaRefused):
        cautious(schema)
