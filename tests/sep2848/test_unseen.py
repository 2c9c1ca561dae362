"""What the suite has not seen it does not call kept: callers and verbs that do nothing, servers that refuse all."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from blackbox_kit.hands import Declined
from blackbox_kit.model import NotRun
from mcp_gate.conformance.catalogue import chosen
from mcp_gate.conformance.model import Verdict
from mcp_gate.conformance.running import HttpSubject, Run, Subject, Unreachable
from mcp_gate.conformance.transports import NoAnswer, stdio_transport
from tests.gate.live import serving
from tests.patience import pause
from tests.sep2848.more_faults import RunsUnseen
from tests.sep2848.plain_gate import Json, PlainGate, Refusal
from tests.sep2848.plain_server import app
from tests.sep2848.subjects import CALLS, PlainHands, PlainSubject, control

pytestmark = pytest.mark.anyio
OF_TWO = ("changed-principal", "other-principal-cannot-get", "other-principal-cannot-update", "input-retry-must-match")
RESTARTS = ("pending-survives-restart", "envelope-survives-restart", "resumes-after-restart")


class Barred(PlainGate):
    """Refuses everybody but some."""

    known: tuple[str, ...] = ("alice",)

    async def serve(self, method: str, params: Json, principal: str) -> Json:
        if principal not in self.known:
            raise Refusal(-32001, f"Who is {principal}?")
        return await super().serve(method, params, principal)


async def verdicts(
    gate: PlainGate, *names: str, hands: PlainHands | None = None, subject: Subject | None = None, **changes: Any
) -> dict[str, tuple[Verdict, str]]:
    """The verdict of some checks and why, by their short ids."""
    given = control(**changes)
    run = Run(hands or PlainHands(gate, given), subject or PlainSubject(gate), tokens=("alice", "bob"))
    with anyio.fail_after(60):
        outcomes = await run.all(chosen(names), lambda _: None)
    return {one.check.id.removeprefix("sep-2848-"): (one.verdict, one.note) for one in outcomes}


async def test_the_refusal_of_a_caller_that_can_do_nothing_shows_nothing() -> None:
    found = await verdicts(Barred(), *OF_TWO, "other-principal-cannot-cancel")
    assert {verdict for verdict, _ in found.values()} == {Verdict.ERROR}, found
    assert "the second principal cannot do anything of its own" in found["other-principal-cannot-get"][1]
    assert "Who is [redacted]?" in found["changed-principal"][1]


async def test_a_server_that_refuses_everything_is_none_to_test() -> None:
    class Closed(Barred):
        known = ()

    with pytest.raises(Unreachable, match=r"Who is \[redacted\]\?.*initialize was refused"):
        await verdicts(Closed(), "creation")


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, {"error": "invalid_token"}, "HTTP 401 without a JSON-RPC answer"),
        (500, {"error": "x"}, "HTTP 500 without a JSON-RPC answer"),
        (
            401,
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "no"}},
            "HTTP 401 with error -32001: no",
        ),
        (200, {"jsonrpc": "2.0", "id": [], "result": {}}, "HTTP 200 without a JSON-RPC answer"),
    ],
)
async def test_what_is_no_answer_is_named_with_its_status(status: int, body: Json, told: str) -> None:
    async def refuse(_: Request) -> Response:
        return JSONResponse(body, status_code=status)

    async with serving(Starlette(routes=[Route("/mcp", refuse, methods=["POST"])])) as base:
        with pytest.raises(Unreachable, match=told):
            await verdicts(PlainGate(), "creation", subject=HttpSubject(f"{base}/mcp"))


async def test_a_stream_without_an_end_is_no_answer_and_is_not_kept_for_ever() -> None:
    sent = 0

    async def flood(_: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(1_000):
                await anyio.lowlevel.checkpoint()
                yield b'data: {"jsonrpc":"2.0","method":"x","params":"' + b"x" * 200_000 + b'"}\n\n'
                sent += 1

        return StreamingResponse(events(), media_type="text/event-stream")

    async with serving(Starlette(routes=[Route("/mcp", flood, methods=["POST"])])) as base:
        with pytest.raises(Unreachable, match="HTTP 200 without a JSON-RPC answer"):
            await verdicts(PlainGate(), "creation", subject=HttpSubject(f"{base}/mcp"))
    assert 70 < sent < 500


class LateHands(PlainHands):
    """Hands for which a decision after the end is an error."""

    def __init__(self, gate: PlainGate, error: NotRun) -> None:
        super().__init__(gate, control())
        self._late, self._book = error, gate

    async def do(self, verb: str, **named: str) -> str:
        if verb == "approve" and not self._book.pending(named["marker"]):
            raise self._late
        return await super().do(verb, **named)


LATE = ("cancelled-never-executes", "expired-never-executes", "terminal-is-final", "executes-at-most-once")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Declined("control: approve ended with status 1"), Verdict.PASS),
        (NotRun("control: approve took longer than 5 s"), Verdict.ERROR),
    ],
)
async def test_only_a_deployment_that_says_no_refuses_a_late_decision(error: NotRun, expected: Verdict) -> None:
    gate = PlainGate()
    found = await verdicts(gate, *LATE, hands=LateHands(gate, error))
    assert {name: verdict for name, (verdict, _) in found.items()} == dict.fromkeys(LATE, expected), found


class Idle(PlainHands):
    """One verb does nothing."""

    def __init__(self, gate: PlainGate, verb: str, says: str = "") -> None:
        super().__init__(gate, control())
        self._verb, self._says = verb, says

    async def do(self, verb: str, **named: str) -> str:
        return self._says if verb == self._verb else await super().do(verb, **named)


async def test_a_count_that_counts_nothing_shows_nothing() -> None:
    gate = PlainGate()
    wanted = ("denial-is-not-executed", *LATE, "reevaluates-after-approval")
    found = await verdicts(gate, *wanted, hands=Idle(gate, "count", "0"))
    assert {verdict for verdict, _ in found.values()} == {Verdict.ERROR}, found
    assert "count tells of no execution" in found["denial-is-not-executed"][1]


async def test_an_approval_that_approves_nothing_shows_nothing() -> None:
    gate = PlainGate()
    found = await verdicts(gate, "cancelled-never-executes", "changed-tool", hands=Idle(gate, "approve"))
    assert {verdict for verdict, _ in found.values()} == {Verdict.ERROR}, found


async def test_a_verb_that_restarts_nothing_shows_nothing() -> None:
    gate = PlainGate()
    found = await verdicts(gate, *RESTARTS, "result-survives-restart", hands=Idle(gate, "restart"))
    assert {verdict for verdict, _ in found.values()} == {Verdict.ERROR}, found
    async with serving(app(gate)) as base:
        subject = HttpSubject(f"{base}/mcp")
        found = await verdicts(gate, *RESTARTS, hands=Idle(gate, "restart"), subject=subject)
    assert {verdict for verdict, _ in found.values()} == {Verdict.ERROR}, found
    assert "a connection from before the verb restart is still open" in found["pending-survives-restart"][1]


@pytest.mark.parametrize("tool", ["free", "forbidden", "unheard-of"])
async def test_a_changed_call_that_needs_no_approval_shows_nothing(tool: str) -> None:
    class Knows(PlainGate):
        async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
            if params["name"] == "unheard-of":
                raise Refusal(-32602, "Unknown tool")
            return await super().call(params, principal, with_tasks=with_tasks, modern=modern)

    changed = {"tool": tool, "arguments": {"memo": "{marker}"}}
    calls = CALLS | {"changed_tool": changed, "changed_arguments": changed}
    found = await verdicts(Knows(), "changed-tool", "changed-arguments", calls=calls)
    assert {verdict for verdict, _ in found.values()} == {Verdict.ERROR}, found


async def test_where_nothing_counts_the_task_itself_tells_that_it_was_carried_out() -> None:
    class RunsAtOnce(RunsUnseen):
        async def create(self, tool: str, arguments: Json, principal: str) -> Json:
            if self.ran_for(arguments):
                return self.run_at_once(tool, arguments, principal)
            return await super().create(tool, arguments, principal)

    verbs = {verb: {"run": ["nothing"]} for verb in ("approve", "deny")}
    found = await verdicts(RunsAtOnce(), "changed-tool", "handle-is-not-authority", verbs=verbs)
    assert {verdict for verdict, _ in found.values()} == {Verdict.FAIL}, found


async def test_who_asks_anew_where_the_answers_belong_to_another_call_has_not_taken_them() -> None:
    class AsksAnew(PlainGate):
        def round(self, params: Json, principal: str) -> Json | None:
            known = self.states.get(params.get("requestState", ""))
            if known is not None and not self.is_same_call(known, (params["name"], principal, params["arguments"])):
                params = {name: value for name, value in params.items() if name != "requestState"}
            return super().round(params, principal)

    found = await verdicts(AsksAnew(), "input-retry-must-match")
    assert found["input-retry-must-match"] == (Verdict.PASS, "")


@pytest.mark.parametrize(("status", "expected"), [(500, Verdict.ERROR), (400, Verdict.SKIPPED)])
async def test_a_server_that_breaks_over_initialize_is_none_that_takes_no_old_clients(
    status: int, expected: Verdict
) -> None:
    gate = PlainGate()

    async def answer(request: Request) -> Response:
        message = await request.json()
        if message["method"] == "initialize":
            return Response(status_code=status)
        return JSONResponse((await gate.answer(message, principal="alice"))[-1])

    async with serving(Starlette(routes=[Route("/mcp", answer, methods=["POST"])])) as base:
        found = await verdicts(gate, "handshake-client-gets-no-task", subject=HttpSubject(f"{base}/mcp"))
    assert found["handshake-client-gets-no-task"][0] is expected, found


async def test_a_notification_that_cannot_be_sent_cancels_nothing_and_shows_nothing() -> None:
    class Deaf(PlainGate):
        def notified(self, method: str, params: Json) -> None:
            raise NoAnswer("it is gone")

    found = await verdicts(Deaf(), "notification-does-not-cancel")
    assert found["notification-does-not-cancel"] == (Verdict.ERROR, "notifications/cancelled: it is gone")


async def test_over_stdio_the_suite_kills_the_server_itself(tmp_path: Path) -> None:
    book = tmp_path / "started"
    script = f"import sys; open({str(book)!r}, 'a').write('x'); sys.stdin.read()"

    async def by() -> None:
        raise AssertionError("nobody else is asked")

    with anyio.fail_after(60):
        async with stdio_transport([sys.executable, "-c", script]) as transport:
            # The file is there before what is written to it: a process killed between the two would not be counted.
            while not book.exists() or book.read_text() != "x":
                await pause()
            assert await transport.restart(by) is True
            while book.read_text() != "xx":
                await pause()


async def test_a_call_that_runs_at_once_is_a_failure_of_one_check_and_hinders_the_others() -> None:
    calls = CALLS | {"gated": {"tool": "free", "arguments": {"memo": "{marker}"}}}
    found = await verdicts(PlainGate(), "creation", calls=calls)
    failed = {name for name, (verdict, _) in found.items() if verdict is Verdict.FAIL}
    assert failed == {"requestable-denial-returns-task"}
    assert found["handle-shape"][0] is Verdict.ERROR


async def test_an_error_that_does_not_name_what_a_client_lacks_is_found() -> None:
    class SaysOnlyNo(PlainGate):
        def explain(self, *, modern: bool) -> Json:
            raise Refusal(-32021, "No.")

    found = await verdicts(SaysOnlyNo(), "undeclared-client")
    assert found["undeclared-client"][0] is Verdict.FAIL
    assert "the error does not name" in found["undeclared-client"][1]
