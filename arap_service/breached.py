"""Looks a password up in a list of breached ones that lies on this machine; nothing goes over the network.

The list has the form in which Have I Been Pwned gives it out: one line `HASH:COUNT` for each password, SHA-1 in
hexadecimal digits, ordered by hash. It is searched where it lies and never loaded, however large it is, and opened anew
for each password, so that a newer list counts at once.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import BinaryIO, Final

_LINE: Final = re.compile(rb"([0-9A-Fa-f]{40})(?::[0-9]{1,12})?\r?\n?")
_LONGEST: Final = 128
_SAMPLES: Final = 64


class ListUnusable(Exception):
    """The list is no such list or cannot be read; the text says which, and names no password."""


def is_breached(password: str, path: Path) -> bool:
    """Whether the list at `path` has this password.

    Raises:
        ListUnusable: It cannot be said.
    """
    # What the lists are made with; what we store ourselves is in `web/passwords.py`.
    wanted = hashlib.sha1(password.encode(errors="replace"), usedforsecurity=False).hexdigest().upper().encode()
    try:
        with path.open("rb") as file:
            low, high = 0, os.fstat(file.fileno()).st_size
            while low < high:
                middle = (low + high) // 2
                found = _first_from(file, middle)
                if found is not None and found < wanted:
                    low = middle + 1
                else:
                    high = middle
            return _first_from(file, low) == wanted
    except OSError as error:
        raise ListUnusable(f"{path} cannot be read ({error.strerror})") from None


def check_list(path: Path) -> None:
    """Look at lines all over the list, whether they are of this form and in order.

    Raises:
        ListUnusable: They are not, or there are none.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            seen = [found for part in range(_SAMPLES) if (found := _first_from(file, part * size // _SAMPLES))]
    except OSError as error:
        raise ListUnusable(f"{path} cannot be read ({error.strerror})") from None
    if not seen:
        raise ListUnusable(f"{path} is empty")
    if seen != sorted(seen):
        raise ListUnusable(f"{path} is not ordered by hash")


def _first_from(file: BinaryIO, position: int) -> bytes | None:
    """The hash of the first line that begins at `position` or after it; None after the last."""
    file.seek(max(position - 1, 0))
    if position > 0:
        file.readline(_LONGEST)
    line = file.readline(_LONGEST)
    if not line:
        return None
    read = _LINE.fullmatch(line)
    if read is None:
        raise ListUnusable(f"{file.name} holds something else than lines of a SHA-1 hash and a count")
    return read[1].upper()
