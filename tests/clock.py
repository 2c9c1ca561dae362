"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 4, 30, 20, 0, tzinfo=UTC)


class FakeClock:
    """Stands at `START`; it is a `Callable[[], datetime]`, so the clock itself can be handed to what needs the time."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Move the clock by `seconds`, which may be negative, and return the new present."""
        self._now += timedelta(seconds=seconds)
        return self._now
