"""The words of a request that can be searched for, and those of a search: one way to split text, the same everywhere.

A word is a run of letters and digits, without case and without compatible forms. It is written in plain letters and
digits, so that every database takes it for one word. What is found has a word that begins so for each that is wanted.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

LONGEST: Final = 64
MOST: Final = 200
MOST_WANTED: Final = 10
_WORD: Final = re.compile(r"[^\W_]+")
_ID: Final = "task_"
_MARK: Final = "id0"


def words_of(texts: Iterable[str | None]) -> tuple[str, ...]:
    """The words of these texts, each once."""
    found = dict.fromkeys(word for text in texts if text for word in _split(text))
    return tuple(found)[:MOST]


def wanted_words(text: str) -> tuple[str, ...]:
    """The words that are searched for; a reference, or the beginning of one, is one word."""
    found: dict[str, None] = {}
    for piece in text.split():
        found |= dict.fromkeys([reference_word(piece)] if piece.startswith(_ID) else _split(piece))
    return tuple(found)[:MOST_WANTED]


def fits(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether `words` have a beginning for each one that is wanted."""
    return bool(wanted) and all(any(word.startswith(begin) for word in words) for begin in wanted)


def reference_word(task_id: str) -> str:
    """A request's id as one word, which no name begins with by chance."""
    return _MARK + "".join(c for c in task_id.removeprefix(_ID).casefold() if c.isascii() and c.isalnum())


def _split(text: str) -> Iterable[str]:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return (_ascii(word)[:LONGEST] for word in _WORD.findall(plain))


def _ascii(word: str) -> str:
    # Letter by letter, so that a beginning stays a beginning.
    return word if word.isascii() else "".join(c if c.isascii() else "x" + c.encode().hex() for c in word)
