"""The store's own guarantees, on both engines. Provenance: SEP-2848 "Crash-consistent creation"; design section 8."""

from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError

from mcp_gate import statements
from mcp_gate.backend import InputQuestion
from mcp_gate.events import Approved, BackendEnded, Cancel, Cause, Expire, InputAsked, InputSettled
from mcp_gate.lifecycle import GateTask, Phase, Refused
from mcp_gate.limits import Limits
from mcp_gate.records import Changes
from mcp_gate.tables import Instant, outcome, question, task
from tests.clock import START
from tests.gate.kit import Killed, Kit

pytestmark = pytest.mark.anyio


async def put(kit: Kit, task_id: str, **values: Any) -> None:
    await kit.store.database.write(
        lambda connection: connection.execute(update(task).where(task.c.id == task_id).values(values))
    )


@pytest.mark.requirement("PEP-70", "PEP-89", "PEP-116")
@pytest.mark.parametrize(
    "impossible",
    [
        {"phase": "done"},
        {"phase": "limbo"},
        {"ending": "failed"},
        {"phase": "done", "ending": "lost", "terminalized_at": START},
        {"phase": "done", "ending": "failed", "terminalized_at": START, "worker": "wrk"},
        {"phase": "done", "ending": "cancelled", "terminalized_at": START, "worker": "wrk"},
        {"phase": "done", "ending": "denied-not-executed", "terminalized_at": START, "worker": "wrk"},
        {"phase": "done", "ending": "approved-executed", "terminalized_at": START},
        {"phase": "done", "ending": "failed"},
        {"phase": "claimed", "worker": "wrk"},
        {"phase": "claimed", "execution_deadline": START},
        {"announced": False},
    ],
)
async def test_impossible_states_cannot_be_stored(kit: Kit, impossible: dict[str, Any]) -> None:
    task_id = await kit.open()
    with pytest.raises(IntegrityError):
        await put(kit, task_id, **impossible)


@pytest.mark.requirement("PEP-70")
async def test_a_second_result_is_refused_by_the_table_itself(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.approve()
    await kit.step(task_id)
    with pytest.raises(IntegrityError):
        await kit.store.database.write(
            lambda connection: connection.execute(
                insert(outcome).values(task_id=task_id, result=b"another", stored_at=START)
            )
        )


@pytest.mark.requirement("PEP-64")
async def test_one_call_has_one_open_task_whatever_is_inserted(kit: Kit) -> None:
    task_id = await kit.open()
    stored = await kit.stored(task_id)
    other = await kit.open({"another": True})
    with pytest.raises(IntegrityError):
        await put(kit, other, digest=stored.digest)


async def test_a_transition_that_lost_its_race_writes_nothing(kit: Kit) -> None:
    """Forced: between reading and writing, somebody else moves the task."""
    task_id = await kit.open()
    before = await kit.task(task_id)
    moved = await kit.store.transact(task_id, Cancel(), writing=kit.engine._core.writing)
    assert isinstance(moved, GateTask)
    won = await kit.store.database.write(
        lambda connection: statements.replace_task(connection, before, before, {"next_due": START})
    )
    assert won is False
    assert await kit.store.transact(task_id, Cancel(), writing=kit.engine._core.writing) == Refused("not_in_this_phase")
    stale = await kit.store.transact(task_id, Expire(), writing=kit.engine._core.writing, seen=before.version)
    assert stale == Refused("not_in_this_phase")
    assert await kit.store.transact("tsk_none", Cancel(), writing=kit.engine._core.writing) == Refused(
        "not_in_this_phase"
    )


async def test_four_way_races_have_one_winner_and_one_line_of_audit(kit: Kit) -> None:
    roomy = await kit.restarted(limits=Limits(open_tasks=10_000, intents_per_minute=10_000))
    for number in range(25):
        task_id = await roomy.open({"number": number})
        until = datetime.fromisoformat("2026-05-01T00:00:00Z")
        events = [
            (Approved(1, until), Changes(approval={"id": "a"})),
            (BackendEnded(1, Cause.DENIED), Changes(result={"content": []})),
            (Cancel(), Changes()),
            (InputAsked(1), Changes()),
        ]
        results: list[object] = []
        seen = (await roomy.task(task_id)).version

        async def one(
            event: Any, changes: Changes, task_id: str = task_id, seen: int = seen, to: Any = results
        ) -> None:
            to.append(
                await roomy.store.transact(
                    task_id, event, writing=roomy.engine._core.writing, seen=seen, changes=changes
                )
            )

        with anyio.fail_after(55):
            async with anyio.create_task_group() as group:
                for event, changes in events[number % 4 :] + events[: number % 4]:
                    group.start_soon(one, event, changes)
        assert sum(isinstance(result, GateTask) for result in results) == 1
        assert len(await roomy.audit(task_id)) == 3
    await roomy.aclose()


@pytest.mark.requirement("PEP-108")
async def test_an_older_version_of_the_same_phase_overwrites_nothing(kit: Kit) -> None:
    """Forced: the deadline moved in between, the phase did not, and what was decided before must not undo that."""
    task_id = await kit.open()
    before = await kit.task(task_id)
    later = before.pending_deadline + timedelta(hours=1)
    assert await kit.store.prolong(before, deadline=later, next_due=START, writing=kit.engine._core.writing)
    assert not await kit.store.prolong(before, deadline=START, next_due=START, writing=kit.engine._core.writing)
    assert (await kit.task(task_id)).pending_deadline == later


@pytest.mark.requirement("PEP-66", "PEP-111")
async def test_a_claim_is_good_for_one_invocation(kit: Kit) -> None:
    """The statement before the tool runs is true once per claim, for the worker that holds it and no other."""
    begun: list[bool] = []

    async def begin_again() -> None:
        claimed = await kit.task(task_id)
        writing = kit.engine._core.writing
        begun.append(await kit.store.begin_invocation(claimed, worker=claimed.worker or "", writing=writing))
        begun.append(await kit.store.begin_invocation(claimed, worker="another", writing=writing))

    task_id = await kit.open()
    kit.backend.approve()
    kit.tool.during = begin_again
    await kit.step(task_id)
    assert begun == [False, False]
    assert len(kit.tool.calls) == 1


@pytest.mark.requirement("PEP-111", "PEP-113")
async def test_a_claim_begins_once_even_for_its_own_worker(kit: Kit) -> None:
    """Nothing but the first beginning differs: same worker, same version, in time."""
    task_id = await kit.open()
    kit.backend.approve()
    kit.crash_at = "claim.committed"
    with pytest.raises(Killed):
        await kit.step(task_id)
    kit = await kit.restarted()
    claimed, writing = await kit.task(task_id), kit.engine._core.writing
    assert claimed.worker is not None
    begun = [await kit.store.begin_invocation(claimed, worker=claimed.worker, writing=writing) for _ in range(3)]
    assert begun == [True, False, False]
    await kit.aclose()


@pytest.mark.requirement("PEP-92")
async def test_an_answer_settles_no_question_of_another_generation(kit: Kit) -> None:
    """Forced: a question of the generation before is open, and its key is known."""
    task_id = await kit.open()
    writing = kit.engine._core.writing
    for version in (1, 2, 2):
        asked = Changes(questions=(InputQuestion("Why?", {"type": "object"}, version),))
        await kit.store.transact(task_id, InputSettled(1), writing=writing)
        await kit.store.transact(task_id, InputAsked(1), writing=writing, changes=asked)
    stale = update(question).where(question.c.key == "input-1-1").values(state="open", generation=0)
    await kit.store.database.write(lambda connection: connection.execute(stale))
    assert await kit.store.settle_inputs(task_id, {"input-1-1": {"ticket": "INC-7"}}, writing=writing)
    assert not await kit.store.settle_inputs(task_id, {"input-1-2-2": None}, writing=writing)
    states = {found.key: found.state for found in await kit.store.questions(task_id)}
    assert states == {"input-1-1": "open", "input-1-2": "withdrawn", "input-1-2-2": "declined"}
    assert await kit.engine.deliver() == 0


async def test_a_callers_transition_is_retried_on_the_state_that_it_finds(kit: Kit) -> None:
    """A cancellation concluded from nothing seen wins against a poll that merely prolonged the task."""
    task_id = await kit.open()
    before = await kit.task(task_id)
    assert await kit.store.prolong(
        before, deadline=before.pending_deadline, next_due=START, writing=kit.engine._core.writing
    )
    assert not await kit.store.prolong(
        before, deadline=before.pending_deadline, next_due=START, writing=kit.engine._core.writing
    )
    moved = await kit.store.transact(task_id, Cancel(), writing=kit.engine._core.writing)
    assert isinstance(moved, GateTask)
    assert moved.phase is Phase.DONE


async def test_rescheduling_a_task_that_moved_on_changes_nothing(kit: Kit) -> None:
    task_id = await kit.open()
    before = await kit.task(task_id)
    await kit.store.transact(task_id, InputAsked(1), writing=kit.engine._core.writing)
    due = (await kit.stored(task_id)).next_due
    await kit.store.reschedule(before, next_due=START.replace(year=2030), attempts=9)
    assert (await kit.stored(task_id)).next_due == due


async def test_instants_come_back_as_they_were_and_naive_ones_are_refused(kit: Kit) -> None:
    task_id = await kit.open()
    odd = datetime.fromisoformat("2026-07-01T12:34:56.789012+05:30")
    await put(kit, task_id, next_due=odd)
    due = (await kit.stored(task_id)).next_due
    assert due == odd
    assert due is not None
    assert due.utcoffset() is not None
    with pytest.raises(ValueError, match="zone"):
        Instant().process_bind_param(datetime(2026, 1, 1), _Dialect())  # type: ignore[arg-type]  # noqa: DTZ001 - the point


class _Dialect:
    name = "sqlite"


async def test_parts_of_a_task_that_is_gone_are_nobodys(kit: Kit) -> None:
    assert await kit.store.view("tsk_none") is None
    assert await kit.store.handle_of("tsk_none", 1) is None
    assert await kit.store.questions("tsk_none") == ()
    assert await kit.store.settle_inputs("tsk_none", {"a": None}, writing=kit.engine._core.writing) is False
    submission = (await kit.stored(await kit.open())).submission
    assert submission.handle is not None
    await kit.store.keep_handle("tsk_none", 1, submission.handle)
    assert await kit.store.handle_of("tsk_none", 1) is None
