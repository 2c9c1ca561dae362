"""Until when the approval lasts under which a tool is being run, for whoever makes credentials for that one call.

Set around an invocation by the executor; unset for calls that need no approval. PEP-107.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

_until: ContextVar[datetime | None] = ContextVar("mcp_gate_approved_until", default=None)


@contextmanager
def within(until: datetime | None) -> Iterator[None]:
    """Run a block under an approval that lasts `until`."""
    token = _until.set(until)
    try:
        yield
    finally:
        _until.reset(token)


def approved_until() -> datetime | None:
    """The end of the approval that the present call runs under; None without one."""
    return _until.get()
