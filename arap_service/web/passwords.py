"""Passwords of local accounts: how they are stored and how they are checked.

A check costs the same whether the account exists or not, so that its duration tells nobody which names are known.
RFC 9106 (Argon2id, the library's defaults for memory and passes).
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from arap_service.breached import is_breached

MIN_LENGTH: Final = 12
MAX_LENGTH: Final = 256
COMMON_WORDS: Final = (
    "approval",
    "password",
    "passwort",
    "passw0rd",
    "welcome",
    "letmein",
    "iloveyou",
    "qwerty",
    "qwertz",
    "azerty",
    "1q2w3e",
    "asdfgh",
    "abc123",
    "abcdef",
    "123456",
    "654321",
    "111111",
    "changeme",
    "princess",
    "football",
    "sunshine",
    "dragon",
    "monkey",
    "master",
    "secret",
    "admin",
    "login",
)
"""What the passwords that are tried first are made of; none of ours may hold one."""
_FEWEST: Final = 5
_PARTS: Final = re.compile(r"[^0-9a-z]+")
_HASHER: Final = PasswordHasher()
# That of "no account has this password": what a check for an unknown account is measured against.
# Written down, since making it would be a twentieth of what every command takes to start.
_NOBODY: Final = "$argon2id$v=19$m=65536,t=3,p=4$07Uc9S+Vn5oYg1mHV+DOdw$mJzOWMloeOUzA4b5S5QH2r1p/XapJIQ9EjzMgubtIXE"


class WeakPassword(ValueError):
    """The password is shorter or longer than an account may have; the text says which."""


def hash_password(password: str) -> str:
    """The text to store for `password`; every call gives another.

    Raises:
        WeakPassword: when the length is outside the limits.
    """
    _check_length(password)
    return _HASHER.hash(password)


def check_new(password: str, *, about: Iterable[str], breached: Path | None = None) -> None:
    """Refuse a new password that somebody guesses early who knows whose it is, or what most people take.

    `about` are names of its owner and of this service; whole words of them count from four characters on. `breached` is
    a list of passwords that are known already. It reads a file then, and is meant to run in a thread.

    Raises:
        ListUnusable: Whether it is breached cannot be said.
        WeakPassword: It is breached, holds such a word, says the same few characters again and again, or has a length
            outside the limits.
    """
    _check_length(password)
    folded = password.casefold()
    near = {part for name in about for part in (name.casefold(), *_PARTS.split(name.casefold())) if len(part) >= 4}
    if any(word in folded for word in (*COMMON_WORDS, *near)):
        raise WeakPassword("A password must hold no name of its owner or of this service, and no word that many take.")
    if len(set(folded)) < _FEWEST:
        raise WeakPassword(f"A password needs at least {_FEWEST} different characters.")
    if breached is not None and is_breached(password, breached):
        raise WeakPassword(
            "This password became known elsewhere and is on a list of those that are tried. Take another."
        )


def _check_length(password: str) -> None:
    if len(password) < MIN_LENGTH:
        raise WeakPassword(f"A password needs at least {MIN_LENGTH} characters.")
    if len(password) > MAX_LENGTH:
        raise WeakPassword(f"A password has at most {MAX_LENGTH} characters.")


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
