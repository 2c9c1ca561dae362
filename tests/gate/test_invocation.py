"""Claim and execution. Provenance: SEP-2848 "Completion", "Cancellation"; PEP-I, PEP-J; design section 8, Executor."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from sqlalchemy import update
from structlog.testing import capture_logs

from mcp_gate import invocation
from mcp_gate.backend import Denial, Permit
from mcp_gate.database import StoreUnavailable
from mcp_gate.events import Cause, Event, ToolReturned
from mcp_gate.execution import Executed, NoResponse, Outcome, ReceivedError, ToolCall
from mcp_gate.lifecycle import Ending, GateTask, Phase, Refused
from mcp_gate.limits import Limits
from mcp_gate.tables import task as task_table
from mcp_gate.texts import DISPOSITION, ENVELOPE
from tests.crash.processes import locked, until
from tests.gate.foreign_backend import CANARY, requestable
from tests.gate.kit import ALICE, TRANSFER, Killed, Kit

pytestmark = pytest.mark.anyio

RACES = 200


async def granted(kit: Kit, **how: Any) -> str:
    """A task that the next step would run."""
    task_id = await kit.open()
    kit.backend.approve(**how)
    return task_id


def told(result: Mapping[str, Any]) -> str:
    return " ".join(part["text"] for part in result["content"])


@pytest.mark.requirement("PEP-66", "PEP-110", "PEP-67")
async def test_the_tool_runs_once_from_the_captured_call_while_the_task_shows_working(kit: Kit) -> None:
    task_id = await granted(kit)
    seen: list[dict[str, Any]] = []

    async def look() -> None:
        seen.append(await kit.get(task_id))
        assert await kit.phase(task_id) is Phase.CLAIMED

    kit.tool.during = look
    await kit.step(task_id)
    for _ in range(3):
        await kit.step(task_id)
    assert kit.tool.calls == [ToolCall("wire_transfer", TRANSFER, task_id)]
    assert seen[0]["status"] == "working"
    assert seen[0]["_meta"][ENVELOPE]["remediation"] == "available"
    assert "no result yet" in seen[0]["statusMessage"]


@pytest.mark.requirement("PEP-119", "PEP-120", "PEP-121")
async def test_an_executed_call_keeps_the_tools_result_and_says_that_it_ran(kit: Kit) -> None:
    task_id = await granted(kit)
    kit.tool.answer = Executed(
        {
            "content": [{"type": "text", "text": "Done."}],
            "structuredContent": {"balance": 7},
            "_meta": {"tool/own": 1, ENVELOPE: "forged", DISPOSITION: "forged"},
        },
        is_error=False,
    )
    await kit.step(task_id)
    assert (await kit.get(task_id))["result"] == {
        "resultType": "complete",
        "isError": False,
        "content": [
            {"type": "text", "text": "Done."},
            {"type": "text", "text": "The call was approved and the tool ran once."},
        ],
        "structuredContent": {"balance": 7},
        "_meta": {"tool/own": 1, DISPOSITION: "approved-executed"},
    }


@pytest.mark.requirement("PEP-111")
async def test_an_approval_that_ends_during_the_call_changes_nothing(kit: Kit) -> None:
    task_id = await granted(kit, seconds=60)

    async def outlast() -> None:
        kit.clock.advance(120)

    kit.tool.during = outlast
    await kit.step(task_id)
    assert (await kit.task(task_id)).ending is Ending.APPROVED_EXECUTED


@pytest.mark.requirement("PEP-109")
async def test_an_approval_that_ends_between_decision_and_claim_runs_nothing(kit: Kit) -> None:
    task_id = await granted(kit, seconds=60)

    def slow(*_: object) -> Permit:
        kit.clock.advance(60)
        return Permit()

    kit.backend.policy = slow
    await kit.step(task_id)
    assert kit.tool.calls == []
    assert (await kit.task(task_id)).cause is Cause.EXPIRED


def nested(levels: int) -> dict[str, Any]:
    """So many objects inside one another."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


OUTCOMES = [
    (Executed({"content": []}, is_error=True), Ending.EXECUTION_ERROR, "reported an error"),
    (ReceivedError(-32050, "ledger closed"), Ending.EXECUTION_ERROR, "Error -32050: ledger closed"),
    (NoResponse("connection closed"), Ending.OUTCOME_UNKNOWN, "may have run"),
    (Executed({"content": [float("nan")]}, is_error=False), Ending.EXECUTION_ERROR, "could not be stored"),
    (Executed({"content": ["\ud800"]}, is_error=False), Ending.EXECUTION_ERROR, "could not be stored"),
    (Executed({"content": [], "_meta": nested(129)}, is_error=False), Ending.EXECUTION_ERROR, "could not be stored"),
    (Executed({"content": [], "_meta": nested(5000)}, is_error=False), Ending.EXECUTION_ERROR, "could not be stored"),
]


@pytest.mark.requirement("PEP-89", "PEP-112", "PEP-119", "PEP-120", "PEP-121")
@pytest.mark.parametrize(("outcome", "ending", "words"), OUTCOMES)
async def test_whatever_comes_back_after_the_claim_completes_the_task(
    kit: Kit, outcome: Outcome, ending: Ending, words: str
) -> None:
    """A received response decides; without one the outcome is unknown. Never failed, never a denial."""
    task_id = await granted(kit)
    kit.tool.answer = outcome
    await kit.step(task_id)
    got = await kit.get(task_id)
    assert got["status"] == "completed"
    assert got["result"]["isError"] is True
    assert got["result"]["resultType"] == "complete"
    assert got["result"]["_meta"] == {DISPOSITION: str(ending)}
    assert words in told(got["result"])
    assert "did not run" not in told(got["result"])


@pytest.mark.requirement("PEP-112")
async def test_an_executor_that_breaks_leaves_the_outcome_unknown(kit: Kit) -> None:
    task_id = await granted(kit)

    def broken() -> None:
        raise RuntimeError("secret-argument")

    kit.tool.during = broken
    await kit.step(task_id)
    assert (await kit.task(task_id)).ending is Ending.OUTCOME_UNKNOWN
    assert len(kit.tool.calls) == 1


@pytest.mark.requirement("PEP-77")
async def test_a_tool_that_hangs_past_its_deadline_leaves_the_outcome_unknown(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit(limits=Limits(execution=timedelta(milliseconds=50)))
    task_id = await granted(kit)
    kit.tool.during = anyio.Event().wait
    with anyio.fail_after(40):
        await kit.step(task_id)
    assert (await kit.task(task_id)).ending is Ending.OUTCOME_UNKNOWN


@pytest.mark.requirement("PEP-112")
async def test_a_shutdown_in_the_middle_of_a_call_leaves_the_outcome_unknown(kit: Kit) -> None:
    task_id = await granted(kit)
    started = anyio.Event()

    async def hang() -> None:
        started.set()
        await anyio.Event().wait()

    kit.tool.during = hang
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(kit.step, task_id)
            await started.wait()
            group.cancel_scope.cancel()
    assert (await kit.task(task_id)).ending is Ending.OUTCOME_UNKNOWN
    await kit.step(task_id)
    assert len(kit.tool.calls) == 1


@pytest.mark.requirement("PEP-125", "PEP-126")
async def test_artifacts_of_every_generation_are_withheld(kit: Kit) -> None:
    """Three requests for one call; the tool heard of all of them."""
    task_id = await kit.open()
    answers: Iterator[Permit | Denial] = iter([requestable(7), requestable(8), Permit()])
    kit.backend.policy = lambda *_: next(answers)
    heard: list[str] = []
    for number in (1, 7, 8):
        task = kit.backend.last
        kit.backend.approve()
        heard += [task, f"appr-{CANARY}-{task}", f"https://backend.example/tasks/{task}/report"]
        heard += [f"eval-{CANARY}-{number}", f"token-{CANARY}-{number}", kit.backend.submissions[-1][0]]
        kit.tool.answer = Executed({"content": [], "structuredContent": {"heard": [*heard]}}, is_error=False)
        await kit.step(task_id)
    assert (await kit.task(task_id)).generation == 3
    assert len(set(heard)) == 18
    told = (await kit.get(task_id))["result"]["structuredContent"]["heard"]
    assert len(told) == 18
    assert [text for text in told if "[withheld]" not in text] == []
    assert CANARY not in json.dumps(told)


@pytest.mark.requirement("PEP-125", "PEP-126")
@pytest.mark.parametrize("is_protocol_error", [False, True])
async def test_artifacts_in_a_tools_own_result_are_withheld(kit: Kit, *, is_protocol_error: bool) -> None:
    """A tool that talks to the backend itself and echoes what it heard."""
    task_id = await granted(kit)
    task = kit.backend.last
    echo = {
        "content": [{"type": "text", "text": f"failed for {task} with appr-{CANARY}-{task}"}],
        "structuredContent": {f"https://backend.example/tasks/{task}": [f"token-{CANARY}-1", f"eval-{CANARY}-1", 7]},
    }
    refused = ReceivedError(-1, f"no: state-{CANARY} {task}")
    kit.tool.answer = refused if is_protocol_error else Executed(echo, is_error=True)
    await kit.step(task_id)
    got = json.dumps(await kit.get(task_id))
    assert CANARY not in got
    assert "[withheld]" in got
    assert '"isError": true' in got


@pytest.mark.requirement("PEP-108", "PEP-114", "PEP-116")
async def test_a_cancel_and_a_claim_never_both_win_and_never_both_lose(kit: Kit) -> None:
    """Two hundred races: a quarter that cancel must win, a quarter that it must lose, the rest on the same instant."""
    roomy = await kit.restarted(limits=Limits(open_tasks=10_000, intents_per_minute=10_000))
    winners: set[str] = set()
    for number in range(RACES):
        winners.add(await _race(roomy, number))
    assert winners == {"cancelled", "completed"}
    await roomy.aclose()


async def _race(kit: Kit, number: int) -> str:
    task_id = await kit.open({"number": number})
    kit.backend.approve()
    ran = len(kit.tool.calls)
    start = anyio.Event()
    evaluate = type(kit.backend).evaluate

    async def meet(question: Mapping[str, Any], *, approval: Mapping[str, Any] | None = None) -> Any:
        decision = await evaluate(kit.backend, question, approval=approval)
        if approval is not None:
            if number % 4 == 0:
                await kit.engine.cancel(task_id, ALICE)
            start.set()
        return decision

    async def cancel() -> None:
        await start.wait()
        for _ in range(number % 5):
            await checkpoint()
        await kit.engine.cancel(task_id, ALICE)

    async def late() -> None:
        await kit.engine.cancel(task_id, ALICE)

    vars(kit.backend)["evaluate"] = meet
    kit.tool.during = late if number % 4 == 1 else lambda: None
    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            group.start_soon(kit.step, task_id)
            if number % 4 >= 2:
                group.start_soon(cancel)
    got = await kit.get(task_id)
    executed = len(kit.tool.calls) - ran
    assert (got["status"], executed) in {("cancelled", 0), ("completed", 1)}
    if executed:
        assert got["result"]["_meta"][DISPOSITION] == "approved-executed"
    status: str = got["status"]
    return status


@pytest.mark.requirement("PEP-66", "PEP-108")
async def test_two_processes_that_step_one_task_run_it_once(kit: Kit) -> None:
    roomy = await kit.restarted(limits=Limits(open_tasks=10_000, intents_per_minute=10_000))
    other = Kit(kit.url, kit.clock, kit.backend, tool=kit.tool)
    for number in range(20):
        task_id = await roomy.open({"number": number})
        kit.backend.approve()
        with anyio.fail_after(55):
            async with anyio.create_task_group() as group:
                group.start_soon(roomy.step, task_id)
                group.start_soon(other.step, task_id)
        await roomy.step(task_id)
        assert (await roomy.task(task_id)).ending is Ending.APPROVED_EXECUTED
    assert len(kit.tool.calls) == 20
    await other.aclose()
    await roomy.aclose()


@pytest.mark.requirement("PEP-113")
async def test_a_worker_that_slept_past_the_deadline_after_its_claim_invokes_nothing(kit: Kit) -> None:
    task_id = await granted(kit)
    object.__setattr__(kit.engine._core, "checkpoint", _at("claim.committed", lambda: kit.clock.advance(601)))
    await kit.step(task_id)
    assert kit.tool.calls == []
    assert (await kit.task(task_id)).ending is Ending.OUTCOME_UNKNOWN


@pytest.mark.requirement("PEP-113")
@pytest.mark.parametrize("changed", [{"worker": "wrk_other"}, {"version": 99}, {"execution_deadline": None}])
async def test_a_worker_that_lost_its_claim_invokes_nothing(kit: Kit, changed: dict[str, Any]) -> None:
    task_id = await granted(kit)
    values = {name: kit.clock() if value is None else value for name, value in changed.items()}

    def steal() -> None:
        statement = update(task_table).where(task_table.c.id == task_id).values(values)
        kit.store.database._write(lambda connection: connection.execute(statement))

    object.__setattr__(kit.engine._core, "checkpoint", _at("claim.committed", steal))
    await kit.step(task_id)
    assert kit.tool.calls == []


def _at(point: str, do: Callable[[], object]) -> Callable[[str], None]:
    def checkpoint(name: str) -> None:
        if name == point:
            do()

    return checkpoint


KILL_POINTS = ["claim.before_commit", "claim.committed", "invoke.started", "invoke.returned", "outcome.stored"]


@pytest.mark.requirement("PEP-59", "PEP-91", "PEP-112")
@pytest.mark.parametrize("point", KILL_POINTS)
async def test_a_death_around_the_invocation_never_runs_the_tool_twice(kit: Kit, point: str) -> None:
    """On SQLite the lost lock proves the death, on PostgreSQL the name of the instance."""
    kit = await kit.restarted(instance="gate-1" if kit.url.startswith("postgres") else None)
    await kit.engine.recover()
    task_id = await granted(kit)
    kit.crash_at = point
    with pytest.raises(Killed):
        await kit.step(task_id)
    ran = len(kit.tool.calls)
    assert ran == (point in {"invoke.returned", "outcome.stored"})
    again = await kit.restarted()
    await again.engine.recover()
    for _ in range(3):
        kit.clock.advance(100)
        await again.step(task_id)
    got = await again.get(task_id)
    assert got["status"] == "completed"
    expected = {"claim.before_commit": "approved-executed", "outcome.stored": "approved-executed"}
    assert got["result"]["_meta"][DISPOSITION] == expected.get(point, "outcome-unknown")
    assert len(kit.tool.calls) == (1 if point in expected else ran)
    await again.aclose()


@pytest.mark.requirement("PEP-77", "PEP-112")
async def test_a_claim_of_a_silent_process_is_kept_until_its_deadline(kit: Kit) -> None:
    """Without proof of death the claim stands; no second execution, and no purge before its end."""
    kit.crash_at = "claim.committed"
    task_id = await granted(kit)
    with pytest.raises(Killed):
        await kit.step(task_id)
    again = await kit.restarted()
    await again.engine.recover()
    kit.clock.advance(599)
    await again.engine.purge()
    await again.engine.step(task_id)
    assert await again.phase(task_id) is Phase.CLAIMED
    kit.clock.advance(1)
    await again.engine.step(task_id)
    assert (await again.task(task_id)).cause is Cause.EXECUTION_DEADLINE
    assert kit.tool.calls == []
    await again.aclose()


@pytest.mark.requirement("PEP-136")
async def test_the_effect_is_on_record_without_anybody_polling(kit: Kit) -> None:
    task_id = await granted(kit)
    await kit.step(task_id)
    lines = await kit.engine._core.duty.audit(task_id)
    assert [line.kind for line in lines] == ["intent", "pending", "granted", "claimed", "done"]
    assert json.loads(lines[0].detail)["tool"] == "wire_transfer"
    assert json.loads(lines[-1].detail)["ending"] == "approved-executed"
    assert "acct-991" not in "".join(line.detail for line in lines)


async def test_an_outcome_is_stored_when_the_database_is_free_again(
    make_kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tool answered exists in this process alone, so one failed write must not lose it."""
    monkeypatch.setattr(invocation, "STORE_REST_SECONDS", 0.001)
    kit = make_kit()
    await kit.store.database.write(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout = 1"))
    task_id = await granted(kit)
    with ExitStack() as lock, capture_logs() as logs:
        kit.tool.during = lambda: lock.enter_context(locked(kit.url))
        async with anyio.create_task_group() as group:
            group.start_soon(kit.step, task_id)
            await until(lambda: any(entry["event"] == "outcome_not_stored" for entry in logs), "the write failed")
            lock.close()
    assert (await kit.get(task_id))["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert len(kit.tool.calls) == 1


@pytest.mark.requirement("PEP-112")
async def test_an_outcome_that_cannot_be_stored_is_kept_until_the_execution_deadline_and_no_longer(
    make_kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many writes that takes; from the deadline on anybody may end the claim as unknown."""
    monkeypatch.setattr(invocation, "STORE_REST_SECONDS", 0)
    kit = make_kit()
    task_id = await granted(kit)
    transact, tried = kit.store.transact, 0

    async def away(moved: str, event: Event, **how: Any) -> GateTask | Refused:
        nonlocal tried
        if not isinstance(event, ToolReturned):
            return await transact(moved, event, **how)
        tried += 1
        kit.clock.advance(20)
        raise StoreUnavailable("database: can't be reached")

    monkeypatch.setattr(kit.store, "transact", away)
    with anyio.fail_after(20), pytest.raises(StoreUnavailable):
        await kit.step(task_id)
    assert tried == 30
    await kit.engine.step(task_id)
    assert (await kit.task(task_id)).ending is Ending.OUTCOME_UNKNOWN
    assert len(kit.tool.calls) == 1


@pytest.mark.parametrize("comes_back", [True, False])
async def test_a_process_that_is_stopped_while_the_database_is_away_ends_soon_and_stores_what_it_can(
    make_kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch, *, comes_back: bool
) -> None:
    """Not at the execution deadline, which may be hours away; without the outcome the task ends as unknown."""
    monkeypatch.setattr(invocation, "STORE_REST_SECONDS", 0.001)
    monkeypatch.setattr(invocation, "LAST_SECONDS", 0.5)
    kit = make_kit()
    task_id = await granted(kit)
    transact, stopped, tried = kit.store.transact, anyio.Event(), anyio.Event()

    async def away(moved: str, event: Event, **how: Any) -> GateTask | Refused:
        if isinstance(event, ToolReturned) and not (comes_back and stopped.is_set()):
            tried.set()
            raise StoreUnavailable("database: can't be reached")
        return await transact(moved, event, **how)

    monkeypatch.setattr(kit.store, "transact", away)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(kit.step, task_id)
            await tried.wait()
            stopped.set()
            group.cancel_scope.cancel()
    task = await kit.task(task_id)
    known = (Phase.DONE, Ending.APPROVED_EXECUTED) if comes_back else (Phase.CLAIMED, None)
    assert (task.phase, task.ending) == known
    assert len(kit.tool.calls) == 1
