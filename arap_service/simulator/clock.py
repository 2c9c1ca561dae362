"""A clock that a behaviour can move: the service's time in a simulator, everywhere at once."""

from datetime import datetime, timedelta

from arap_service.keys import Clock


class MovableClock:
    """`real` plus what it has been moved by so far; it is itself a clock."""

    def __init__(self, real: Clock) -> None:
        self.real = real
        self._offset = timedelta()

    def __call__(self) -> datetime:
        """The service's present."""
        return self.real() + self._offset

    @property
    def moved_seconds(self) -> float:
        """How far it is ahead of the real one."""
        return self._offset.total_seconds()

    def move(self, seconds: float) -> None:
        """Move it on by `seconds`, or back.

        Raises:
            OverflowError: No calendar goes that far.
        """
        offset = self._offset + timedelta(seconds=seconds)
        self.real() + offset
        self._offset = offset
