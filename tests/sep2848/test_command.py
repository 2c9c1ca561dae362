"""`mcp-gate conformance` as it is used: over HTTP, with control files, with reports, against servers that are none."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
import pytest
from starlette.applications import Starlette

from mcp_gate.conformance.catalogue import CHECKS
from tests.gate.live import served, serving
from tests.sep2848.faults import HasNoDisposition, OpensASecondTask
from tests.sep2848.plain_gate import PlainGate
from tests.sep2848.plain_server import absurd, app, babbling, control_file, silent

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


class Said:
    """What a run of the command printed, and its status."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status, self.out, self.err = status, out.decode(), err.decode()


async def conformance(*arguments: str, folder: Path) -> Said:
    """Run the command in a folder, as a process of its own."""
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"}
    command: Sequence[str] = [sys.executable, "-m", "mcp_gate", "conformance", *arguments]
    with anyio.fail_after(200):
        done = await anyio.run_process(command, cwd=folder, env=surroundings, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


async def against(subject: Starlette, folder: Path, *arguments: str) -> Said:
    """The command against an application, with the plain control file."""
    async with served(subject) as front, serving(subject) as hands:
        subject.state.served = front
        control = control_file(folder, hands)
        return await conformance("--url", f"{front.base}/mcp", "--control", str(control), *arguments, folder=folder)


async def test_a_correct_server_passes_over_http_and_every_report_says_so(tmp_path: Path) -> None:
    said = await against(
        app(PlainGate()), tmp_path, "--json", "all.json", "--junit", "all.xml", "--checks", "out/server/checks.json"
    )
    document = json.loads((tmp_path / "all.json").read_text())
    bad = {one["id"]: one["note"] for one in document["checks"] if one["verdict"] not in {"pass", "skipped"}}
    assert bad == {}
    assert said.status == 0, said.err
    of_clients = [check.id for check in CHECKS if check.of_client]
    assert [one["id"] for one in document["checks"] if one["verdict"] == "skipped"] == of_clients
    assert document["summary"] == {"pass": len(CHECKS) - 2, "fail": 0, "skipped": 2, "error": 0}
    assert f"{len(CHECKS) - 2} passed, 0 failed, 2 skipped" in said.out
    assert said.err.count("pass    sep-2848-") == len(CHECKS) - 2
    cases = ET.parse(tmp_path / "all.xml").findall(".//testcase")  # noqa: S314 - our own file
    assert len(cases) == len(CHECKS)
    assert [case.get("name") for case in cases if len(case)] == of_clients
    emitted = json.loads((tmp_path / "out/server/checks.json").read_text())
    assert {one["status"] for one in emitted} == {"SUCCESS"}
    assert {one["id"] for one in emitted} == {check.id for check in CHECKS if not check.of_client}
    assert emitted[0].keys() == {"id", "name", "description", "status", "timestamp", "specReferences"}


async def test_a_failure_shows_the_sentence_the_messages_and_how_to_repeat_it(tmp_path: Path) -> None:
    said = await against(
        app(HasNoDisposition()), tmp_path, "--only", "decision", "--checks", "checks.json", "--junit", "j"
    )
    assert said.status == 1
    assert "FAIL: sep-2848-executed-disposition" in said.out
    assert "the disposition in the result's _meta is None, not 'approved-executed'" in said.out
    assert "It is a string and MUST be present in the _meta of the CallToolResult" in said.out
    assert '"method": "tasks/get"' in said.out
    (again,) = [line for line in said.out.splitlines() if line.strip().startswith("again:")]
    assert again.strip().endswith("--only executed-disposition")
    assert "--control" in again
    emitted = {one["id"]: one for one in json.loads((tmp_path / "checks.json").read_text())}
    assert emitted["sep-2848-executed-disposition"]["status"] == "FAILURE"
    assert "not 'approved-executed'" in emitted["sep-2848-executed-disposition"]["errorMessage"]
    failures = ET.parse(tmp_path / "j").findall(".//failure")  # noqa: S314 - our own file
    assert len(failures) == 1


async def test_advice_that_is_not_taken_is_shown_and_fails_only_if_it_is_meant_to(tmp_path: Path) -> None:
    said = await against(
        app(OpensASecondTask()), tmp_path, "--only", "repeat-returns-the-task", "--checks", "checks.json"
    )
    assert said.status == 0
    assert "1 SHOULD not kept" in said.out
    assert [one["status"] for one in json.loads((tmp_path / "checks.json").read_text())] == ["WARNING"]
    strict = await against(app(OpensASecondTask()), tmp_path, "--only", "repeat-returns-the-task", "--strict")
    assert strict.status == 1


async def test_no_token_and_no_artifact_stands_in_any_report(tmp_path: Path) -> None:
    class Echoes(PlainGate):
        def explain(self, *, modern: bool) -> dict[str, object]:
            return self.tool_result(["Ask with alice-s-token-77 or binding-7f3a; the tool did not run."], is_error=True)

    async with serving(app(Echoes())) as base:
        control = control_file(tmp_path, base)
        (tmp_path / "alice").write_text("alice-s-token-77\n")
        arguments = ("--url", f"{base}/mcp", "--control", str(control), "--only", "capability", "--json", "all.json")
        said = await conformance(*arguments, folder=tmp_path)
    written = (tmp_path / "all.json").read_text() + said.out + said.err
    assert "[redacted]" in written
    assert "alice-s-token-77" not in written
    assert "binding-7f3a" not in written


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--only", "nothing", "--url", "http://127.0.0.1:1/mcp"), "no check and no group 'nothing'"),
        ((), "give a server with --url or --stdio"),
        (("--url", "http://127.0.0.1:1/mcp", "--stdio", "x"), "either --url or --stdio"),
        (("--url", "ftp://x"), "must begin with http"),
        (("--stdio", "'x"), "quotation mark"),
        (("--url", "http://127.0.0.1:1/mcp", "--control", "missing.yaml"), "cannot be read"),
        (("--url", "http://127.0.0.1:1/mcp", "--control", "odd.yaml"), "there is no verb aprove"),
        (("--url", "http://127.0.0.1:1/mcp", "--control", "tabs.yaml"), "is no YAML"),
        (("--url", "http://127.0.0.1:1/mcp", "--control", "words.yaml"), "phrases.ran: is no regular expression"),
        (("--url", "http://alice:secret@127.0.0.1:1/mcp"), "must have no name and password"),
        (("--url", "http://127.0.0.1:1/mcp", "--token-env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE is not set"),
    ],
)
async def test_what_cannot_be_meant_is_one_line_and_status_2(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "odd.yaml").write_text("verbs: {aprove: {run: [x]}}\n")
    (tmp_path / "tabs.yaml").write_text("verbs: [\n")
    (tmp_path / "words.yaml").write_text("phrases: {ran: '('}\n")
    said = await conformance(*arguments, folder=tmp_path)
    assert said.status == 2
    assert "secret" not in said.err
    assert told in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("subject", [silent, babbling])
async def test_a_server_that_never_answers_is_status_3_and_no_traceback(tmp_path: Path, subject: object) -> None:
    assert callable(subject)
    said = await against(subject(), tmp_path)
    assert said.status == 3
    assert said.err.startswith("mcp-gate: no server to test: ")
    assert "Traceback" not in said.err


@pytest.mark.parametrize("given", [("--url", "http://127.0.0.1:1/mcp"), ("--stdio", "no-such-program-anywhere")])
async def test_a_server_that_is_not_there_is_status_3(tmp_path: Path, given: tuple[str, str]) -> None:
    said = await conformance(*given, folder=tmp_path)
    assert said.status == 3
    assert "no server to test" in said.err


async def test_a_process_that_ends_at_once_is_status_3(tmp_path: Path) -> None:
    said = await conformance("--stdio", f"{sys.executable} -c pass", folder=tmp_path)
    assert said.status == 3
    assert "Traceback" not in said.err


async def test_answers_of_the_wrong_types_are_verdicts(tmp_path: Path) -> None:
    said = await against(absurd(), tmp_path, "--json", "all.json")
    document = json.loads((tmp_path / "all.json").read_text())
    assert said.status == 1
    assert len(document["checks"]) == len(CHECKS)
    assert document["summary"]["fail"] > 10
    assert "Traceback" not in said.err


async def test_the_list_needs_no_server(tmp_path: Path) -> None:
    said = await conformance("--list", "--only", "endings", folder=tmp_path)
    assert said.status == 0
    assert "sep-2848-cancelled-never-executes" in said.out
    assert "sep-2848-handle-shape" not in said.out
