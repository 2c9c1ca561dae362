"""Characters that hide or reorder text; ARS-126, Unicode Technical Report 36."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.web.visible import is_hidden, visible


@pytest.mark.parametrize(
    "character",
    ["\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u00ad", "\x1b", "\x00", "\r", "\u2028", "\U000e0041", "\ufe0f",
     "\u3164", "\u00a0", "\ue000", "\ud800", "\u061c", "\u2800"],
)  # fmt: skip
def test_a_character_that_deceives_is_written_out(character: str) -> None:
    assert visible(f"a{character}b") == f"a⟦U+{ord(character):04X}⟧b"


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    text = "Überweisung über 5 €\n\t결재 — 承認 · אישור"
    assert visible(text) == text


@given(st.text(st.characters(codec=None)))
def test_nothing_hidden_is_left_and_doing_it_twice_changes_nothing(text: str) -> None:
    shown = visible(text)
    assert not any(is_hidden(char) for char in shown)
    assert all(unicodedata.category(char) not in {"Cc", "Cf"} or char in "\n\t" for char in shown)
    assert visible(shown) == shown
