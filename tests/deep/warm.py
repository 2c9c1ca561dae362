"""`python -P warm.py LOG LIBRARY ...`: runs pytest again and again, each time in a child that has the libraries.

Most of a short run is the import of other people's packages, which no saboteur touches. Modules of this repository are
imported in the child only, so each run sees the files as they are then. One JSON array a line comes in: how many
seconds of the processor the run may use, or null, and the arguments. The exit status goes out, or `timeout`; what
pytest said is in the file LOG.
"""

import gc
import importlib.metadata
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from typing import Final

import pytest

LONGEST_SECONDS: Final = 900
MOST_BYTES: Final = 8 * 2**30
LIBRARIES: Final = (
    *("alembic.command", "authlib.oauth2.rfc6749", "fastapi", "hypothesis", "jinja2", "joserfc.jwt", "jsonschema_rs"),
    *("mcp.server.mcpserver", "psycopg", "sqlalchemy.ext.asyncio", "sqlmodel", "starlette.testclient", "uvicorn"),
)


def run(arguments: list[str], *, log: str, seconds: int | None) -> str:
    """Run pytest in a child whose output goes to the file `log`, and say how it ended.

    With `seconds` it is ended when it has used so many of the processor, or far more memory than any test needs.
    """
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        status = 3
        if seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        with suppress(Exception):
            status = int(pytest.main(arguments))
        os._exit(status)
    ended = os.pidfd_open(child)
    try:
        is_done, _, _ = select.select([ended], [], [], LONGEST_SECONDS)
        if not is_done:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        ended_with = os.waitstatus_to_exitcode(status)
        return str(ended_with) if is_done and ended_with != -signal.SIGXCPU else "timeout"
    finally:
        os.close(ended)


def main() -> None:
    """Serve until the input ends."""
    for name in sys.argv[2:]:
        # What is not installed here is not needed by any test that can run here.
        with suppress(ImportError):
            importlib.import_module(name)
    # Their plugins too: pytest would compile them anew in each run, since it may not store what it made of them.
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        with suppress(ImportError):
            importlib.import_module(plugin.module)
    gc.freeze()
    for line in sys.stdin:
        seconds, *arguments = json.loads(line)
        print(run(arguments, log=sys.argv[1], seconds=seconds), flush=True)


if __name__ == "__main__":
    main()
