"""Expressions: three ways to fail, none of which is a value. Vectors: coaz-mapping.json, coaz-agent-identity.json."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.expressions import (
    ABSENT,
    BoolExpression,
    Environment,
    ExpressionError,
    ExpressionInvalid,
)
from tests.protocol.vectors import load

ENV = Environment({"context": "map", "x": "dyn", "now": "timestamp"})
COAZ = Environment({"params": "map", "token": "map"})
MAPPING = load("coaz-mapping")
# Five loops over ten values are more steps than the engine's budget.
TOO_LONG = "".join(f"[0,1,2,3,4,5,6,7,8,9].all({name}, " for name in "abcde") + "true" + ")" * 5
DATA: dict[str, Any] = {
    "context": {"flag": False, "amount": 50000, "half": 1.5, "none": None, "list": [1, {"a": "b"}], "word": "é"},
    "x": {"deep": {"er": True}},
    "now": datetime(2026, 4, 30, 20, 0, tzinfo=UTC),
}


def holds(source: str, data: dict[str, Any] | None = None) -> bool:
    return ENV.compile_bool(source).holds(DATA if data is None else data)


def value(source: str, data: dict[str, Any] | None = None) -> object:
    return ENV.compile_value(source).evaluate(DATA if data is None else data)


def failure(source: str, data: dict[str, Any] | None = None) -> str:
    with pytest.raises(ExpressionError) as caught:
        value(source, data)
    return caught.value.code


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("context.flag == true", False),
        ("context.flag == false", True),
        ("context.amount > 25000", True),
        ("context.amount == 50000.0", True),
        ("context.?a.?b.orValue(7) == 7", True),
        ("has(context.nope) || now > timestamp('2026-01-01T00:00:00Z')", True),
        ("x.deep.er == true // said so", True),
    ],
)
def test_a_condition_holds_or_does_not(source: str, *, expected: bool) -> None:
    """The engine's value object is true to Python even when it stands for false."""
    assert holds(source) is expected


@pytest.mark.parametrize("source", ["context.flag", "x", "context.amount", "'true'", "1", "dyn(true)", "context.?flag"])
def test_a_condition_that_is_not_known_to_be_boolean_is_refused_when_loaded(source: str) -> None:
    """Notes on CEL: `when: context.flag` is dynamic; the message says what to write instead."""
    with pytest.raises(ExpressionInvalid, match="== true"):
        ENV.compile_bool(source)


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [("context.a +", 1, 12), ("true &&\n  nope", 2, 3), ("now()", 1, 4), ("x == ", 1, 6), ("", 1, 1)],
)
def test_an_expression_that_cannot_be_compiled_is_refused_where_it_is_wrong(
    source: str, line: int, column: int
) -> None:
    """Unknown variables and functions are found at load, not at the first request."""
    for compile_it in (ENV.compile_bool, ENV.compile_value):
        with pytest.raises(ExpressionInvalid) as caught:
            compile_it(source)
        assert (caught.value.line, caught.value.column) == (line, column)
        assert caught.value.message


@pytest.mark.parametrize("source", ["(" * 300 + "1" + ")" * 300, "'" + "a" * 200_000 + "'", "'\ud800'"])
def test_an_expression_that_the_engine_does_not_take_is_refused(source: str) -> None:
    with pytest.raises(ExpressionInvalid) as caught:
        ENV.compile_value(source)
    assert (caught.value.line, caught.value.column) == (0, 0)


def test_a_value_cannot_break_out_of_the_frame_that_it_is_compiled_in() -> None:
    with pytest.raises(ExpressionInvalid):
        ENV.compile_value("1), 'w': (2")
    assert value("'a' // 1), 'v': (2") == "a"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("context.amount", 50000),
        ("context.half", 1.5),
        ("context.none", None),
        ("context.word", "é"),
        ("context.flag", False),
        ("context.list", [1, {"a": "b"}]),
        ("context", DATA["context"]),
        ("context.?word", "é"),
        ("context.?none", None),
        ("context.?nope", ABSENT),
        ("x.?deep.?er", True),
        ("x.?deep.?nope.?more", ABSENT),
        ("optional.none()", ABSENT),
        ("[?context.?nope, 1]", [1]),
        ("{?'a': context.?nope}", {}),
        ("context.amount > 10000 ? 'high' : 'standard'", "high"),
        ("5u", 5),
        ("[]", []),
    ],
)
def test_a_value_is_the_json_value_and_its_type(source: str, expected: object) -> None:
    """Absent is not null, and a list is one value."""
    got = value(source)
    assert got == expected
    assert type(got) is type(expected)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.recursive(
        scalars | numbers,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    )
)
def test_json_goes_through_the_engine_unchanged(data: Any) -> None:
    got = value("x", {"x": data})
    assert json.dumps(got, sort_keys=True) == json.dumps(data, sort_keys=True)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("context.nope", "failed"),
        ("1 / 0", "failed"),
        ("9223372036854775807 + 1", "failed"),
        ("context.word + 1", "failed"),
        ("x.deep.er.more", "failed"),
        ("context.?nope.value()", "failed"),
        (TOO_LONG, "failed"),
        ("0.0 / 0.0", "result"),
        ("[1.0 / 0.0]", "result"),
        ("b'bytes'", "result"),
        ("now", "result"),
        ("duration('1s')", "result"),
        ("{'a': [type(1)]}", "result"),
        ("{1: 2}", "result"),
        ("{true: 2}", "result"),
        ("dyn(context.?word)", "result"),
        ("[context.?word]", "result"),
        ("{'a': context.?word}", "result"),
        ("{'a': {'b': dyn(context.?nope)}}", "result"),
        ("optional.of(optional.of(1))", "result"),
    ],
)
def test_what_is_no_json_value_is_an_error(source: str, code: str) -> None:
    """An optional left inside a map ends the process when the engine's own conversion meets it."""
    assert failure(source) == code


@pytest.mark.parametrize(
    "source",
    ["context.nope == 1", "1 / 0 == 1", "x.deep.er.more == 1", "context.word < 1", "context.?nope.value() == 1"],
)
def test_a_condition_that_fails_does_not_hold(source: str) -> None:
    """The engine returns errors as values that are true to Python; holding must raise instead."""
    with pytest.raises(ExpressionError) as caught:
        holds(source)
    assert caught.value.code == "failed"


def test_a_condition_over_data_of_another_type_fails() -> None:
    """The variable was declared as a map and is none, is missing, or breaks the engine's own checks."""
    for data in (
        {"context": [1]},
        {"x": 1},
        {"context": {"a": "\ud800"}},
        {"context": {"a": object()}},
        {"context": 1},
    ):
        with pytest.raises(ExpressionError) as caught:
            holds("context.a == 1", data)
        assert caught.value.code == "failed"


def test_a_condition_may_not_turn_out_to_be_no_boolean() -> None:
    """The type is known when loaded; the value is checked as well."""
    unchecked = BoolExpression(ENV, ENV._compile("x"))
    assert unchecked.holds({"x": True}) is True
    with pytest.raises(ExpressionError) as caught:
        unchecked.holds({"x": "true"})
    assert caught.value.code == "result"
    condition = Environment({"x": "bool"}).compile_bool("x")
    assert condition.holds({"x": True}) is True
    for broken in (1, "true", None, [True]):
        with pytest.raises(ExpressionError):
            condition.holds({"x": broken})


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**30])
def test_an_integer_beyond_64_bits_is_an_error_wherever_it_is(number: int) -> None:
    """The engine alone would take 2^63 for an unsigned number and go on."""
    for data in ({"x": number}, {"x": [{"a": number}]}, {"context": {"unused": number}, "x": 1}):
        assert failure("x == 1", data) == "number"
    assert value("x", {"x": 2**63 - 1}) == 2**63 - 1


@pytest.mark.parametrize(
    "data", [{"x": "a\0b"}, {"x": {"a\0b": 1}}, {"x": [{"y": "\0"}]}, {"x": "a", "context": {"a\0": 1}}, {"x\0": 1}]
)
def test_a_text_with_a_nul_is_an_error_wherever_it_is(data: dict[str, Any]) -> None:
    """The engine alone would read up to it: alice, NUL, x would be alice to a rule."""
    assert failure("x == 'a'", data) == "text"
    with pytest.raises(ExpressionInvalid):
        ENV.compile_bool("true\0 && false")


def test_data_nested_too_deeply_is_an_error() -> None:
    """The engine converts by recursion; what strict reading lets through is far within the limit."""
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    assert failure("1", {"x": nested}) == "depth"
    shallow: Any = 1
    for _ in range(200):
        shallow = [shallow]
    assert value("x", {"x": shallow}) == shallow


def test_bound_data_serve_many_expressions() -> None:
    """They are checked when bound, not again for each expression."""
    facts = ENV.bind({"x": {"n": 1}})
    assert ENV.compile_value("x.n").evaluate(facts) == 1
    assert ENV.compile_bool("x.n == 1").holds(facts) is True
    with pytest.raises(ExpressionError):
        ENV.bind({"x": 2**64})


def test_errors_repeat_nothing_of_the_data() -> None:
    data = {"x": {"hunter2": "hunter2"}, "context": {"hunter2": 2**70}}
    for source, given_data in (("x.hunter2 + 1", data), ("x['hunter2'].nope", {"x": data["x"]}), ("x", data)):
        with pytest.raises(ExpressionError) as caught:
            value(source, given_data)
        assert "hunter2" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_an_unknown_type_of_a_variable_is_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        Environment({"x": "map(string, dyn)"})


@pytest.mark.parametrize(
    ("leaf", "expected"), [row for row in MAPPING["expressions"] if row[0].startswith("$") and row[0][1] != "$"]
)
def test_a_mapping_expression_resolves_as_the_specification_says(leaf: str, expected: str) -> None:
    """coaz-mapping.json `expressions`; telling literals from expressions is the mapping's part."""
    data = {"params": MAPPING["params"], "token": MAPPING["token"]}
    expression = COAZ.compile_value(leaf[1:])
    if expected.startswith("<error"):
        with pytest.raises(ExpressionError):
            expression.evaluate(data)
    else:
        assert expression.evaluate(data) == (ABSENT if expected == "<absent>" else expected)


def expressions(mapping: object) -> Iterator[str]:
    if isinstance(mapping, dict):
        for member in mapping.values():
            yield from expressions(member)
    elif isinstance(mapping, list):
        for member in mapping:
            yield from expressions(member)
    elif isinstance(mapping, str) and mapping.startswith("$"):
        yield mapping[1:]


@pytest.mark.parametrize("vector", load("coaz-agent-identity")["vectors"], ids=lambda vector: vector["id"])
def test_every_expression_of_the_agent_identity_vectors_gives_a_claim_or_an_argument(vector: dict[str, Any]) -> None:
    """coaz-agent-identity.json: what the mapping then makes of the values is the mapping's part."""
    data = {"params": {"name": "t", "arguments": vector["arguments"]}, "token": vector["token"]}
    known = {json.dumps(claim) for claim in [*vector["token"].values(), *vector["arguments"].values()]}
    sources = list(expressions(vector["mapping"]))
    assert sources
    for source in sources:
        got = COAZ.compile_value(source).evaluate(data)
        assert got is ABSENT or json.dumps(got) in known
