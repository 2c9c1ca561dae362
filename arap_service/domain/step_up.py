"""Whether somebody has proved freshly enough who he is to decide a request whose template demands that.

It is demanded of people, whatever way they come by; a machine that a step names cannot log in, and is named by whoever
wrote the rules. Who may decide at all is `reviewers.py`. RFC 9470 for the idea.
"""

from datetime import datetime, timedelta
from typing import Final

DEFAULT_SECONDS: Final = 300
"""What `step_up: true` means."""


def step_up_seconds(said: bool | int) -> int | None:  # noqa: FBT001 - what stands in the rules file
    """How old a log-in may be by the member `step_up` of a template; None where that does not matter."""
    if said is True:
        return DEFAULT_SECONDS
    return said or None


def is_fresh(proved_at: datetime | None, *, seconds: int, now: datetime) -> bool:
    """Whether a log-in at `proved_at` is no older than `seconds`; one in the future proves nothing."""
    return proved_at is not None and timedelta() <= now - proved_at <= timedelta(seconds=seconds)
