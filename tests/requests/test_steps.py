"""Steps in sequence and side by side: which one is open, who sees what, and when the request is approved.

Design section 4, "A step"; catalogue ARS-114.
"""

import pytest

from arap_service import requests
from arap_service.domain.errors import IneligibleApprover, UnknownTask
from tests.requests.workflows import OpenWorkflow, mine, rules_of
from tests.requests.world import person

pytestmark = pytest.mark.anyio

LEGAL_FIRST = rules_of(
    "{id: board, title: The board, groups: [board], after: [legal, treasury]}",
    "{id: legal, title: Legal, groups: [legal]}",
    "{id: treasury, title: Treasury, groups: [treasury]}",
    "{id: carl, title: Payroll, people: [carl], after: [board]}",
)


@pytest.mark.requirement("ARS-114")
async def test_a_request_goes_from_step_to_step_and_is_approved_when_all_are_complete(workflow: OpenWorkflow) -> None:
    async with workflow(LEGAL_FIRST) as world:
        task_id = await world.pending()
        assert [(await mine(world, who)) for who in ("lea", "ann", "mo", "carl")] == [[task_id], [task_id], [], []]
        first = await world.decide(task_id, "lea")
        assert [(step.id, step.status, step.after) for step in first.steps] == [
            ("board", "later", ("Legal", "Treasury")),
            ("legal", "completed", ()),
            ("treasury", "waiting", ()),
            ("carl", "later", ("The board",)),
        ]
        assert await mine(world, "mo") == []
        second = await world.decide(task_id, "ann")
        assert (second.status, [step.status for step in second.steps]) == (
            "pending",
            ["waiting", "completed", "completed", "later"],
        )
        assert (await mine(world, "mo"), await mine(world, "carl")) == ([task_id], [])
        assert (await world.decide(task_id, "mo")).status == "pending"
        assert await mine(world, "carl") == [task_id]
        assert (await world.decide(task_id, "carl")).status == "approved"


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_a_step_that_is_not_open_takes_no_vote_and_the_attempt_is_recorded(
    workflow: OpenWorkflow, decision: str
) -> None:
    async with workflow(LEGAL_FIRST) as world:
        task_id = await world.pending()
        with pytest.raises(IneligibleApprover) as caught:
            await world.decide(task_id, "mo", decision)
        assert caught.value.extra == {"code": "step_not_open"}
        shown = await requests.detail(world.ctx, person("mo", scopes=frozenset({"approval:resolve"})), task_id)
        assert (shown.status, shown.votes, shown.may_decide, shown.why_not) == ("pending", (), False, "step_not_open")
        assert shown.history[-1].text == "Tried to decide before it was their turn"


async def test_a_step_that_is_not_open_cannot_be_claimed_nor_asked_about(workflow: OpenWorkflow) -> None:
    async with workflow(LEGAL_FIRST) as world:
        task_id = await world.pending()
        for attempt in (
            requests.claim(world.ctx, person("mo"), task_id),
            requests.ask(world.ctx, person("mo"), task_id, message="Why?"),
        ):
            with pytest.raises(IneligibleApprover):
                await attempt
        claimed = await requests.claim(world.ctx, person("lea"), task_id)
        assert claimed.claimed_by == "Lea Legal"
        await world.decide(task_id, "lea")
        await world.decide(task_id, "ann")
        released = await requests.release(world.ctx, person("mo"), task_id)
        assert released.claimed_by is None
        assert (await requests.claim(world.ctx, person("mo"), task_id)).claimed_by == "Mo Board"


async def test_a_denial_in_an_open_step_ends_the_request_before_later_ones(workflow: OpenWorkflow) -> None:
    async with workflow(LEGAL_FIRST) as world:
        task_id = await world.pending()
        ended = await world.decide(task_id, "lea", "deny")
        assert ended.status == "denied"
        assert [step.status for step in ended.steps] == ["later", "ended", "waiting", "later"]


async def test_who_counted_in_a_step_does_not_count_in_the_next_one(workflow: OpenWorkflow) -> None:
    rules = rules_of(
        "{id: one, title: One, groups: [treasury]}", "{id: two, title: Two, groups: [treasury], after: [one]}"
    )
    async with workflow(rules) as world:
        task_id = await world.pending()
        await world.decide(task_id, "ann")
        assert (await mine(world, "ann"), await mine(world, "bob")) == ([], [task_id])
        with pytest.raises(IneligibleApprover) as caught:
            await world.decide(task_id, "ann")
        assert caught.value.extra == {"code": "counted_in_another_step"}


async def test_a_request_that_no_step_names_somebody_in_is_unknown_to_him(workflow: OpenWorkflow) -> None:
    async with workflow(LEGAL_FIRST) as world:
        task_id = await world.pending()
        with pytest.raises(UnknownTask):
            await requests.detail(world.ctx, person("zoe", scopes=frozenset({"approval:resolve"})), task_id)
