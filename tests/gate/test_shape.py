"""Depth is counted from the outermost container, and no value is too deep to be counted (PDP-12)."""

from typing import Any

import pytest

from mcp_gate.shape import is_deeper


def nested(levels: int, *, in_lists: bool = False) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = ["y", value] if in_lists else {"a": value, "b": 1}
    return value


@pytest.mark.parametrize("in_lists", [True, False])
def test_the_bound_itself_is_allowed_and_one_more_is_not(*, in_lists: bool) -> None:
    assert not is_deeper(nested(100, in_lists=in_lists), 100)
    assert is_deeper(nested(101, in_lists=in_lists), 100)


def test_values_deeper_than_any_stack_are_counted() -> None:
    assert is_deeper(nested(100_000), 100)
    assert not is_deeper(nested(100_000), 100_000)


@pytest.mark.parametrize("value", ["x", 1, None, True])
def test_what_holds_nothing_has_no_depth(value: Any) -> None:
    assert not is_deeper(value, 0)
    assert is_deeper([value], 0)
