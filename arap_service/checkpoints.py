"""Named points between what is promised and what is done, where a test may end the process.

In a running service a checkpoint does nothing. The command line installs `killing` when the environment asks for it, so
that the crash tests can stop a real process at exactly that instruction.
"""

import os
import signal
from collections.abc import Callable

Checkpoint = Callable[[str], None]


def passing(name: str) -> None:
    """Go on, whatever `name` is."""
    del name


def killing(where: str | None) -> Checkpoint:
    """End this process by SIGKILL at the point `where`, or at its n-th passage when it reads `point:n`; None: never."""
    if where is None:
        return passing
    target, _, nth = where.partition(":")
    left = int(nth or 1)

    def checkpoint(name: str) -> None:
        nonlocal left
        if name != target:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return checkpoint
