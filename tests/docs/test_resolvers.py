"""docs/resolvers.md: its loop and its command decide at a real service, for a real call behind the real gate."""

import os
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from arap_service.client import AsyncResolver
from tests.docs.pages import DOCS, ROOT, blocks
from tests.service import SECRET
from tests.stories.bank import bank, disposition

COMMAND, LOOP = (block.text for block in blocks((DOCS / "resolvers.md").read_text(encoding="utf-8")))
POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{id: risk, title: Risk, resolvers: [resolver]}]
"""


def loop_of_the_page() -> Callable[[AsyncResolver], Coroutine[Any, Any, None]]:
    names: dict[str, Any] = {}
    exec("async def loop(resolver):\n" + textwrap.indent(LOOP, "    "), names)  # noqa: S102  # the code of our own page
    found: Callable[[AsyncResolver], Coroutine[Any, Any, None]] = names["loop"]
    return found


@contextmanager
def command_of_the_page(url: str, folder: Path) -> Iterator[None]:
    script = (
        COMMAND.replace("https://approvals.example", url)
        .replace("…", shlex.quote(SECRET))
        .replace("risk-engine", "resolver")
    )
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with (folder / "engine.log").open("wb") as log:
        running = subprocess.Popen(
            ["bash", "-ec", script.replace("python -m", "exec python -m")],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            stdout=log,
            stderr=log,
        )
        try:
            yield
            assert running.poll() is None, (folder / "engine.log").read_text()
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)


@pytest.mark.anyio
async def test_the_loop_decides_what_waits(service_url: str, tmp_path: Path) -> None:
    async with bank(tmp_path, service_url, POLICY) as told, anyio.create_task_group() as group:
        group.start_soon(loop_of_the_page(), told.resolver)
        assert disposition(await told.transfer(500)) == "denied-not-executed"
        assert told.ran == []
        [denied] = [each async for each in told.resolver.queue(status="denied")]
        [vote] = (await told.resolver.get(denied["id"]))["votes"]
        assert vote["reason"] == "…"
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_the_command_runs_an_engine_that_decides(service_url: str, tmp_path: Path) -> None:
    async with bank(tmp_path, service_url, POLICY) as told:
        with command_of_the_page(told.live.url, tmp_path):
            assert disposition(await told.transfer(50_000, to="Stranger")) == "denied-not-executed"
        assert told.ran == []
