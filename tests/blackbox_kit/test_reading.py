"""JSON as any subject may send it."""

import pytest

from blackbox_kit.reading import json_of


@pytest.mark.parametrize("raw", [b"[" * 900 + b"]" * 900, b'{"a":' * 101 + b"1" + b"}" * 101, b"{", b"\xff"])
def test_an_answer_that_nobody_can_mean_is_taken_for_no_json(raw: bytes) -> None:
    assert json_of(raw) is None


def test_half_a_character_is_replaced_wherever_it_stands() -> None:
    sent = b'{"\\ud800": ["a\\udfffb", "\\ud83d\\ude00", 1, true, null]}'
    assert json_of(sent) == {"\ufffd": ["a\ufffdb", "\U0001f600", 1, True, None]}
