"""Servers that mean ill, and people who stop a run: no traceback, nothing secret, nothing that a terminal obeys."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.gate.live import serving
from tests.patience import pause
from tests.sep2848.faults import HasNoDisposition
from tests.sep2848.plain_gate import APPROVAL, TASKS, Json, PlainGate
from tests.sep2848.plain_server import app, control_file
from tests.sep2848.test_command import ROOT, conformance

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
DISCOVERED: Json = {"capabilities": {"extensions": {TASKS: {}, APPROVAL: {}}}}
CLEAR = "\x1b[2J\x1b[1;32mALL PASSED\x1b[0m"
SECRET = "tok-" + "z7" * 20
HANGS = ["sh", "-c", "touch begun; sleep 300"]


def answering(text: str) -> Starlette:
    """Declares everything, and answers everything else with this body; ID and TOKEN in it are the request's."""

    async def answer(request: Request) -> Response:
        asked = json.loads(await request.body())
        said = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": DISCOVERED})
        if asked.get("method") != "server/discover":
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            said = text.replace("ID", str(asked.get("id"))).replace("TOKEN", token)
        return Response(said, media_type="application/json")

    return Starlette(routes=[Route("/mcp", answer, methods=["POST"])])


def failing(message: str) -> str:
    return '{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":' + message + "}}"


async def reported(folder: Path, subject: Starlette, *more: str) -> tuple[int, str, dict[str, Any]]:
    """The status of a run of the group creation, everything that it wrote and printed, and its report."""
    async with serving(subject) as base:
        control = control_file(folder, base)
        (folder / "alice").write_text(SECRET)
        files = ("--json", "all.json", "--junit", "all.xml", "--checks", "checks.json")
        wanted = more or ("--only", "creation")
        said = await conformance("--url", f"{base}/mcp", "--control", str(control), *wanted, *files, folder=folder)
    written = "".join((folder / name).read_text() for name in ("all.json", "all.xml", "checks.json"))
    return said.status, said.out + said.err + written, json.loads((folder / "all.json").read_text())


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":ID,"result":{"a":' + "[" * 900 + "]" * 900 + "}}",
        '{"jsonrpc":"2.0","id":[],"result":{}}',
        failing('"\\ud800 half"'),
        failing(json.dumps(CLEAR)),
    ],
    ids=["deep", "an odd id", "half a character", "orders to a terminal"],
)
async def test_whatever_is_answered_there_are_verdicts_and_reports(tmp_path: Path, text: str) -> None:
    status, everything, report = await reported(tmp_path, answering(text))
    assert status in {1, 3}
    assert len(report["checks"]) == 11
    assert "Traceback" not in everything
    assert "\x1b" not in everything


async def test_what_a_terminal_would_obey_is_shown_and_not_sent(tmp_path: Path) -> None:
    _, everything, _ = await reported(tmp_path, answering(failing(json.dumps(CLEAR))), "--only", "handle-shape")
    assert "\\x1b[2J" in everything
    assert "ALL PASSED" in everything


@pytest.mark.parametrize("before", [0, 78, 560, 590])
async def test_a_token_that_is_echoed_where_a_text_is_cut_shows_no_part_of_itself(tmp_path: Path, before: int) -> None:
    text = failing(f'"{"x" * before}TOKEN Carol {"y" * 700}"')
    _, everything, _ = await reported(tmp_path, answering(text), "--only", "handle-shape")
    assert "z7z7" not in everything
    assert "Carol" not in everything


async def test_a_run_that_is_interrupted_says_what_it_has_seen_and_leaves_no_task_open(tmp_path: Path) -> None:
    gate = PlainGate()
    async with serving(app(gate)) as base:
        control = control_file(tmp_path, base, verbs={"approve": {"run": HANGS}}, seconds={"verb": 300})
        arguments = ["--url", f"{base}/mcp", "--control", str(control), "--json", "all.json"]
        only = ["--only", "handle-shape", "--only", "approved-executes", "--only", "executed-body"]
        command = [sys.executable, "-m", "mcp_gate", "conformance", *arguments, *only]
        surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        process = await anyio.open_process(
            command, cwd=tmp_path, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        told = b""
        with anyio.fail_after(120):
            while b"handle-shape" not in told:
                told += await process.stderr.receive()
            while not (tmp_path / "begun").exists():
                await pause()
            process.send_signal(signal.SIGINT)
            async for piece in process.stderr:
                told += piece
            assert await process.wait() == 3
        await process.aclose()
    verdicts = {
        one["id"]: (one["verdict"], one["note"]) for one in json.loads((tmp_path / "all.json").read_text())["checks"]
    }
    assert verdicts["sep-2848-handle-shape"] == ("pass", "")
    for name in ("approved-executes", "executed-body"):
        assert verdicts[f"sep-2848-{name}"] == ("error", "the run was interrupted before it")
    assert {task["status"] for task in gate.tasks.values()} == {"cancelled"}
    assert told.endswith(b"mcp-gate: interrupted\n")
    assert b"Traceback" not in told


async def test_a_report_that_cannot_be_written_in_the_end_takes_neither_verdict_nor_other_reports(
    tmp_path: Path,
) -> None:
    async with serving(app(HasNoDisposition())) as base:
        control = control_file(tmp_path, base)
        arguments = ("--url", f"{base}/mcp", "--control", str(control), "--only", "executed-disposition")
        said = await conformance(*arguments, "--json", "/dev/full", "--junit", "all.xml", folder=tmp_path)
    assert said.status == 1
    assert said.err.splitlines()[-1] == "mcp-gate: the report /dev/full cannot be written (no space left on device)"
    assert 'failures="1"' in (tmp_path / "all.xml").read_text()
