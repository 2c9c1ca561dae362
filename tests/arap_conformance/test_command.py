"""`arap conformance` as it is used: over HTTP, with reports, against services that are none, and alone."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import anyio
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from arap_service.conformance.catalogue import CHECKS
from tests.arap_conformance.broken import ListsNoCapability
from tests.arap_conformance.broken_tasks import ForgetsItsAddress
from tests.arap_conformance.subject import PlainService
from tests.arap_conformance.subject_web import app
from tests.arap_conformance.subjects import TOKENS, questions
from tests.gate.live import serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a run of the command printed, and its status."""

    status: int
    out: str
    err: str


async def conformance(*arguments: str, folder: Path) -> Said:
    """Run the command in a folder, as a process of its own."""
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-m", "arap_service.conformance", *arguments]
    with anyio.fail_after(200):
        done = await anyio.run_process(command, cwd=folder, env=surroundings, check=False)
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@asynccontextmanager
async def plain(service: PlainService, folder: Path) -> AsyncIterator[tuple[str, ...]]:
    """The hand-written service over HTTP; the options that test it."""
    async with serving(app(service)) as base:
        service.base = base
        for role, token in TOKENS.items():
            (folder / role).write_text(f"{token}\n")
        document = {
            "questions": questions(),
            "tokens": {role: {"file": role} for role in TOKENS},
            "verbs": {"approve": {"post": f"{base}/control/approve?task={{task}}"}},
            "seconds": {"request": 30, "verb": 30, "end": 20, "poll": 0.05, "settle": 0.05, "check": 60},
        }
        (folder / "control.yaml").write_text(json.dumps(document))
        yield "--url", base, "--control", "control.yaml"


async def test_every_report_says_what_was_found(tmp_path: Path) -> None:
    reports = ("--json", "all.json", "--junit", "all.xml", "--checks", "out/checks.json")
    async with plain(PlainService(), tmp_path) as options:
        said = await conformance(*options, "--only", "discovery", "--only", "cancellation", *reports, folder=tmp_path)
    wanted = [check.id for check in CHECKS if check.group in {"discovery", "cancellation"}]
    document: dict[str, Any] = json.loads((tmp_path / "all.json").read_text())
    assert said.status == 0, said.out
    assert [one["id"] for one in document["checks"]] == wanted
    assert document["summary"] == {"pass": len(wanted) - 2, "fail": 0, "skipped": 2, "error": 0}
    assert all(one["sentence"] and one["source"] for one in document["checks"])
    assert f"{len(wanted)} checks: {len(wanted) - 2} passed, 0 failed, 2 skipped, 0 could not be run" in said.out
    cases = ET.parse(tmp_path / "all.xml").findall(".//testcase")  # noqa: S314 - our own file
    assert [case.get("name") for case in cases] == wanted
    emitted = json.loads((tmp_path / "out" / "checks.json").read_text())
    skipped = {"arap-endpoints-are-https", "arap-decided-cannot-be-cancelled"}  # the latter for want of a verb
    assert {one["id"] for one in emitted} == set(wanted) - skipped
    assert {one["status"] for one in emitted} == {"SUCCESS"}
    assert f"{len(wanted)}/{len(wanted)}" in said.err


async def test_a_failure_is_told_with_its_sentence_what_came_and_how_to_repeat_it(tmp_path: Path) -> None:
    async with plain(ForgetsItsAddress(), tmp_path) as options:
        said = await conformance(*options, "--only", "pending-is-shown", folder=tmp_path)
        (again,) = (line.strip() for line in said.out.splitlines() if line.strip().startswith("again:"))
        repeated = again.removeprefix("again: arap conformance ").split()
        once_more = await conformance(*repeated, folder=tmp_path)
    assert said.status == 1
    assert "the status_endpoint of the pending task is None" in said.out
    assert "echoes the Task Handle returned at submission" in said.out
    assert "came  " in said.out
    assert once_more.status == 1
    assert "1 checks: 0 passed, 1 failed" in once_more.out


async def test_advice_that_is_not_taken_fails_only_if_it_is_meant_to(tmp_path: Path) -> None:
    async with plain(ListsNoCapability(), tmp_path) as options:
        said = await conformance(*options, "--only", "capability-listed", folder=tmp_path)
        strict = await conformance(*options, "--only", "capability-listed", "--strict", folder=tmp_path)
    assert (said.status, strict.status) == (0, 1)
    assert "1 SHOULD not kept" in said.out


async def test_a_partial_implementation_is_not_failed_for_what_it_does_not_offer(tmp_path: Path) -> None:
    service = PlainService(parts=frozenset({"denial-by-id", "approval-by-id"}))
    async with plain(service, tmp_path) as options:
        said = await conformance(*options, "--json", "all.json", folder=tmp_path)
    found = {one["id"]: one for one in json.loads((tmp_path / "all.json").read_text())["checks"]}
    assert said.status == 0, said.out[-3000:]
    assert {one["verdict"] for one in found.values()} == {"pass", "skipped"}
    for check, why in (
        ("token-is-signed", "the service does not support token"),
        ("cancel-ends-the-task", "the service does not support cancellation"),
        ("items-are-mirrored", "the service does not support bulk"),
        ("forged-state", "approvals carry no state that is a JWS"),
        ("denied-is-no-approval", "the control file has no verb deny"),
    ):
        assert (found[f"arap-{check}"]["verdict"], found[f"arap-{check}"]["note"]) == ("skipped", why)
    for check in ("changed-resource", "unknown-evaluation", "plain-denial-is-not-requestable", "approval-permits"):
        assert found[f"arap-{check}"]["verdict"] == "pass"
    assert found["arap-unsupported-items-are-refused"]["verdict"] == "pass"


async def test_what_is_declared_is_not_looked_for(tmp_path: Path) -> None:
    async with plain(PlainService(), tmp_path) as options:
        said = await conformance(*options, "--only", "cancellation", "--profile", "id", "--json", "j", folder=tmp_path)
    notes = {one["note"] for one in json.loads((tmp_path / "j").read_text())["checks"]}
    assert said.status == 3  # nothing was looked at
    assert notes == {"the service does not support cancellation", "the control file has no verb deny"}


async def test_no_bearer_token_stands_in_any_report(tmp_path: Path) -> None:
    class Echoes(PlainService):
        def metadata(self) -> dict[str, Any]:
            return super().metadata() | {"policy_decision_point": TOKENS["again"]}

    async with plain(Echoes(), tmp_path) as options:
        said = await conformance(*options, "--only", "discovery", "--only", "access", "--json", "j", folder=tmp_path)
    written = (tmp_path / "j").read_text() + said.out + said.err
    assert said.status == 1
    assert "[redacted]" in written
    assert TOKENS["again"] not in written


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--only", "nothing", "--url", "http://127.0.0.1:1"), "no check and no group 'nothing'"),
        ((), "give the decision point with --url"),
        (("--url", "ftp://x"), "must begin with http"),
        (("--url", "http://["), "--url is no URL"),
        (("--url", "http://127.0.0.1:99999"), "--url is no URL"),
        (("--url", "http://a:secret@127.0.0.1:1"), "must have no name and password"),
        (("--url", "http://127.0.0.1:1", "--control", "missing.yaml"), "cannot be read"),
        (("--url", "http://127.0.0.1:1", "--control", "odd.yaml"), "there is no verb aprove"),
        (("--url", "http://127.0.0.1:1", "--control", "two.yaml"), "needs exactly one of bearer, hmac"),
        (("--url", "http://127.0.0.1:1", "--token-file", "pip=secret.token"), "the role one of pep"),
        (("--url", "http://127.0.0.1:1", "--token-file", "pep=missing.token"), "cannot be read"),
        (("--url", "http://127.0.0.1:1", "--profile", "tokens"), "there is no profile tokens"),
    ],
)
async def test_what_cannot_be_meant_is_one_line_and_status_2(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "odd.yaml").write_text("verbs: {aprove: {run: [x]}}\n")
    (tmp_path / "two.yaml").write_text("callbacks: {listen: '127.0.0.1:1', endpoint: x}\n")
    said = await conformance(*arguments, folder=tmp_path)
    assert said.status == 2
    assert told in said.err
    assert "secret@" not in said.err
    assert len(said.err.splitlines()) == 1


async def test_nobody_there_is_status_3_and_no_traceback(tmp_path: Path) -> None:
    said = await conformance("--url", "http://127.0.0.1:1", folder=tmp_path)
    assert said.status == 3
    assert said.err.splitlines()[-1].startswith("arap: no decision point to test: ")
    assert "Traceback" not in said.err


def absurd() -> Starlette:
    """Answers everything with JSON of the wrong types."""

    async def anything(_: Any) -> JSONResponse:
        everything = ("access_evaluation_endpoint", "access_request_endpoint", "jwks_uri", "policy_decision_point")
        task = {"id": 7, "status": [], "status_endpoint": {}, "items": "x", "links": 3}
        body = {
            "decision": False,
            "context": {"access_request": {"expires_at": 5, "binding_token": "a.b.c"}},
            "keys": 1,
        }
        return JSONResponse({**dict.fromkeys(everything, "/x"), **body, "task": task, "result": [], "type": 4})

    return Starlette(routes=[Route("/{rest:path}", anything, methods=["GET", "POST"])])


def wordy() -> Starlette:
    """Has words for everything, and no JSON."""

    async def anything(_: Any) -> PlainTextResponse:
        return PlainTextResponse("Hello.")

    return Starlette(routes=[Route("/{rest:path}", anything, methods=["GET", "POST"])])


@pytest.mark.parametrize("subject", [absurd, wordy])
async def test_answers_that_make_no_sense_are_verdicts(tmp_path: Path, subject: Any) -> None:
    async with plain(PlainService(), tmp_path):
        pass
    async with serving(subject()) as base:
        options = ("--url", base, "--control", "control.yaml", "--json", "j")
        said = await conformance(*options, folder=tmp_path)
    document = json.loads((tmp_path / "j").read_text())
    assert said.status == 1
    assert len(document["checks"]) == len(CHECKS)
    assert "Traceback" not in said.err


def test_the_list_needs_no_service_and_the_service_offers_the_same_command(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).parent / "arap"), "conformance", "--list", "--only", "revocation"]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "arap-revoked-permits-nothing" in done.stdout
    assert "arap-approval-permits" not in done.stdout


async def test_two_roles_with_one_token_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    async with plain(PlainService(), tmp_path) as options:
        (tmp_path / "second").write_text((tmp_path / "pep").read_text())
        said = await conformance(*options, "--only", "discovery", folder=tmp_path)
    assert said.status == 2
    assert "pep and second have the same token" in said.err
    assert TOKENS["pep"] not in said.err + said.out
