"""Closes the network for tests, except loopback and local sockets.

The attempt raises, and it is also kept, so that code that swallows the error still fails its test.
"""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest

LOCAL_NAMES = frozenset({"", "localhost"})


class NetworkClosed(RuntimeError):
    """A test tried to reach something that is not this machine."""


class NetworkGuard:
    """Remembers every attempt to leave the machine since it was last asked."""

    def __init__(self) -> None:
        self._attempts: list[str] = []

    def take(self) -> list[str]:
        """What was tried since the last call, oldest first."""
        attempts, self._attempts = self._attempts, []
        return attempts

    def check(self, host: object) -> None:
        """Let a loopback address or name pass.

        Raises:
            NetworkClosed: for every other host.
        """
        if not _is_local(host):
            self._attempts.append(str(host))
            raise NetworkClosed(f"tests may reach this machine only, not {host!r}")

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put the check before connecting, sending and looking up names."""
        patch.setattr(socket.socket, "connect", self._guarded(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", self._guarded(socket.socket.connect_ex))
        patch.setattr(socket.socket, "sendto", self._guarded(socket.socket.sendto))
        look_up = socket.getaddrinfo

        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            self.check(host)
            return look_up(host, *args, **kwargs)

        patch.setattr(socket, "getaddrinfo", getaddrinfo)

    def _guarded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(sock: socket.socket, *args: Any) -> Any:
            if sock.family in {socket.AF_INET, socket.AF_INET6}:
                self.check(args[-1][0])  # the address is the last argument of all three
            return original(sock, *args)

        return guarded


def _is_local(host: object) -> bool:
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if text is None:
        return True
    if not isinstance(text, str):
        return False
    if text.lower() in LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # The wildcard is where a server listens; connecting to it stays on this machine.
    return address.is_loopback or address.is_unspecified
