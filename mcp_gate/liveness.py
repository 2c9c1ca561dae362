"""Which process holds a claim, and whether that process is proved dead. Design section 8, Executor.

Proof is either a lock that the operating system releases when a process ends, on the machine of a SQLite file, or the
operator's word that an instance name belongs to one process at a time. Silence proves nothing: a process that merely
misses its time keeps its claim until the execution deadline.
"""

import os
from pathlib import Path
from typing import IO, Final

from mcp_gate.duty import Duty

try:
    import fcntl
except ImportError:  # no such locks on this system, hence no proof by them
    fcntl = None  # type: ignore[assignment]  # the module is what is absent

SUFFIX: Final = "-workers"


class Liveness:
    """One process's own mark, and its view of the others'."""

    def __init__(self, duty: Duty, *, epoch: str, instance: str | None, database_file: Path | None) -> None:
        self._duty = duty
        self._epoch = epoch
        self._instance = instance
        self._folder = None if database_file is None else Path(f"{database_file}{SUFFIX}")
        self._mark: IO[bytes] | None = None

    def mark(self) -> None:
        """Holds this process's lock until `release` or the process's end."""
        if self._folder is None or self._mark is not None:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._mark = self._locked(self._epoch)

    def release(self) -> None:
        """Lets the lock go, at an orderly end that leaves no claim behind."""
        if self._mark is not None:
            self._mark.close()
            self._mark = None
            self.forget(self._epoch)

    async def is_dead(self, epoch: str) -> bool:
        """Whether the process of `epoch` is proved dead."""
        if epoch == self._epoch:
            return False
        if self._instance is not None and await self._duty.instance_of(epoch) == self._instance:
            return True
        if self._folder is None or not (self._folder / epoch).exists():
            return False
        lock = self._locked(epoch)
        if lock is None:
            return False
        lock.close()
        return True

    def sweep(self) -> None:
        """Removes the marks of dead processes, once their claims are ended."""
        for mark in () if self._folder is None or not self._folder.exists() else tuple(self._folder.iterdir()):
            lock = None if mark.name == self._epoch else self._locked(mark.name)
            if lock is not None:
                lock.close()
                self.forget(mark.name)

    def forget(self, epoch: str) -> None:
        """Removes the mark of one process."""
        if self._folder is not None:
            (self._folder / epoch).unlink(missing_ok=True)

    def _locked(self, epoch: str) -> IO[bytes] | None:
        if self._folder is None or fcntl is None:
            return None
        opened = os.fdopen(os.open(self._folder / epoch, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            opened.close()
            return None
        return opened
