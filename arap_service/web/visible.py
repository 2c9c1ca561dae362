"""Text as a reader can trust it: characters that hide or reorder others are written out by their number.

It changes what is shown, never what is stored or bound; escaping for HTML comes after it. Unicode Technical Report 36,
"Bidirectional Text Spoofing".
"""

import unicodedata
from typing import Final

# Invisible although their category says otherwise: fillers, joiners, variation selectors.
_BLANK: Final = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]
)
_HIDDEN: Final = frozenset(["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"])


def is_hidden(character: str) -> bool:
    """Whether a reader would not see `character`, or would see others in the wrong place because of it."""
    if character in "\n\t":
        return False
    category = unicodedata.category(character)
    return category in _HIDDEN or ord(character) in _BLANK or (category == "Zs" and character != " ")


def visible(text: object) -> str:
    """`text` with every hidden character written as `⟦U+202E⟧`; doing it twice changes nothing."""
    return "".join(f"⟦U+{ord(char):04X}⟧" if is_hidden(char) else char for char in str(text))
