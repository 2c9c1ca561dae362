"""Who wants to know at once when a task changed in this process.

A bell is a hint to look, and nothing depends on it: whoever watches also looks from time to time, because other
processes ring no bell here.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import anyio


class Watch:
    """One watcher's bell."""

    def __init__(self) -> None:
        self._bell = anyio.Event()

    def ring(self) -> None:
        """Something changed."""
        self._bell.set()

    async def wait(self, most: float) -> None:
        """Wait until something changed since the last waiting, but no longer than `most` seconds."""
        with anyio.move_on_after(most):
            await self._bell.wait()
        self._bell = anyio.Event()


class Watchers:
    """The bells of every task that somebody watches."""

    def __init__(self) -> None:
        self._watches: dict[str, set[Watch]] = {}

    def ring(self, task_id: str) -> None:
        """The task changed; call it in the loop's own thread."""
        for watch in self._watches.get(task_id, ()):
            watch.ring()

    @contextmanager
    def watching(self, task_ids: Collection[str]) -> Iterator[Watch]:
        """A bell for changes of these tasks."""
        watch = Watch()
        for task_id in task_ids:
            self._watches.setdefault(task_id, set()).add(watch)
        try:
            yield watch
        finally:
            for task_id in task_ids:
                self._watches[task_id].discard(watch)
                if not self._watches[task_id]:
                    del self._watches[task_id]
