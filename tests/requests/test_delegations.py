"""Deciding in somebody's place: one seat, never two, for as long as it lasts, and never where either is excluded.

Issue 5: delegation and out-of-office with dates; delegation ended while the request waits.
"""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import anyio
import pytest
from sqlmodel import Session, select

from arap_service import requests
from arap_service.domain.callers import Caller
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InvalidRequest,
    InvalidTaskState,
    UnknownTask,
)
from arap_service.requests.delegations import DelegationView, Wanted, delegate, delegations, end_delegation
from arap_service.requests.recipients import recipients
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement
from arap_service.store.people_tables import Person
from arap_service.views import QueueFilter
from tests.clock import START
from tests.requests.workflows import OpenWorkflow, mine, rules_of
from tests.requests.world import World, person, question

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
TWO_OF_TREASURY = rules_of(
    "{id: treasury, title: Treasury, groups: [treasury], quorum: 2, veto: 2}",
    "{id: board, title: Board, groups: [board, legal], after: [treasury]}",
)


@pytest.fixture
async def office(workflow: OpenWorkflow) -> AsyncIterator[World]:
    """Two of treasury, then the board."""
    async with workflow(TWO_OF_TREASURY) as world:
        yield world


async def away(world: World, who: str = "ann", deputy: str = "zoe", **more: Any) -> DelegationView:
    """Have `deputy` decide for `who` during the next ten hours."""
    given = {"starts_at": START, "ends_at": START + 10 * HOUR, **more}
    return await delegate(world.ctx, person(who), Wanted(person_id=who, deputy_id=deputy, **given))


def bare(who: str) -> Caller:
    return person(who, scopes=frozenset({"approval:resolve"}))


async def refusal(world: World, task_id: str, who: str) -> str:
    with pytest.raises(ArapError) as caught:
        await world.decide(task_id, bare(who))
    return str(caught.value.extra.get("code")) if isinstance(caught.value, IneligibleApprover) else caught.value.urn


@pytest.mark.requirement("ARS-115")
async def test_a_deputy_decides_in_the_place_of_the_other_and_the_record_names_both(office: World) -> None:
    task_id = await office.pending()
    assert await refusal(office, task_id, "zoe") == UnknownTask.urn
    made = await away(office)
    assert (made.person, made.deputy, made.state) == ("Ann Treasurer", "Zoe Nobody", "in_force")
    assert await mine(office, "zoe") == [task_id]
    shown = await office.decide(task_id, bare("zoe"))
    assert [(vote.voter, vote.in_place_of) for vote in shown.votes] == [("Zoe Nobody", "Ann Treasurer")]
    assert shown.history[-1].text == "Approved in step Treasury, in the place of Ann Treasurer"
    entry = next(each for each in await office.audit(task_id) if each.kind == "vote_cast")
    said = json.loads(entry.detail)
    assert (entry.actor, said["in_place_of"], said["by"]) == ("person:zoe", "ann", made.id)


async def test_a_deputy_is_told_of_what_waits_for_him(workflow: OpenWorkflow) -> None:
    async with workflow(TWO_OF_TREASURY, channels=True) as world:
        await world.pending()
        await away(world)
        await away(world, who="bob", deputy="carl", starts_at=START + HOUR)

        def read(session: Session) -> set[str]:
            (told,) = session.exec(select(Announcement)).all()
            return {each.person.id for each in recipients(world.ctx, session, told)}

        assert await world.ctx.database.read(read) == {"ann", "bob", "zoe"}


@pytest.mark.requirement("ARS-116")
async def test_there_is_one_seat_whoever_sits_in_it(office: World) -> None:
    task_id = await office.pending()
    await away(office)
    await away(office, deputy="carl")
    await office.decide(task_id, bare("zoe"))
    assert await mine(office, "ann") == [] == await mine(office, "carl")
    assert await refusal(office, task_id, "ann") == "already_decided"
    assert await refusal(office, task_id, "carl") == "absent_may_not"
    assert (await office.decide(task_id, "bob")).status == "pending"  # now two of treasury, and the board is open


@pytest.mark.requirement("ARS-116")
async def test_a_deputy_who_is_a_member_himself_has_one_voice(office: World) -> None:
    task_id = await office.pending()
    await away(office, deputy="bob")
    shown = await office.decide(task_id, bare("bob"))
    assert [vote.in_place_of for vote in shown.votes] == [None]
    assert await refusal(office, task_id, "bob") == "already_decided"
    assert [step.approvals for step in shown.steps] == [1, 0]


@pytest.mark.requirement("ARS-116")
async def test_who_has_decided_a_step_in_anothers_place_decides_no_other_step_and_nor_does_the_other(
    office: World,
) -> None:
    task_id = await office.pending()
    await away(office, deputy="lea")
    await office.decide(task_id, bare("lea"))
    await office.decide(task_id, "bob")
    assert await refusal(office, task_id, "lea") == "counted_in_another_step"
    await away(office, who="mo", deputy="ann")  # she has a seat in the first step already
    assert await refusal(office, task_id, "ann") == "counted_in_another_step"


@pytest.mark.parametrize("subject", ["ann", "ann@corp.example"])
@pytest.mark.requirement("ARS-116", "GOV-12")
async def test_what_excludes_the_one_excludes_the_other(office: World, subject: str) -> None:
    task_id = (await office.submit(await office.body(question(subject=subject)))).task["id"]
    await away(office)
    assert await mine(office, "zoe") == []
    assert await refusal(office, task_id, "zoe") == "absent_may_not"


@pytest.mark.requirement("ARS-116", "GOV-12")
async def test_nobody_decides_for_himself_in_the_place_of_another(office: World) -> None:
    task_id = (await office.submit(await office.body(question(subject="zoe@corp.example")))).task["id"]
    await away(office)
    assert await mine(office, "zoe") == []
    assert await refusal(office, task_id, "zoe") == "is_subject"


async def test_there_are_no_chains(office: World) -> None:
    task_id = await office.pending()
    await away(office, deputy="zoe")
    await away(office, who="zoe", deputy="carl")
    assert await mine(office, "carl") == []
    assert await refusal(office, task_id, "carl") == UnknownTask.urn


async def test_a_delegation_counts_from_its_beginning_until_its_end(office: World) -> None:
    """An instant is an instant: the one who is away may be in another zone than the other."""
    task_id = await office.pending()
    tokyo = timezone(timedelta(hours=9))
    begins = (START + HOUR).astimezone(tokyo)
    await away(office, starts_at=begins, ends_at=begins + HOUR)
    assert await mine(office, "zoe") == []
    office.clock.advance(3600)
    assert await mine(office, "zoe") == [task_id]
    office.clock.advance(3599)
    assert await mine(office, "zoe") == [task_id]
    office.clock.advance(1)
    assert await mine(office, "zoe") == []
    assert await refusal(office, task_id, "zoe") == UnknownTask.urn


async def test_a_delegation_that_was_ended_while_the_page_was_open_counts_no_more(office: World) -> None:
    task_id = await office.pending()
    made = await away(office)
    seen = await requests.detail(office.ctx, bare("zoe"), task_id)
    assert (await end_delegation(office.ctx, person("ann"), made.id)).state == "ended"
    with pytest.raises(UnknownTask):
        await requests.decide(office.ctx, bare("zoe"), task_id, decision="approve", version=seen.version)
    with pytest.raises(InvalidTaskState):
        await end_delegation(office.ctx, person("ann"), made.id)


@pytest.mark.parametrize(("gone", "code"), [("ann", "absent_may_not"), ("zoe", "not_active")])
async def test_who_is_not_active_any_more_neither_stands_in_nor_is_stood_in_for(
    office: World, gone: str, code: str
) -> None:
    task_id = await office.pending()
    await away(office)

    def deactivate(session: WriteSession) -> None:
        found = session.get(Person, gone)
        assert found is not None
        found.active = False
        session.add(found)

    await office.ctx.database.write(deactivate)
    assert await mine(office, "zoe") == []
    assert await refusal(office, task_id, "zoe") == code


async def test_a_delegation_can_be_for_some_groups_only(workflow: OpenWorkflow) -> None:
    """What he is named for by himself, or as a member of other groups, is not in it."""
    rules = rules_of("{id: one, title: One, groups: [treasury], people: [alice], who: 'person.id == \"alice\"'}")
    async with workflow(rules) as world:
        task_id = (await world.submit(await world.body(question(subject="somebody")))).task["id"]
        made = await away(world, who="alice", groups=["board"])
        assert await mine(world, "zoe") == []
        assert await refusal(world, task_id, "zoe") == UnknownTask.urn
        await end_delegation(world.ctx, person("zoe"), made.id)
        await away(world, who="alice", groups=["treasury"])
        assert await mine(world, "zoe") == [task_id]
        assert (await world.decide(task_id, bare("zoe"))).status == "approved"


async def test_a_delegation_can_be_for_some_templates_only(workflow: OpenWorkflow) -> None:
    rules = (
        rules_of("{id: treasury, title: Treasury, groups: [treasury]}")
        .replace(
            "templates:\n",
            "templates:\n  other:\n    title: Other\n    explanation: Not this.\n"
            "    steps: [{id: treasury, title: Treasury, groups: [treasury]}]\n",
        )
        .replace("rules: [", "rules: [{id: o, when: 'resource.id == \"other\"', request: other}, ")
    )
    async with workflow(rules) as world:
        work, other = await world.pending(), await world.pending("other")
        await away(world, templates=["other"])
        assert await mine(world, "zoe") == [other]
        assert await refusal(world, work, "zoe") == UnknownTask.urn
        page = await requests.queue(world.ctx, bare("zoe"), QueueFilter())
        assert [row.id for row in page.items] == [other]
        assert (await world.decide(other, bare("zoe"))).status == "approved"


async def test_of_two_at_once_one_takes_the_seat(office: World) -> None:
    task_id = await office.pending()
    await away(office)
    version, refused = await office.version(task_id), []

    async def decide(who: str) -> None:
        try:
            await requests.decide(office.ctx, bare(who), task_id, decision="approve", version=version)
        except ArapError as error:
            refused.append(error.urn)

    async with anyio.create_task_group() as group:
        group.start_soon(decide, "zoe")
        group.start_soon(decide, "ann")
    assert len(refused) == 1
    assert len((await requests.detail(office.ctx, person("mo"), task_id)).votes) == 1


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"deputy_id": "ann"}, "/deputy"),
        ({"deputy_id": "nobody"}, "/deputy"),
        ({"deputy_id": "\x00"}, "/deputy"),
        ({"ends_at": START - HOUR, "starts_at": START - 2 * HOUR}, "/ends_at"),
        ({"ends_at": START}, "/ends_at"),
        ({"ends_at": START + timedelta(days=400)}, "/ends_at"),
        ({"starts_at": datetime(2026, 4, 30, 20, 0)}, "/starts_at"),  # noqa: DTZ001  # what this is about
        ({"groups": ["board"]}, "/groups"),
        ({"templates": ["nothing"]}, "/templates"),
    ],
)
async def test_what_is_no_delegation_is_refused_and_changes_nothing(
    office: World, changes: dict[str, Any], pointer: str
) -> None:
    given: dict[str, Any] = {"person_id": "ann", "deputy_id": "zoe", "starts_at": START, "ends_at": START + HOUR}
    with pytest.raises(InvalidRequest) as caught:
        await delegate(office.ctx, person("ann"), Wanted(**{**given, **changes}))
    assert caught.value.extra["pointer"] == pointer
    assert await delegations(office.ctx, person("ann")) == []


async def test_nobody_gives_away_or_ends_what_is_anothers(office: World) -> None:
    with pytest.raises(Forbidden):
        await delegate(
            office.ctx,
            person("zoe"),
            Wanted(person_id="ann", deputy_id="zoe", starts_at=START, ends_at=START + HOUR),
        )
    made = await away(office)
    with pytest.raises(UnknownTask):
        await end_delegation(office.ctx, person("bob"), made.id)
    with pytest.raises(Forbidden):
        await delegations(office.ctx, person("bob"), everybody=True)
    assert [each.id for each in await delegations(office.ctx, person("zoe"))] == [made.id]
    assert await delegations(office.ctx, person("bob")) == []
    administrator = person("bob", scopes=frozenset({"admin"}))
    assert [each.id for each in await delegations(office.ctx, administrator, everybody=True)] == [made.id]
    await end_delegation(office.ctx, administrator, made.id)
    assert await delegations(office.ctx, administrator, everybody=True) == []
    past = await delegations(office.ctx, administrator, everybody=True, with_past=True)
    assert [(each.state, each.ended_by, each.ended_at) for each in past] == [
        ("ended", "person:bob", datetime(2026, 4, 30, 20, 0, tzinfo=UTC))
    ]
