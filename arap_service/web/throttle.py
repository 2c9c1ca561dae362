"""How often a password may be tried: per account and address, per account, and per address.

Counts live in this process: several instances admit as many times more. What happens to an attempt that is not admitted
is decided by `login`.
"""

import hashlib
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
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def admits(self, login: str, *, address: str) -> bool:
        """Whether one more attempt is allowed now; asking counts as the attempt."""
        name = _key(login)
        counted = (
            self._limiter.hit(PER_ADDRESS, "address", address),
            self._limiter.hit(PER_PAIR, "pair", name, address),
            self._limiter.hit(PER_ACCOUNT, "account", name),
        )
        return all(counted)

    def admits_away(self, address: str) -> bool:
        """Whether one more browser of this address may be sent to the provider."""
        return self._limiter.hit(PER_ADDRESS_AWAY, "away", address)

    def forgive(self, login: str, *, address: str) -> None:
        """Forget the failures of somebody who has now proved who he is."""
        self._limiter.clear(PER_PAIR, "pair", _key(login), address)


def _key(login: str) -> str:
    # Names are chosen by whoever asks, so their length must not reach the memory.
    return hashlib.sha256(login.encode(errors="replace")).hexdigest()
