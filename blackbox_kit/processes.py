"""Runs a command of a deployment to its end, and leaves nothing of it behind when nobody waits any longer."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

LONGEST_OUTPUT: Final = 1_000_000
LAST_SECONDS: Final = 5


async def ran(command: Sequence[str], *, folder: Path | None = None) -> tuple[int, bytes]:
    """Run it without a shell; its status, and what it printed. Whoever is cancelled meanwhile ends all that it started.

    Its output is a file, since a server that the command leaves running would hold a pipe open.

    Raises:
        OSError: It cannot be started.
    """
    with tempfile.TemporaryFile() as out:
        process = await anyio.open_process(
            list(command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
            start_new_session=os.name == "posix",
        )
        try:
            status = await process.wait()
        except BaseException:
            await killed(process)
            raise
        out.seek(0)
        return status, out.read(LONGEST_OUTPUT)


async def killed(process: anyio.abc.Process) -> None:
    """End a process and everything that it started; it leads a group of its own where there are groups."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_SECONDS):
        await process.wait()
