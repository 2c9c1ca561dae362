"""Reminders, further people and deadlines of steps: exactly once, by the clock, whether a worker came by or not.

Design section 4, "A step"; issue 5, point 1.
"""

import json
from typing import Any

import anyio
import pytest
from sqlmodel import col, select

from arap_service import requests, workers
from arap_service.domain.errors import ArapError, IneligibleApprover, InvalidTaskState
from arap_service.store.notice_tables import Announcement
from arap_service.store.step_tables import StepDue
from tests.requests.workflows import OpenWorkflow, mine, rules_of
from tests.requests.world import World, person

pytestmark = pytest.mark.anyio

ESCALATED = rules_of(
    "{id: legal, title: Legal, groups: [legal], remind_seconds: [60, 120],"
    " escalate: {after_seconds: 180, groups: [board], people: [zoe]}, deadline_seconds: 600, on_deadline: deny}",
    "{id: treasury, title: Treasury, groups: [treasury], after: [legal], remind_seconds: [60], deadline_seconds: 300}",
)


async def announced(world: World) -> list[tuple[str, str | None, str]]:
    def read(session: Any) -> list[tuple[str, str | None, str]]:
        rows = session.exec(select(Announcement).order_by(col(Announcement.at), col(Announcement.key))).all()
        return [(row.kind, row.step_id, row.key.rpartition(":")[2]) for row in rows if row.kind != "request_waiting"]

    return await world.ctx.database.read(read)


async def test_further_people_may_decide_when_a_step_has_waited_long_enough(workflow: OpenWorkflow) -> None:
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        world.clock.advance(179)
        await workers.keep_step_times(world.ctx)
        assert (await mine(world, "mo"), await mine(world, "zoe")) == ([], [])
        world.clock.advance(1)
        await workers.keep_step_times(world.ctx)
        assert (await mine(world, "mo"), await mine(world, "zoe"), await mine(world, "lea")) == (
            [task_id],
            [task_id],
            [task_id],
        )
        shown = await requests.detail(world.ctx, person("mo"), task_id)
        assert shown.steps[0].escalated_at == world.clock()
        assert shown.history[-1].text == "Asked further people, since nobody had decided"
        assert (await world.decide(task_id, "zoe")).steps[0].status == "completed"
        entry = next(each for each in await world.audit(task_id) if each.kind == "step_escalated")
        assert json.loads(entry.detail) == {"step": "legal", "groups": ["board"], "people": ["zoe"]}


async def test_who_is_asked_later_may_decide_though_no_worker_came_by(workflow: OpenWorkflow) -> None:
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        world.clock.advance(179)
        with pytest.raises(IneligibleApprover):
            await world.decide(task_id, "zoe")
        world.clock.advance(1)
        assert (await world.decide(task_id, "zoe")).steps[0].status == "completed"


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.requirement("ARS-120")
async def test_nobody_decides_after_the_deadline_of_a_step_though_no_worker_came_by(
    workflow: OpenWorkflow, decision: str
) -> None:
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        world.clock.advance(599)
        assert await mine(world, "lea") == [task_id]
        world.clock.advance(1)
        assert await mine(world, "lea") == []
        assert (await requests.detail(world.ctx, person("lea"), task_id)).why_not == "deadline_passed"
        with pytest.raises(InvalidTaskState) as caught:
            await world.decide(task_id, "lea", decision)
        assert caught.value.extra["current_status"] == "denied"
        shown = await requests.detail(world.ctx, person("lea"), task_id)
        assert (shown.status, shown.ended_by, shown.votes) == ("denied", "step_deadline", ())
        assert [step.status for step in shown.steps] == ["ended", "later"]


async def test_a_step_runs_from_its_opening_and_expires_the_request(workflow: OpenWorkflow) -> None:
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        world.clock.advance(500)
        await world.decide(task_id, "lea")
        world.clock.advance(299)
        await workers.keep_step_times(world.ctx)
        assert await world.status(task_id) == "pending"
        world.clock.advance(1)
        await workers.keep_step_times(world.ctx)
        assert await world.status(task_id) == "expired"
        assert (await world.kinds(task_id))[-1] == "task_expired"


async def test_a_step_that_is_complete_has_no_deadline_any_more(workflow: OpenWorkflow) -> None:
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        await world.decide(task_id, "lea")
        await world.decide(task_id, "ann")
        world.clock.advance(700)
        await workers.keep_step_times(world.ctx)
        assert (await requests.detail(world.ctx, person("lea"), task_id)).status == "approved"
        assert "step_escalated" not in await world.kinds(task_id)


async def test_a_deadline_can_ask_further_people_instead_of_ending(workflow: OpenWorkflow) -> None:
    rules = rules_of(
        "{id: legal, title: Legal, groups: [legal], escalate: {groups: [board]},"
        " deadline_seconds: 100, on_deadline: escalate}"
    )
    async with workflow(rules) as world:
        task_id = await world.pending()
        world.clock.advance(100)
        await workers.keep_step_times(world.ctx)
        assert (await mine(world, "lea"), await mine(world, "mo")) == ([task_id], [task_id])
        assert (await world.decide(task_id, "mo")).status == "approved"


async def test_reminders_are_announced_once_by_whichever_instance_comes_first(
    workflow: OpenWorkflow,
) -> None:
    async with workflow(ESCALATED, channels=True) as world:
        await world.pending()
        world.clock.advance(60)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.keep_step_times, world.ctx)
        assert await announced(world) == [("reminder", "legal", "1")]
        world.clock.advance(120)
        await workers.keep_step_times(world.ctx)
        assert await announced(world) == [
            ("reminder", "legal", "1"),
            ("escalated", "legal", ""),
            ("reminder", "legal", "2"),
        ]


async def test_after_an_outage_one_reminder_is_enough(workflow: OpenWorkflow) -> None:
    async with workflow(ESCALATED, channels=True) as world:
        await world.pending()
        world.clock.advance(150)
        await workers.keep_step_times(world.ctx)
        assert await announced(world) == [("reminder", "legal", "2")]
        left = await world.ctx.database.read(
            lambda session: session.exec(select(StepDue.kind).where(col(StepDue.done_at).is_(None))).all()
        )
        assert sorted(left) == ["deadline", "escalate"]


async def test_what_is_due_is_done_in_the_order_of_time_when_much_is(workflow: OpenWorkflow) -> None:
    """A worker that was away for a day finds an escalation and a deadline, and both are in the record."""
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        world.clock.advance(80_000)
        await workers.keep_step_times(world.ctx)
        assert (await world.kinds(task_id))[-2:] == ["step_escalated", "task_denied"]
        await workers.keep_step_times(world.ctx)
        assert (await world.kinds(task_id)).count("step_escalated") == 1


async def test_a_deadline_and_a_decision_at_once_have_one_outcome(workflow: OpenWorkflow) -> None:
    async with workflow(ESCALATED) as world:
        task_id = await world.pending()
        version = await world.version(task_id)
        world.clock.advance(600)

        async def decide() -> None:
            with pytest.raises(ArapError):
                await requests.decide(world.ctx, person("lea"), task_id, decision="approve", version=version)

        async with anyio.create_task_group() as group:
            group.start_soon(decide)
            group.start_soon(workers.keep_step_times, world.ctx)
        assert (await world.kinds(task_id)).count("task_denied") == 1
