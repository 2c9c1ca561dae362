"""The pauses in the tests: between two looks at another process, which has no event that this one could wait for.

It is no proof of anything; whatever is awaited is bounded by the caller, and ends as soon as it is so.
"""

import time
from typing import Final

import anyio

PAUSE_SECONDS: Final = 0.02


async def pause() -> None:
    """Let the other process go on for a moment."""
    await anyio.sleep(PAUSE_SECONDS)


async def as_told(seconds: float) -> None:
    """Wait as an enforcement point must that was told `Retry-After`; a service judges whether it did."""
    await anyio.sleep(seconds)


def pause_now() -> None:
    """Like `pause`, without an event loop."""
    time.sleep(PAUSE_SECONDS)
