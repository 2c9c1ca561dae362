"""Text as a reader can trust it: characters that hide, reorder or imitate others are written out by their number.

It changes what is shown, never what is stored or bound; escaping for HTML comes after it. Unicode Technical Report 36,
"Bidirectional Text Spoofing", "Mixed-Script Spoofing" and "Numeric Spoofs" (ARS-126).
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

# Invisible although their category says otherwise: fillers, joiners, variation selectors.
_BLANK: Final = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
)
_HIDDEN: Final = frozenset(["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"])
_SPECIAL: Final = re.compile(r"[^\n\t\x20-\x7e]")
# A word goes on where a mark stands on a letter.
_WORD: Final = re.compile(r"[\w\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
_LATIN: Final = re.compile(r"[A-Za-z]")
_IMITATING: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "OSMANYA")
_COPIED: Final = ("<wide>", "<narrow>", "<font>")
_ENCLOSING: Final = "Me"
_MARKS: Final = frozenset(["Mn", "Mc", _ENCLOSING])
_OVERLAY: Final = 1  # the combining class of strokes through a character
# By code point, since they look like what they imitate.
_DIGIT_LIKE: Final = frozenset(map(chr, (0x041E, 0x043E, 0x039F, 0x03BF, 0x0555, 0x0585, 0x0417)))
_SLASHES: Final = "".join(map(chr, (0x2044, 0x2215, 0x29F8, 0x2236, 0xA789, 0x0589, 0x05C3, 0x2024)))
_POINTS: Final = "".join(
    map(chr, (0x201A, 0x060C, 0x066B, 0x066C, 0x00B7, 0x22C5, 0x3001, 0x3002, *range(0xFF0C, 0xFF10), 0xFF1A))
)
_SEPARATOR: Final = re.compile(rf"(?<=[0-9A-Za-z])[{_SLASHES}](?=[0-9A-Za-z])|(?<=[0-9])[{_POINTS}](?=[0-9])")


def is_hidden(character: str) -> bool:
    """Whether a reader would not see `character`, or would see others in the wrong place because of it."""
    if character in "\n\t":
        return False
    category = unicodedata.category(character)
    return category in _HIDDEN or ord(character) in _BLANK or (category == "Zs" and character != " ")


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing of `text` at all; half a character is not nothing, but no text."""
    return all(char.isspace() or (is_hidden(char) and unicodedata.category(char) != "Cs") for char in text)


def is_imitation(character: str) -> bool:
    """Whether `character` looks like a Latin letter or digit that it is not, wherever it stands among Latin ones."""
    if character.isascii():
        return False
    if unicodedata.normalize("NFKC", character).isascii() and character.isalnum():
        return True  # fullwidth, mathematical and similar copies of ASCII
    return unicodedata.name(character, "").startswith(_IMITATING)


def is_copy(character: str) -> bool:
    """Whether `character` is an ASCII letter or digit in another cut, which deceives wherever it stands."""
    if character.isascii() or not unicodedata.decomposition(character).startswith(_COPIED):
        return False
    plain = unicodedata.normalize("NFKC", character)
    return plain.isascii() and plain.isalnum()


def visible(text: str) -> str:
    """`text` with every hidden or imitating character written as `⟦U+202E⟧`; doing it twice changes nothing.

    Letters of another script are imitations only within a word that also has Latin letters, digits of another script
    only within a number, and a mark only where it changes what is read and not how it is spoken.
    """
    if _SPECIAL.search(text) is None:
        return text
    shown = ""
    while shown != text:  # what was written out parts a word in two, so it is looked at again
        shown, text = text, _once(text)
    return shown


def _once(text: str) -> str:
    deceiving = {*_in_words(text), *_marks(text), *(found.start() for found in _SEPARATOR.finditer(text))}

    def shown(found: re.Match[str]) -> str:
        char = found.group()
        return _written(char) if found.start() in deceiving or is_hidden(char) or is_copy(char) else char

    return _SPECIAL.sub(shown, text)


def _in_words(text: str) -> Iterator[int]:
    """Places of imitations within a word, and of digits and letters that are no part of the number they stand in."""
    for word in _WORD.finditer(text):
        letters = word.group()
        if letters.isascii():
            continue
        if _LATIN.search(letters) is not None:
            yield from _where(word, is_imitation)
        elif any(map(_is_digit, letters)):
            foreign = frozenset(letter for letter in letters if letter.isdecimal() and not _is_digit(letter))
            others = {letter for letter in letters if not letter.isdecimal() and not unicodedata.combining(letter)}
            yield from _where(word, (foreign | others if others <= _DIGIT_LIKE else foreign).__contains__)


def _where(word: re.Match[str], deceives: Callable[[str], bool]) -> Iterator[int]:
    return (word.start() + index for index, char in enumerate(word.group()) if deceives(char))


def _is_digit(character: str) -> bool:
    return character.isdecimal() and (character.isascii() or is_copy(character))


def _marks(text: str) -> Iterator[int]:
    """Places of marks that strike through or enclose, and of those that stand on what is no letter."""
    base, after_mark = "", 0
    for found in _SPECIAL.finditer(text):
        char, place = found.group(), found.start()
        category = unicodedata.category(char)
        if category not in _MARKS:
            continue
        if place != after_mark:
            base = text[place - 1 : place]
        after_mark = place + 1
        is_wrong = base.isascii() and not base.isalpha()
        if is_wrong or category == _ENCLOSING or unicodedata.combining(char) == _OVERLAY:
            yield place


def _written(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"
