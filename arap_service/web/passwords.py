"""Passwords of local accounts: how they are stored and how they are checked.

A check costs the same whether the account exists or not, so that its duration tells nobody which names are known.
RFC 9106 (Argon2id, the library's defaults for memory and passes).
"""

from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 256
_HASHER: Final = PasswordHasher()
# Nobody's password: what a check for an unknown account is measured against.
_NOBODY: Final = _HASHER.hash("no account has this password")


class WeakPassword(ValueError):
    """The password is shorter or longer than an account may have; the text says which."""


def hash_password(password: str) -> str:
    """The text to store for `password`; every call gives another.

    Raises:
        WeakPassword: when the length is outside the limits.
    """
    if len(password) < MIN_LENGTH:
        raise WeakPassword(f"A password needs at least {MIN_LENGTH} characters.")
    if len(password) > MAX_LENGTH:
        raise WeakPassword(f"A password has at most {MAX_LENGTH} characters.")
    return _HASHER.hash(password)


def is_password(password: str, *, stored: str | None) -> bool:
    """Whether `password` is the one behind `stored`; without an account the work is done all the same, in vain.

    It takes tens of milliseconds and is meant to run in a thread.
    """
    try:
        _HASHER.verify(stored or _NOBODY, password[:MAX_LENGTH])
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False
    return stored is not None and len(password) <= MAX_LENGTH


def is_outdated(stored: str) -> bool:
    """Whether `stored` was made with weaker parameters than today's and should be made anew."""
    return _HASHER.check_needs_rehash(stored)
