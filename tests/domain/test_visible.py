"""Characters that deceive a reader are written out, and nothing else is touched."""

import pytest

from arap_service.domain.visible import is_hidden, is_imitation, visible


@pytest.mark.requirement("ARS-126")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("invoice\u202egnp.exe", "invoice⟦U+202E⟧gnp.exe"),
        ("pay\u200bpal", "pay⟦U+200B⟧pal"),
        ("tag\U000e0041", "tag⟦U+E0041⟧"),
        ("\x1b[31mred", "⟦U+001B⟧[31mred"),
        ("nul\x00", "nul⟦U+0000⟧"),
        ("no\u00a0break", "no⟦U+00A0⟧break"),
        ("hangul\u3164filler", "hangul⟦U+3164⟧filler"),
        ("heart\ufe0f", "heart⟦U+FE0F⟧"),
        ("line\u2028break", "line⟦U+2028⟧break"),
        ("p\u0430ypal", "p⟦U+0430⟧ypal"),
        ("\u0391dmin", "⟦U+0391⟧dmin"),
        ("\uff41dmin", "⟦U+FF41⟧dmin"),
        ("x\U0001d7d0", "x⟦U+1D7D0⟧"),
    ],
    ids=lambda text: ascii(text)[:24],
)
def test_deceiving_character_is_written_out(text: str, shown: str) -> None:
    """Unicode TR 36: bidi, zero width, tags, control, fillers, look-alikes."""
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain ASCII, with\n\tlines",
        "Zürich, naïve café, Łódź",
        "Привет мир",
        "Ελλάδα и Россия",
        "日本語 العربية",
        "Москва and London",
        "5 €, ½, ②",
    ],
)
def test_honest_text_is_left_as_it_is(text: str) -> None:
    """A reviewer who reads Russian or Japanese must not be shown numbers."""
    assert visible(text) == text


def test_long_value_stays_whole() -> None:
    """Long values are shown whole."""
    text = "ä" * 200_000 + "\u202e"
    assert visible(text) == "ä" * 200_000 + "⟦U+202E⟧"


def test_kinds_of_characters_are_told_apart() -> None:
    """The two predicates, each with a character of the other kind."""
    assert (is_hidden("\u202e"), is_imitation("\u202e")) == (True, False)
    assert (is_hidden("\u0430"), is_imitation("\u0430")) == (False, True)
    assert (is_hidden("\n"), is_imitation("a")) == (False, False)
