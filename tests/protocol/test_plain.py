"""The quick way to the canonical form writes what the reference implementation writes, or nothing."""

from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from arap_service.protocol.plain import SAFE_INTEGER, plain_form

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-SAFE_INTEGER, SAFE_INTEGER) | st.floats(allow_nan=False) | names
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)


@given(values)
@example({"b": [1, True, None, "ü"], "a": {"": ""}})
@example("".join(map(chr, range(0x80))) + '\u2028\ufeff"\\/\U0001f600')
@example({"\x00": 1, "\x7f": 2, "~": 3, "A": 4, "a": 5, "": 6})
@example([SAFE_INTEGER, -SAFE_INTEGER, 0])
def test_what_is_plain_has_the_form_that_the_reference_gives(value: Any) -> None:
    form = plain_form(value)
    if form is not None:
        assert form == rfc8785.dumps(value)


def test_a_tool_call_as_gates_send_it_is_plain() -> None:
    """Otherwise the quick way would be for nothing."""
    call = {"arguments": {"amount": 50_000, "to": "Zürich", "tags": ["a"], "dry": False, "memo": None}}
    assert (
        plain_form(call) == '{"arguments":{"amount":50000,"dry":false,"memo":null,"tags":["a"],"to":"Zürich"}}'.encode()
    )


class Text(str):
    """A kind of text of somebody's own."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [1.0, SAFE_INTEGER + 1, -SAFE_INTEGER - 1, {"ü": 1}, {1: 2}, {None: 1}, {Text("a"): 1}, Text("a"), b"a", {1, 2}],
    ids=repr,
)
def test_what_the_two_may_write_differently_is_not_plain(value: object) -> None:
    """Names beyond ASCII are ordered by UTF-16, numbers are written as ECMAScript does, and others are not JSON."""
    assert plain_form([value]) is None


def test_a_value_that_contains_itself_is_not_plain() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert plain_form(ring) is None
