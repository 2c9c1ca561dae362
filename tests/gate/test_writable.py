"""Text that databases, hashes and the wire can carry. Provenance: PEP-71; RFC 8259, section 8.2; PostgreSQL, text."""

from typing import Any

import pytest

from mcp_gate.writable import is_encodable, is_task_id, is_writable


def test_ids_are_short_and_url_safe() -> None:
    assert is_task_id("tsk_a-Z_09")
    assert is_task_id("x" * 64)


@pytest.mark.parametrize("text", ["", "x" * 65, "a b", "a\n", "a\0", "\ud800", "ä", "a/b"])
def test_anything_else_is_no_id(text: str) -> None:
    assert not is_task_id(text)


@pytest.mark.parametrize(("text", "is_possible"), [("", True), ("ä😀\n", True), ("a\0", False), ("a\udfff", False)])
def test_text_columns_keep_all_but_nul_and_surrogates(text: str, *, is_possible: bool) -> None:
    assert is_writable(text) is is_possible


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "is_possible"),
    [
        ({"a": ["ä", None, "\0"]}, True),
        ({"a": ["\ud800"]}, False),
        ({"\ud800": 1}, False),
        (nested(100_000), False),
    ],
)
def test_values_have_a_utf_8_form_or_not(value: object, *, is_possible: bool) -> None:
    assert is_encodable(value) is is_possible
