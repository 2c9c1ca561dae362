"""The fixture of the conformance suite as a process of its own, started as `make serve-conformance` starts it."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.node.programs import PATIENCE_SECONDS, ROOT

SAYS: Final = "Serving "


@contextmanager
def serving() -> Iterator[str]:
    """The URL of the fixture, for as long as the context lasts; it ends with its standard input."""
    # The environment is there already, and of what the outer make says nothing is meant for this one.
    command = ["make", "-s", "-o", ".venv/.demo", "serve-conformance", "PORT=0", "DIE_WITH_STDIN=1"]
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    with subprocess.Popen(
        [*command, f"RUN={sys.executable}"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # A server that never comes up is ended, so that nobody waits for its first line for ever.
        watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
        watchdog.start()
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith(SAYS):
                    break
            watchdog.cancel()
            assert said, "the fixture said nothing"
            assert said[-1].startswith(SAYS), "".join(said)
            # What it says from now on is read away, so that it never waits for a reader.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield said[-1].removeprefix(SAYS).strip()
        finally:
            watchdog.cancel()
            process.stdin.close()
            process.wait(PATIENCE_SECONDS)
