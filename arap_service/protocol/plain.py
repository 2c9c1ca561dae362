"""The canonical form of plain JSON values, written by the encoder of the standard library, which is in C.

Decides which values are plain: those that RFC 8785 has no rule of its own for. `canonical` writes all others.
"""

import json
from typing import Any, Final

SAFE_INTEGER: Final = 2**53 - 1
_MOST: Final = 1_000_000  # a value that contains itself would be looked through for ever
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def plain_form(value: object) -> bytes | None:
    """The canonical form of `value`, or None unless it is plain.

    Raises:
        RecursionError, UnicodeEncodeError: It has no such form, being nested too deeply or no proper text.
    """
    return _ENCODER.encode(value).encode() if _is_plain(value) else None


def _is_plain(value: object) -> bool:
    """Whether it holds no fraction, no large number, no name beyond ASCII (their order differs), and only JSON."""
    values: list[Any] = [value]
    for found in values:  # which grows meanwhile
        kind = type(found)  # exactly, since a subclass may be written otherwise
        if kind is dict:
            if not all(type(name) is str and name.isascii() for name in found):
                return False
            values += found.values()
        elif kind is list or kind is tuple:
            values += found
        elif kind is int:
            if not -SAFE_INTEGER <= found <= SAFE_INTEGER:
                return False
        elif kind is not str and kind is not bool and found is not None:
            return False
        if len(values) > _MOST:
            return False
    return True
