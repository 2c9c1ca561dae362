"""How long the gate waits, how often it asks, and how much one principal may have. Numbers only."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one gate.

    `pending` caps how long a request may stay open and `approval` how long an approval is believed, whatever the
    backend says (PEP-46, PEP-76). `grace` is how long an intent whose answer was lost waits for the call to be
    repeated; `resubmission` how long a chained submission is tried; `chain` how many there may be. After
    `reconciliation` no submission is repeated, because the backend may have forgotten its key (PEP-62). `delivery` is
    how long an outbox row is tried. `lease` keeps other processes off a task that one is working on; it must exceed a
    backend's time-out. `input` is how long answers may take that a request for approval needs before it is made.
    """

    pending: timedelta = timedelta(days=7)
    approval: timedelta = timedelta(days=1)
    execution: timedelta = timedelta(minutes=10)
    retention: timedelta = timedelta(days=1)
    grace: timedelta = timedelta(minutes=10)
    resubmission: timedelta = timedelta(hours=1)
    reconciliation: timedelta = timedelta(days=1)
    delivery: timedelta = timedelta(hours=12)
    input: timedelta = timedelta(hours=1)
    chain: int = 3
    open_tasks: int = 50
    intents_per_minute: int = 30
    poll_first: timedelta = timedelta(seconds=5)
    poll_most: timedelta = timedelta(seconds=60)
    lease: timedelta = timedelta(seconds=90)
    client_poll: timedelta = timedelta(seconds=5)

    def wait_of(self, seconds: float) -> timedelta:
        """The wait that a server asked for, but never so short that the gate spins, nor longer than any request."""
        least, most = self.poll_first.total_seconds(), self.pending.total_seconds()
        return timedelta(seconds=min(max(least, seconds), most))


def backoff(attempts: int, *, first: timedelta, most: timedelta, jitter: Callable[[], float]) -> timedelta:
    """The wait after `attempts` fruitless ones: doubling up to `most`, less up to a fifth by `jitter` in [0, 1)."""
    return min(most, first * (1 << min(attempts, 20))) * (1 - jitter() / 5)
