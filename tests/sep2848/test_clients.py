"""The scripted server tells clients apart: ours, one that repeats what it does not know, one that does not wait."""

import sys
from pathlib import Path

import anyio
import pytest

from mcp_gate.conformance.catalogue import chosen
from mcp_gate.conformance.control import Hands
from mcp_gate.conformance.model import Outcome, Verdict
from mcp_gate.conformance.running import Run, client_player
from tests.sep2848.subjects import control

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys, urllib.request
url, behaviour = sys.argv[1:]
META = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
def ask(method, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}).encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    return json.load(opener.open(request, timeout=20))["result"]
def call():
    task = ask("tools/call", name="transfer", arguments={})
    while behaviour != "leaves" and task["status"] == "working":
        task = ask("tasks/get", taskId=task["taskId"])
    return task
ended = call()
known = ("approved-executed", "denied-not-executed", "execution-error", "outcome-unknown")
name = "io.modelcontextprotocol/tool-approval-disposition"
if behaviour == "repeats" and ended["result"]["_meta"][name] not in known:
    call()
"""


async def judged(command: str) -> dict[str, Outcome]:
    hands = Hands(control(seconds={"check": 250}), Path())
    run = Run(hands, None, client=client_player(command, seconds=120))
    with anyio.fail_after(280):
        outcomes = await run.all(chosen(["client"]), lambda _: None)
    return {one.check.id.removeprefix("sep-2848-client-"): one for one in outcomes}


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "client.py").write_text(SCRIPT)
    return f"{sys.executable} {tmp_path / 'client.py'} {{url}}"


async def test_our_client_passes(tmp_path: Path) -> None:
    found = await judged(f"{sys.executable} -m mcp_gate call {{url}} {{tool}} to=acct-1 --records {tmp_path}")
    assert {name: one.verdict for name, one in found.items()} == dict.fromkeys(found, Verdict.PASS), found


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("waits", {"unknown-disposition": Verdict.PASS, "tasks-alone": Verdict.PASS}),
        ("repeats", {"unknown-disposition": Verdict.FAIL, "tasks-alone": Verdict.PASS}),
        ("leaves", {"unknown-disposition": Verdict.ERROR, "tasks-alone": Verdict.FAIL}),
    ],
)
async def test_a_client_is_failed_by_the_check_that_is_meant_for_it(
    script: str, behaviour: str, expected: dict[str, Verdict]
) -> None:
    found = await judged(f"{script} {behaviour}")
    assert {name: one.verdict for name, one in found.items()} == expected
    assert any(exchange.sent["method"] == "tools/call" for exchange in found["tasks-alone"].exchanges)


async def test_a_client_that_cannot_be_run_or_does_nothing_is_no_failure_of_the_client() -> None:
    for command in ("no-such-client {url}", f"{sys.executable} -c pass"):
        found = await judged(command)
        assert {one.verdict for one in found.values()} == {Verdict.ERROR}
