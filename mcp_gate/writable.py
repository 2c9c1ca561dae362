"""What may come in as an identifier or an answer, and how it is shown on a terminal.

Text that comes in is one that databases, hashes and the wire can all carry.

JSON can name lone surrogates, which have no UTF-8 form, and NUL, which PostgreSQL keeps in no text column. Pure.
"""

import json
import re
from typing import Any, Final

_TASK_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_task_id(text: str) -> bool:
    """Whether the gate could have issued `text` as a task's id; nothing else is worth looking up."""
    return _TASK_ID.fullmatch(text) is not None


def is_writable(text: str) -> bool:
    """Whether a text column of either database keeps `text`."""
    return "\0" not in text and is_encodable(text)


def is_encodable(value: Any) -> bool:
    """Whether a JSON value has a UTF-8 form."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def visible(text: str) -> str:
    """`text` for a terminal: what one would obey or not show is written as an escape, line ends excepted."""
    return "".join(char if char == "\n" or char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0xA0 else json.dumps(char)[1:-1]
