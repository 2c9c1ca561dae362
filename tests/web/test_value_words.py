"""Numbers in groups, moments with their zone, long texts by both ends: beside the value, never instead of it."""

from datetime import UTC, datetime

import pytest

from arap_service.web.value_words import folded, gaps, grouped, instant, lacks_zone, letters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("50000", "50,000"),
        ("-1234567.8901", "-1,234,567.8901"),
        ("9007199254740993", "9,007,199,254,740,993"),
        ("1e+21", "1,000,000,000,000,000,000,000"),
        ("0.1", None),
        ("1000", None),
        ("1e-07", "0.0000001"),
        ("1e+300", None),
        ("NaN", None),
        ("DE1", None),
    ],
)
def test_digits_are_grouped_and_none_is_lost(text: str, shown: str | None) -> None:
    assert grouped(text) == shown


def test_a_long_text_shows_both_ends_and_says_what_is_between() -> None:
    text = "begin" + "x" * 20_000 + "the point"
    long = folded(text)
    assert long is not None
    assert long.head.startswith("begin")
    assert long.tail.endswith("the point")
    assert long.between == len(text) - len(long.head) - len(long.tail)
    assert folded("x" * 1_500) is None


def test_many_lines_are_a_long_text_too() -> None:
    text = "\n".join(["first", *[""] * 60, "last"])
    long = folded(text)
    assert long is not None
    assert (long.head.split("\n")[0], long.tail.split("\n")[-1], long.lines) == ("first", "last", 62)
    assert gaps(text)
    assert not gaps("a\n\nb")


def test_only_a_moment_with_a_zone_is_one() -> None:
    assert instant("2026-04-30T22:00:00+02:00") == datetime(2026, 4, 30, 20, tzinfo=UTC)
    assert instant("2026-04-30T22:00:00") is None
    assert [lacks_zone(text) for text in ("2026-04-30T22:00", "2026-04-30 22:00:01.5", "2026-04-30T22:00Z", "x")] == [
        True,
        True,
        False,
        False,
    ]


def test_characters_that_were_written_out_are_named_once_each() -> None:
    assert letters("p⟦U+0430⟧per⟦U+0430⟧⟦U+202E⟧") == [
        "U+0430 is Cyrillic small letter a", "U+202E is Right-to-left override",
    ]  # fmt: skip
    assert letters("nothing odd, U+0430") == []
    assert letters("⟦U+0007⟧⟦U+FFFFFF⟧") == [], "what has no name is told by its number alone"
    assert len(letters("".join(f"⟦U+04{number:02X}⟧" for number in range(0x30, 0x4F)))) == 5
