"""The demonstration as a process of its own, as `make demo` starts it, and what it printed."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PATIENCE_SECONDS: Final = 120.0


class Demo:
    """A running demonstration; its output is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self._lines.append(line)
                self._more.notify_all()
        with self._more:
            self._lines.append("")
            self._more.notify_all()

    @property
    def output(self) -> str:
        """Everything that it printed so far."""
        with self._more:
            return "".join(self._lines)

    def until(self, seen: Callable[[str], bool]) -> str:
        """The output once `seen` holds for it; fails when the demonstration ends before."""
        with self._more:
            arrived = self._more.wait_for(
                lambda: seen("".join(self._lines)) or self._lines[-1:] == [""], PATIENCE_SECONDS
            )
            text = "".join(self._lines)
        assert arrived, f"nothing more came:\n{text}"
        assert seen(text), f"it ended early:\n{text}"
        return text

    def ended(self) -> int:
        """Its status, once it has ended by itself."""
        status = self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return status


@contextmanager
def demo(*options: str, folder: Path) -> Iterator[Demo]:
    """Run the demonstration with its files in `folder`; whatever happens, it is ended at the end of the block."""
    command = [sys.executable, "-m", "examples.demo", "--folder", str(folder), *options]
    environment = {**os.environ, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Demo(process)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(PATIENCE_SECONDS)
