"""Text as a reader can trust it: characters that hide, reorder or imitate others are written out by their number.

It changes what is shown, never what is stored or bound; escaping for HTML comes after it. Unicode Technical Report 36,
"Bidirectional Text Spoofing" and "Mixed-Script Spoofing" (ARS-126).
"""

import re
import unicodedata
from typing import Final

# Invisible although their category says otherwise: fillers, joiners, variation selectors.
_BLANK: Final = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
)
_HIDDEN: Final = frozenset(["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"])
_SPECIAL: Final = re.compile(r"[^\n\t\x20-\x7e]")
_WORD: Final = re.compile(r"\w+")
_LATIN: Final = re.compile(r"[A-Za-z]")
_IMITATING: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "OSMANYA")


def is_hidden(character: str) -> bool:
    """Whether a reader would not see `character`, or would see others in the wrong place because of it."""
    if character in "\n\t":
        return False
    category = unicodedata.category(character)
    return category in _HIDDEN or ord(character) in _BLANK or (category == "Zs" and character != " ")


def is_imitation(character: str) -> bool:
    """Whether `character` looks like a Latin letter or digit that it is not, wherever it stands among Latin ones."""
    if character.isascii():
        return False
    if unicodedata.normalize("NFKC", character).isascii() and character.isalnum():
        return True  # fullwidth, mathematical and similar copies of ASCII
    return unicodedata.name(character, "").startswith(_IMITATING)


def visible(text: str) -> str:
    """`text` with every hidden or imitating character written as `⟦U+202E⟧`; doing it twice changes nothing.

    Letters of another script are imitations only within a word that also has Latin letters.
    """
    if _SPECIAL.search(text) is None:
        return text
    shown = _WORD.sub(_unmixed, text)
    return "".join(_written(char) if is_hidden(char) else char for char in shown)


def _unmixed(word: re.Match[str]) -> str:
    letters = word.group()
    if letters.isascii() or _LATIN.search(letters) is None:
        return letters
    return "".join(_written(char) if is_imitation(char) else char for char in letters)


def _written(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"
