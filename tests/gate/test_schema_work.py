"""Schemas of others that would hold up the gate: what is refused before it begins, and what stays callable."""

from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_gate.errors import InvalidParams
from mcp_gate.mapping import fingerprint
from mcp_gate.schema import Schema, SchemaInvalid
from mcp_gate.schema_work import Work
from mcp_gate.tools import KnownTool
from tests.domain.test_foreign_schemas import doubling

ROOT: Final = {"$ref": "#"}
# As generators of schemas write a mail address: neither a dot at its start nor two in a row.
ADDRESS: Final = r"^(?!\.)(?!.*\.\.)[a-z.]+@([a-z0-9-]+\.)+[a-z]{2,}$"
TREE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "kids": {"type": "array", "items": ROOT}},
    "required": ["value"],
}


def chain(depth: int, end: Any) -> Any:
    for _ in range(depth):
        end = {"value": 1, "kids": [end]}
    return end


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"c": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(40), {"a": 1}),
        (ROOT, 1),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}, 1),
        ({"allOf": [{"properties": {"c": ROOT}}] * 2}, nested(40)),
        ({"anyOf": [{"additionalProperties": ROOT}, {"not": {"properties": {"c": ROOT}}}]}, nested(40)),
        ({"patternProperties": {"c": ROOT, "^c": ROOT}}, nested(40)),
        ({"if": {"properties": {"c": ROOT}}, "then": {"properties": {"c": ROOT}}}, nested(40)),
        ({"dependentSchemas": {"c": {"properties": {"c": ROOT}}}, "properties": {"c": ROOT}}, nested(40)),
        ({"items": ROOT, "contains": {"items": ROOT}}, [[[[[[[[[[1] * 9] * 9] * 9] * 9] * 9] * 9] * 9] * 9] * 9]),
        (TREE, {"value": 1, "kids": [0] * 100_000}),
        (TREE, chain(1_000, {"value": 1})),
        ({"properties": {"a": {"$dynamicRef": "#a"}}, "$dynamicAnchor": "a"}, {"a": 1}),
    ],
)
def test_what_would_take_too_long_is_not_begun(schema: dict[str, Any], value: object) -> None:
    with pytest.raises(SchemaInvalid):
        Schema(schema).fault(value)


def test_patterns_that_backtrack_take_linear_time() -> None:
    assert Schema({"properties": {"a": {"pattern": "^(a+)+$"}}}).fault({"a": "a" * 5_000 + "b"}) == "/a"


@pytest.mark.parametrize("pattern", ["(((a{1,100}){1,100}){1,100})", "(?=a"])
def test_a_pattern_that_is_none_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaInvalid):
        Schema({"pattern": pattern})


def test_a_pattern_that_looks_around_is_tried_as_those_of_many_tools_are() -> None:
    address = Schema({"properties": {"to": {"pattern": ADDRESS}}})
    assert address.fault({"to": "ada.lovelace@example.com"}) is None
    assert address.fault({"to": "ada..lovelace@example.com"}) == "/to"
    assert Schema({"items": {"pattern": ADDRESS}}).fault(["a@example.com"] * 500) is None


def test_a_pattern_that_looks_around_for_too_long_fits_nothing() -> None:
    """It would match in the end; after a thousand steps back it is as if it did not."""
    backwards = {"properties": {"a": {"pattern": "^(?=a)(a|aa)+(?<=b)c$|^a+$(?<!b)"}}}
    assert Schema(backwards).fault({"a": "aaaa"}) is None
    assert Schema(backwards).fault({"a": "a" * 60}) == "/a"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"pattern": "(?=a)"}}, ["b"] * 2_000),
        ({"patternProperties": {"(?=a)": True}}, dict.fromkeys(map(str, range(2_000)), 1)),
        ({"propertyNames": {"pattern": "(?=a)"}}, dict.fromkeys(map(str, range(2_000)), 1)),
    ],
)
def test_patterns_that_look_around_are_not_tried_at_too_many_places(schema: dict[str, Any], value: object) -> None:
    with pytest.raises(SchemaInvalid):
        Schema(schema).fault(value)


def test_a_schema_that_refers_to_itself_is_applied_as_deep_as_the_value_goes() -> None:
    assert Schema(TREE).fault(chain(70, {"value": 1})) is None
    assert Schema(TREE).fault(chain(70, {"value": "x"})) == "/kids/0" * 70 + "/value"
    assert Schema(TREE).fault({"value": 1, "kids": [{"value": number} for number in range(5_000)]}) is None


def test_a_schema_of_schemas_is_applied() -> None:
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": ["object", "boolean"],
        "properties": {
            "properties": {"type": "object", "additionalProperties": ROOT},
            "items": {"anyOf": [ROOT, {"type": "array", "items": ROOT}]},
            "allOf": {"type": "array", "minItems": 1, "items": ROOT},
            "not": ROOT,
            "type": {"type": ["string", "array"]},
        },
    }
    assert Schema(document).fault(TREE) is None
    assert Schema(document).fault({"properties": {"a": {"items": {"not": 3}}}}) == "/properties/a/items"


def test_an_ordinary_schema_is_never_counted() -> None:
    assert Work({"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/n"}}, "$defs": {"n": True}}).is_plain
    assert not Work(TREE).is_plain
    assert not Work({"enum": list(range(5_000))}).is_plain


def test_arguments_that_cannot_be_checked_become_no_request_for_approval() -> None:
    schema = doubling(40)
    with pytest.raises(InvalidParams, match="cannot be applied"):
        KnownTool("pay", None, schema, None, fingerprint(schema, None)).check({"a": 1})


VALUES = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=8,
)
REFERENCES = st.sampled_from(["#", "#/$defs/x", "#/$defs/y"]).map(lambda name: {"$ref": name})


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(st.sampled_from("ab"), inner, min_size=1, max_size=2)
    one = ("not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames")
    left = ("unevaluatedProperties", "unevaluatedItems")
    return st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), several),
            **dict.fromkeys((*one, *left), inner),
            **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), named),
        },
    )


SCHEMAS = st.recursive(
    st.booleans() | REFERENCES | st.sampled_from([{"type": "object"}, {"type": "integer"}, {"minimum": 1}]),
    _larger,
    max_leaves=6,
)


@given(x=SCHEMAS, y=SCHEMAS, root=SCHEMAS.filter(lambda part: isinstance(part, dict)), value=VALUES)
def test_what_is_let_through_ends_with_the_verdict_of_a_plain_validator(
    x: Any, y: Any, root: dict[str, Any], value: Any
) -> None:
    document = {**root, "$defs": {"x": x, "y": y}}
    try:
        verdict = Schema(document).fault(value)
    except SchemaInvalid:
        return
    assert (verdict is None) == jsonschema_rs.validator_for(document).is_valid(value)
