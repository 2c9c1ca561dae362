"""How often one caller may do one kind of thing: a steady rate with room for a burst of one minute's worth.

Kept in this process only, because a count that instances share would cost every poll a write: with several instances
each has its own count, so a caller's rate is at most the configured one times the number of instances. `/metrics` says
how many were refused and what the limits are. What must hold over all instances, such as the number of open requests of
a client, is counted in the database. Time is an argument, memory is bounded. ARS-06, PDP-13, PDP-47.
"""

import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from arap_service.domain.errors import RateLimited
from arap_service.keys import Clock

_MOST: Final = 20_000


class Rates:
    """Counts by kind and caller; `per_minute` holds the kinds that are limited, `refused` is told of each refusal."""

    def __init__(
        self, per_minute: Mapping[str, int], *, clock: Clock, refused: Callable[[str], None] = lambda _: None
    ) -> None:
        self._per_minute = dict(per_minute)
        self._clock = clock
        self._refused = refused
        self._origin = clock()
        self._due: dict[tuple[str, str], float] = {}

    def take(self, kind: str, who: str) -> int | None:
        """Count one; None if it is within the rate, else the whole seconds to wait (and then it is not counted)."""
        spacing = 60 / self._per_minute[kind]
        now = (self._clock() - self._origin) / timedelta(seconds=1)
        # `due` runs ahead of `now` by one spacing for each thing done lately; a minute ahead is the limit. It is
        # further ahead only where the clock was set back: then it is forgotten, or nobody got in until that caught up.
        due = self._due.get((kind, who), now)
        due = due if now < due <= now + 60 else now
        over = due + spacing - now - 60
        if over > 1e-9:
            self._refused(kind)
            return max(1, math.ceil(over))
        if len(self._due) >= _MOST:
            self._due = {key: then for key, then in self._due.items() if now < then <= now + 60}
        self._due[kind, who] = due + spacing
        return None

    def check(self, kind: str, who: str) -> None:
        """Count one.

        Raises:
            RateLimited: It is one too many for now.
        """
        wait = self.take(kind, who)
        if wait is not None:
            raise RateLimited(retry_after=wait)
