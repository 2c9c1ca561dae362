"""`python -P warm.py LOG LIBRARY ...`: runs pytest again and again, each time in a child that has the libraries.

Most of a short run is the import of other people's packages, which no saboteur touches. Modules of this repository are
imported in the child only, so each run sees the files as they are then. One JSON array of arguments a line comes in,
the exit status goes out, or `timeout`; what pytest said is in the file LOG.
"""

import importlib
import json
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Final

import pytest

LONGEST_SECONDS: Final = 900
LIBRARIES: Final = (
    *("alembic.command", "authlib.oauth2.rfc6749", "fastapi", "hypothesis", "jinja2", "joserfc.jwt", "jsonschema_rs"),
    *("mcp.server.mcpserver", "psycopg", "sqlalchemy.ext.asyncio", "sqlmodel", "starlette.testclient", "uvicorn"),
)


def run(arguments: list[str], *, log: str) -> str:
    """Run pytest in a child whose output goes to the file `log`, and say how it ended."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        status = 3
        with suppress(Exception):
            status = int(pytest.main(arguments))
        os._exit(status)
    ended = os.pidfd_open(child)
    try:
        is_done, _, _ = select.select([ended], [], [], LONGEST_SECONDS)
        if not is_done:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        return str(os.waitstatus_to_exitcode(status)) if is_done else "timeout"
    finally:
        os.close(ended)


def main() -> None:
    """Serve until the input ends."""
    for name in sys.argv[2:]:
        # What is not installed here is not needed by any test that can run here.
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        print(run(json.loads(line), log=sys.argv[1]), flush=True)


if __name__ == "__main__":
    main()
