"""Seals what must not lie readable in a database: arguments, justifications, handles, results.

AES-256-GCM, with the place of a value as associated data, so that a sealed value moved to another row or column
doesn't open. A key ring seals data keys, one per task; the data key seals the task's columns, and destroying it
destroys them (PEP-131, PEP-133). Where keys come from and when they rotate is the caller's business.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION: Final = b"\x01"
_NONCE: Final = 12
_TAG: Final = 16
_KEY: Final = 32

Randomness = Callable[[int], bytes]
"""Gives that many unpredictable bytes; a test may inject a fixed sequence."""


class SealBroken(Exception):
    """The value was altered, moved, cut, or sealed with a key that isn't here; which of these is never told."""

    def __init__(self) -> None:
        super().__init__("a sealed value doesn't open here")


class KeyRing:
    """Named 32-byte keys; the current one seals, any of them opens."""

    def __init__(self, keys: Mapping[str, bytes], current: str, *, random: Randomness = secrets.token_bytes) -> None:
        if current not in keys:
            raise ValueError("the current key isn't in the ring")
        if any(len(key) != _KEY for key in keys.values()):
            raise ValueError(f"a sealing key has {_KEY} bytes")
        if any(not 0 < len(name.encode()) < 256 for name in keys):
            raise ValueError("the name of a sealing key has 1 to 255 bytes")
        self._ciphers = {name.encode(): AESGCM(key) for name, key in keys.items()}
        self._current = current.encode()
        self._random = random

    def __repr__(self) -> str:
        return f"KeyRing({len(self._ciphers)} keys)"

    def seal(self, plaintext: bytes, *, aad: str) -> bytes:
        """Seal under the current key for the place `aad`, which is `table:id:column`."""
        header = _VERSION + bytes([len(self._current)]) + self._current
        return header + _seal(self._ciphers[self._current], plaintext, header + aad.encode(), random=self._random)

    def open_(self, sealed: bytes, *, aad: str) -> bytes:
        """What was sealed for this place.

        Raises:
            SealBroken: when it wasn't sealed by this ring, for this place, unaltered.
        """
        end = 2 + (sealed[1] if len(sealed) > 1 else 0)
        header, name = sealed[:end], sealed[2:end]
        cipher = self._ciphers.get(name)
        if cipher is None or not sealed.startswith(_VERSION):
            raise SealBroken
        return _open(cipher, sealed[end:], header + aad.encode())

    def random(self, count: int) -> bytes:
        """Unpredictable bytes from the ring's source."""
        return self._random(count)


def new_data_key(ring: KeyRing, *, aad: str) -> bytes:
    """A fresh data key, wrapped by the ring for the place `aad`; it exists unwrapped nowhere else."""
    return ring.seal(ring.random(_KEY), aad=aad)


class DataKey:
    """An unwrapped data key; seals and opens the columns of one task."""

    def __init__(self, ring: KeyRing, wrapped: bytes, aad: str) -> None:
        """Unwrap; raises `SealBroken` when the ring cannot."""
        key = ring.open_(wrapped, aad=aad)
        if len(key) != _KEY:
            raise SealBroken
        self._cipher = AESGCM(key)
        self._random = ring.random

    def __repr__(self) -> str:
        return "DataKey(…)"

    def seal(self, plaintext: bytes, *, aad: str) -> bytes:
        """Seal for the place `aad`, which is `table:id:column`."""
        return _VERSION + _seal(self._cipher, plaintext, _VERSION + aad.encode(), random=self._random)

    def open(self, sealed: bytes, *, aad: str) -> bytes:
        """What was sealed for this place.

        Raises:
            SealBroken: when it wasn't sealed by this key, for this place, unaltered.
        """
        if not sealed.startswith(_VERSION):
            raise SealBroken
        return _open(self._cipher, sealed[1:], _VERSION + aad.encode())


def _seal(cipher: AESGCM, plaintext: bytes, bound: bytes, *, random: Randomness) -> bytes:
    nonce = random(_NONCE)
    return nonce + cipher.encrypt(nonce, plaintext, bound)


def _open(cipher: AESGCM, sealed: bytes, bound: bytes) -> bytes:
    if len(sealed) < _NONCE + _TAG:
        raise SealBroken
    try:
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], bound)
    except InvalidTag:
        raise SealBroken from None
