"""When somebody may be told: quiet hours and digests, by the clock on the wall of where he lives.

Pure: a moment goes in, the first moment at which he may be told comes out. A time that a clock skips in spring counts
as the one that it skips to; of one that a clock shows twice in autumn the next to come counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final, Literal

Digest = Literal["none", "hourly", "daily"]
DIGESTS: Final[tuple[Digest, ...]] = ("none", "hourly", "daily")
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Habits:
    """How somebody wants to be told; quiet hours that begin when they end are none."""

    zone: tzinfo = UTC
    digest: Digest = "none"
    digest_at: time = time(8)
    quiet_from: time | None = None
    quiet_until: time | None = None


ALWAYS: Final = Habits()


def moment_for(habits: Habits, at: datetime) -> datetime:
    """The first moment from `at` on at which somebody with these habits is told."""
    return after_quiet(habits, _digest(habits, at))


def after_quiet(habits: Habits, at: datetime) -> datetime:
    """`at`, or the end of the quiet hours that it lies in."""
    begins, ends = habits.quiet_from, habits.quiet_until
    if begins is None or ends is None or begins == ends:
        return at
    wall = at.astimezone(habits.zone).time()
    is_quiet = begins <= wall < ends if begins < ends else wall >= begins or wall < ends
    return _next(ends, at, habits.zone) if is_quiet else at


def _digest(habits: Habits, at: datetime) -> datetime:
    if habits.digest == "hourly":
        wall = at.astimezone(habits.zone)
        return at + (_HOUR - timedelta(minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond))
    return _next(habits.digest_at, at, habits.zone) if habits.digest == "daily" else at


def _next(wall: time, after: datetime, zone: tzinfo) -> datetime:
    return min(moment for moment in _moments(wall, after, zone) if moment > after)


def _moments(wall: time, around: datetime, zone: tzinfo) -> Iterator[datetime]:
    """When the clock shows this time on the days around a moment; twice where it is set back."""
    today = around.astimezone(zone).date()
    for days in range(-1, 3):
        local = datetime.combine(today + timedelta(days=days), wall, tzinfo=zone)
        for fold in (0, 1):
            moment = local.replace(fold=fold).astimezone(UTC)
            # In spring the two disagree about a time that no clock shows: the first reading is the one after the gap.
            if fold == 0 or moment.astimezone(zone).time() == wall:
                yield moment
