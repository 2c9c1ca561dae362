"""Deciders by relation and by expression: judged with what the rules in force say at that moment.

Design section 4, "A step"; issue 5: approver deactivated or changed while the request waits.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlmodel import select

from arap_service import requests
from arap_service.domain.callers import Caller
from arap_service.domain.errors import ArapError, IneligibleApprover, UnknownTask
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Manager, Membership
from arap_service.views import QueueFilter
from tests.requests.workflows import OpenWorkflow, mine, rules_of
from tests.requests.world import RISK_ENGINE, World, person, question

pytestmark = pytest.mark.anyio

ENTITIES = """
entities:
  user:
    alice: {{manager: {manager}}}
    ann: {{manager: mo}}
  tool:
    wire_transfer: {{owner: ["https://idp.example|carl@corp.example", lea]}}
  person:
    bob: {{limit: 60000}}
    ann: {{limit: 100}}
"""
MANAGER_THEN_OWNER = (
    "{id: manager, title: Manager, relations: [{of: subject, is: manager}]}",
    "{id: owner, title: Owner, relations: [{of: resource, is: owner}], after: [manager]}",
)
LIMITED = (
    '{id: limit, title: Whose limit it is, who: \'"treasury" in person.groups'
    " && person_entity.limit >= call.arguments.amount'}"
)


def with_entities(*steps: str, manager: str = "mo", template: str = "") -> str:
    return rules_of(*steps, more=ENTITIES.format(manager=manager), template=template)


def reload(world: World, rules: str) -> None:
    """Put other rules in force, as an edit of the file does."""
    path: Path = world.ctx.settings.policy_path
    path.write_text(rules + f"\n# {len(rules)}\n", encoding="utf-8")
    assert world.ctx.policy.refresh()


def leave_groups(session: WriteSession, who: str) -> None:
    for row in session.exec(select(Membership).where(Membership.person_id == who)):
        session.delete(row)


def bare(who: str) -> Caller:
    """Somebody who may decide, and reads nothing that does not name him."""
    return person(who, scopes=frozenset({"approval:resolve"}))


async def refusal(world: World, task_id: str, who: str | Caller) -> str:
    with pytest.raises(ArapError) as caught:
        await world.decide(task_id, who)
    return str(caught.value.extra.get("code")) if isinstance(caught.value, IneligibleApprover) else caught.value.urn


async def seen_by(world: World, who: str) -> Sequence[str]:
    page = await requests.queue(world.ctx, bare(who), QueueFilter())
    return [row.id for row in page.items]


@pytest.mark.requirement("ARS-115")
async def test_manager_then_owner_decide_and_nobody_else(workflow: OpenWorkflow) -> None:
    async with workflow(with_entities(*MANAGER_THEN_OWNER)) as world:
        task_id = await world.pending()
        assert [await mine(world, who) for who in ("mo", "lea", "carl", "bob")] == [[task_id], [], [], []]
        assert await refusal(world, task_id, "bob") == "not_assigned"
        assert await refusal(world, task_id, bare("bob")) == UnknownTask.urn
        assert await refusal(world, task_id, "lea") == "step_not_open"
        await world.decide(task_id, bare("mo"))
        assert [await mine(world, who) for who in ("mo", "lea", "carl")] == [[], [task_id], [task_id]]
        assert (await world.decide(task_id, bare("carl"))).status == "approved"


async def test_who_is_manager_now_decides_and_who_was_does_not(workflow: OpenWorkflow) -> None:
    async with workflow(with_entities(*MANAGER_THEN_OWNER)) as world:
        task_id = await world.pending()
        reload(world, with_entities(*MANAGER_THEN_OWNER, manager="bob"))
        assert (await mine(world, "mo"), await mine(world, "bob")) == ([], [task_id])
        assert (await seen_by(world, "mo"), await seen_by(world, "bob")) == ([], [task_id])
        assert await refusal(world, task_id, "mo") == "not_assigned"
        assert (await world.decide(task_id, bare("bob"))).version == 2


async def test_a_request_keeps_its_steps_though_the_file_has_others_now(workflow: OpenWorkflow) -> None:
    async with workflow(with_entities(*MANAGER_THEN_OWNER)) as world:
        task_id = await world.pending()
        reload(world, with_entities("{id: x, title: X, groups: [board]}", manager="bob"))
        assert await mine(world, "bob") == [task_id]


@pytest.mark.parametrize("value", ["alice", "[alice]", "'https://idp.example|alice@corp.example'"])
@pytest.mark.requirement("ARS-116")
async def test_who_manages_himself_does_not_decide_for_himself(workflow: OpenWorkflow, value: str) -> None:
    async with workflow(with_entities(*MANAGER_THEN_OWNER, manager=value)) as world:
        task_id = await world.pending()
        assert await mine(world, "alice") == []
        assert await refusal(world, task_id, "alice") == "is_subject"


@pytest.mark.parametrize("value", ["MO", "mo@corp.example", "'https://other.example|mo'", "5", "{id: mo}"])
async def test_a_relation_is_to_exactly_who_is_named(workflow: OpenWorkflow, value: str) -> None:
    """To grant something, what merely looks alike is not the same."""
    async with workflow(with_entities(*MANAGER_THEN_OWNER, manager=value)) as world:
        task_id = await world.pending()
        assert await refusal(world, task_id, "mo") == "not_assigned"


async def test_the_directory_knows_managers_as_well(workflow: OpenWorkflow) -> None:
    """By whichever of his names the enforcement point calls him."""
    async with workflow(with_entities(*MANAGER_THEN_OWNER)) as world:
        await world.ctx.database.write(lambda session: session.add(Manager(person_id="carl", manager_id="zoe")))
        submitted = await world.submit(await world.body(question(subject="carl@corp.example")))
        task_id = submitted.task["id"]
        assert await mine(world, "zoe") == [task_id]
        assert await refusal(world, task_id, "mo") == "not_assigned"
        assert (await world.decide(task_id, bare("zoe"))).version == 2


@pytest.mark.requirement("ARS-115")
async def test_an_expression_names_who_may_decide(workflow: OpenWorkflow) -> None:
    async with workflow(with_entities(LIMITED)) as world:
        task_id = await world.pending()
        assert [await mine(world, who) for who in ("ann", "bob", "mo")] == [[], [task_id], []]
        assert [await seen_by(world, who) for who in ("ann", "bob", "mo")] == [[], [task_id], []]
        assert await refusal(world, task_id, "ann") == "not_assigned"
        assert await refusal(world, task_id, bare("ann")) == UnknownTask.urn
        assert (await world.decide(task_id, bare("bob"))).status == "approved"


async def test_an_expression_is_asked_anew_when_the_rules_or_the_person_have_changed(workflow: OpenWorkflow) -> None:
    async with workflow(with_entities(LIMITED)) as world:
        task_id = await world.pending()
        assert await mine(world, "ann") == []
        reload(world, with_entities(LIMITED).replace("limit: 100}", "limit: 100000}"))
        assert await mine(world, "ann") == [task_id]
        await world.ctx.database.write(lambda session: leave_groups(session, "ann"))
        assert await mine(world, "ann") == []
        assert await refusal(world, task_id, "ann") == "not_assigned"


@pytest.mark.parametrize(
    "who",
    ["person_entity.nothing == 1", "call.arguments.nobody == 1", "person.groups == 5", "1 / 0 == 1"],
)
async def test_an_expression_that_fails_names_nobody(workflow: OpenWorkflow, who: str) -> None:
    async with workflow(with_entities(f"{{id: a, title: A, who: '{who}', people: [mo]}}")) as world:
        task_id = await world.pending()
        assert (await mine(world, "bob"), await mine(world, "mo")) == ([], [task_id])
        assert await refusal(world, task_id, "bob") == "not_assigned"


async def test_an_expression_lets_neither_the_subject_nor_a_machine_decide(workflow: OpenWorkflow) -> None:
    async with workflow(with_entities("{id: a, title: A, who: 'true'}")) as world:
        task_id = await world.pending()
        assert await refusal(world, task_id, "alice") == "is_subject"
        assert await refusal(world, task_id, RISK_ENGINE) == UnknownTask.urn
        assert await mine(world, "alice") == []
        assert (await world.decide(task_id, bare("zoe"))).status == "approved"
