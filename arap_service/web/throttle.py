"""How often a password may be tried: per account and address, per account, and per address.

Counts live in this process: several instances admit as many times more. What happens to an attempt that is not admitted
is decided by `login`.
"""

import hashlib
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from limits import RateLimitItem, RateLimitItemPerHour, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

# An account's own limit is generous: otherwise strangers could lock its owner out.
PER_PAIR: Final[RateLimitItem] = RateLimitItemPerMinute(10, 5)
PER_ACCOUNT: Final[RateLimitItem] = RateLimitItemPerHour(200)
PER_ADDRESS: Final[RateLimitItem] = RateLimitItemPerMinute(60, 5)
PER_ADDRESS_AWAY: Final[RateLimitItem] = RateLimitItemPerMinute(120, 5)
RETRY_SECONDS: Final = 300


class Throttle:
    """Counts attempts; `admits` is asked once before each of them."""

    def __init__(self) -> None:
        self._storage = MemoryStorage()
        self._limiter = MovingWindowRateLimiter(self._storage)

    @property
    def counted(self) -> int:
        """How many counts are kept."""
        return len(self._storage.events)

    def admits(self, login: str, *, address: str) -> bool:
        """Whether one more attempt is allowed now; asking counts as the attempt.

        What one limit refuses does not count for the next: whoever goes on at an address that is refused would else use
        up what its owner has, and fill the memory with names.
        """
        name, place = _key(login), _place(address)
        return (
            self._limiter.hit(PER_ADDRESS, "address", place)
            and self._limiter.hit(PER_PAIR, "pair", name, place)
            and self._limiter.hit(PER_ACCOUNT, "account", name)
        )

    def admits_away(self, address: str) -> bool:
        """Whether one more browser of this address may be sent to the provider."""
        return self._limiter.hit(PER_ADDRESS_AWAY, "away", _place(address))

    def forgive(self, login: str, *, address: str) -> None:
        """Forget the failures of somebody who has now proved who he is."""
        self._limiter.clear(PER_PAIR, "pair", _key(login), _place(address))


def _key(login: str) -> str:
    # Names are chosen by whoever asks, so their length must not reach the memory.
    return hashlib.sha256(login.encode(errors="replace")).hexdigest()


def _place(address: str) -> str:
    """What counts as one address: of IPv6 a network of /64, of which one connection has every address."""
    try:
        read = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(read, IPv6Address):
        return str(read)
    return str(read.ipv4_mapped or ip_network((read, 64), strict=False))
