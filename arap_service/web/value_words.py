"""How the desk shows one value: long ones folded with their end in sight, numbers in groups, moments with a zone.

What is shown beside a value is only another way to write it: the value itself stands there whole and unchanged.
"""

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from arap_service.protocol.arap import parse_instant

LONG: Final = 1_500
MANY_LINES: Final = 40
_SHOWN: Final = 500
_SHOWN_LINES: Final = 12
_BLANKS: Final = re.compile(r"[ \t]{30,}|(?:[ \t]*\n){5,}")
_LOCAL_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?", re.ASCII)
_MOST_ZEROS: Final = 30
_WRITTEN_OUT: Final = re.compile(r"⟦U\+([0-9A-F]{4,6})⟧")
_MOST_LETTERS: Final = 5


@dataclass(frozen=True, slots=True)
class Folded:
    """A long text by its two ends; `between` characters are not in them."""

    head: str
    tail: str
    between: int
    characters: int
    lines: int


def folded(text: str) -> Folded | None:
    """The two ends of a text that is too long to be read at a glance; None for any other."""
    lines = text.count("\n") + 1
    if len(text) <= LONG and lines <= MANY_LINES:
        return None
    head = "\n".join(text[:_SHOWN].split("\n")[:_SHOWN_LINES])
    tail = "\n".join(text[-_SHOWN:].split("\n")[-_SHOWN_LINES:])
    if len(head) + len(tail) >= len(text):
        return None
    return Folded(head, tail, len(text) - len(head) - len(tail), len(text), lines)


def gaps(text: str) -> bool:
    """Whether there is so much blank space within the text that its rest may be overlooked."""
    return _BLANKS.search(text.strip()) is not None


def grouped(text: str) -> str | None:
    """A number of at least five digits with its digits in groups, each of them; None where that adds nothing."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > _MOST_ZEROS:
        return None
    plain = f"{number:f}"
    shown = f"{number:,f}"
    return None if shown == text or (plain == text and abs(number) < 10_000) else shown


def letters(text: str) -> list[str]:
    """The names of characters that were written out in a text, each once, and the first few of them."""
    codes = list(dict.fromkeys(_WRITTEN_OUT.findall(text)))[:_MOST_LETTERS]
    named = ((code, unicodedata.name(chr(int(code, 16)), "")) for code in codes if int(code, 16) < 0x110000)
    return [f"U+{code} is {name.capitalize()}" for code, name in named if name]


def instant(text: str) -> datetime | None:
    """The moment that a text names with its zone."""
    try:
        return parse_instant(text)
    except ValueError:
        return None


def lacks_zone(text: str) -> bool:
    """Whether a text names a date and time and does not say in which zone."""
    return _LOCAL_TIME.fullmatch(text) is not None
