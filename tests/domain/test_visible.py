"""Characters that deceive a reader are written out, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.visible import is_blank, is_hidden, is_imitation, visible


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
        ("\uff11\uff10\uff10", "⟦U+FF11⟧⟦U+FF10⟧⟦U+FF10⟧"),
        ("\U0001d7cf\U0001d7ce", "⟦U+1D7CF⟧⟦U+1D7CE⟧"),
        ("\uff41\uff44", "⟦U+FF41⟧⟦U+FF44⟧"),
        ("\u30ab\uff11", "\u30ab⟦U+FF11⟧"),
        ("1\u0336000", "1⟦U+0336⟧000"),
        ("100\u20dd", "100⟦U+20DD⟧"),
        ("a\u0336b", "a⟦U+0336⟧b"),
        ("1\u0308\u0301 \u0308", "1⟦U+0308⟧⟦U+0301⟧ ⟦U+0308⟧"),
        ("\u0301x", "⟦U+0301⟧x"),
        ("1\u20440", "1⟦U+2044⟧0"),
        ("bank.example\u2215path", "bank.example⟦U+2215⟧path"),
        ("1\uff0c000", "1⟦U+FF0C⟧000"),
        ("1\u066b5", "1⟦U+066B⟧5"),
        ("1\u06600", "1⟦U+0660⟧0"),
        ("1\u041e0", "1⟦U+041E⟧0"),
        ("\u0440\u0308ay", "⟦U+0440⟧\u0308ay"),
        ("\u041e1\u0663\xe41", "⟦U+041E⟧1⟦U+0663⟧\xe41"),
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
        "5 €, ½, ②, 10²",
        "u\u0308ber, cafe\u0301",
        "2\u0433\u043e \u043c\u0430\u044f, \u041e\u041e, 7\u0411",
        "١٢٣ और १२३",
        "你好\uff0c世界\uff1a1",
        "col·lecció, a\uff0fb",
        "שָׁלוֹם हिन्दी ที่นี่",
    ],
)
def test_honest_text_is_left_as_it_is(text: str) -> None:
    """A reviewer who reads Russian or Japanese must not be shown numbers."""
    assert visible(text) == text


ODD = "a1 ,.\u2044\u066b\u041e\u0663\uff11\u0336\u0308\u200b\u0416\xe4⟦⟧\u20dd\xb7"


@given(st.text(st.sampled_from(ODD), max_size=12))
def test_what_is_shown_is_shown_alike_the_second_time(text: str) -> None:
    """A value passes through here more than once on its way to the page."""
    assert visible(visible(text)) == visible(text)


def test_long_value_stays_whole() -> None:
    """Long values are shown whole."""
    text = "ä" * 200_000 + "\u202e"
    assert visible(text) == "ä" * 200_000 + "⟦U+202E⟧"


def test_kinds_of_characters_are_told_apart() -> None:
    """The two predicates, each with a character of the other kind."""
    assert (is_hidden("\u202e"), is_imitation("\u202e")) == (True, False)
    assert (is_hidden("\u0430"), is_imitation("\u0430")) == (False, True)
    assert (is_hidden("\n"), is_imitation("a")) == (False, False)


def test_text_is_blank_where_nothing_of_it_can_be_seen_and_half_a_character_is_left_to_who_refuses_it() -> None:
    assert all(map(is_blank, ("", " \t\n", "\u200b", "\u2800\u3164", "\x00", "\U000e0041")))
    assert not any(map(is_blank, (".", "\u200bx", "\ud800", "\u00e9", "\u6f22")))
