"""Emergency access: one on call decides, for a shorter time; owners are alerted, and somebody else reviews the use."""

from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import select

from arap_service import requests, workers
from arap_service.domain.callers import Scope
from arap_service.domain.errors import (
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    NotFound,
)
from arap_service.evaluation import evaluate
from arap_service.protocol.arap import format_instant
from arap_service.requests.reviews import close_review, list_reviews, remind_of_overdue
from arap_service.store.notice_tables import Announcement
from arap_service.store.reviews import overdue_count
from tests.clock import START
from tests.requests.world import GATE, READER, World, machine, person, question

pytestmark = pytest.mark.anyio
URGENT = {"emergency": True, "business_justification": "The vault is on fire."}


async def pending(world: World, resource: str = "unlock", **wishes: Any) -> str:
    body = await world.body(question(resource), requested_access={**URGENT, **wishes})
    submitted = await world.submit(body)
    assert submitted.task["status"] == "pending"
    return str(submitted.task["id"])


async def used(world: World, task_id: str) -> str:
    """The approval of a request once it has been used at the decision point."""
    approval = (await requests.status(world.ctx, GATE, task_id))["result"]["approval"]
    asked = question("unlock")
    answer = await evaluate(world.ctx, GATE, {**asked, "context": {**asked["context"], "approval": approval}})
    assert answer["decision"] is True
    return str(approval["id"])


@pytest.mark.requirement("ARS-119")
@pytest.mark.parametrize("resource", ["unlock", "plain"])
@pytest.mark.parametrize("said", [{}, {"business_justification": " \u200b\u3164"}, {"business_justification": 7}])
async def test_emergency_without_a_justification_is_refused(terms: World, resource: str, said: dict[str, Any]) -> None:
    """Catalogue ARS-119: 422, whether the template has a rule for emergencies or not."""
    body = await terms.body(question(resource), requested_access={"emergency": True, **said})
    with pytest.raises(InputInvalid) as refused:
        await terms.submit(body)
    assert refused.value.status == 422
    assert refused.value.extra["errors"] == [
        {"pointer": "/requested_access/business_justification", "code": "required"}
    ]


async def test_emergency_that_is_no_boolean_is_no_submission(terms: World) -> None:
    with pytest.raises(InvalidRequest):
        await terms.submit(await terms.body(question("unlock"), requested_access={**URGENT, "emergency": "yes"}))


@pytest.mark.requirement("ARS-119")
async def test_one_of_those_on_call_approves_for_a_shorter_time_and_owners_are_alerted(terms: World) -> None:
    """Catalogue ARS-119: nothing approves by itself, although a rule of the template would."""
    plain = await terms.submit(await terms.body(question("unlock")))
    assert plain.task["status"] == "approved"  # by the rule, since it is no emergency
    task_id = await pending(terms)
    before = await requests.detail(terms.ctx, person("carl"), task_id)
    assert (before.is_emergency, [(step.title, step.quorum) for step in before.steps]) == (
        True, [("On call tonight", 1)],
    )  # fmt: skip
    assert before.deadline == START + timedelta(seconds=600)
    for who, code in (("ann", "not_assigned"), ("alice", "is_subject")):
        with pytest.raises(IneligibleApprover) as refused:
            await terms.decide(task_id, who)
        assert refused.value.extra["code"] == code
    approval = (await terms.decide(task_id, "lea")).approval
    assert approval is not None
    assert approval.approved_until - approval.approved_at == timedelta(seconds=120)
    assert '"emergency":true' in (await terms.audit(task_id))[0].detail


@pytest.mark.requirement("ARS-119")
async def test_owners_are_alerted_when_it_is_approved_and_when_a_review_is_due(alerting: World) -> None:
    task_id = await pending(alerting)
    await alerting.decide(task_id, "lea")
    await used(alerting, task_id)
    found = await alerting.ctx.database.read(lambda session: list(session.exec(select(Announcement))))
    told = {row.kind: (row.groups, row.actor) for row in found if row.kind in {"emergency_used", "review_due"}}
    owners = ["board", "treasury"]
    assert told == {"emergency_used": (owners, "person:lea"), "review_due": (owners, None)}


async def test_owners_are_told_again_each_day_that_a_review_is_late_and_not_after_it_is_closed(alerting: World) -> None:
    task_id = await pending(alerting)
    await alerting.decide(task_id, "lea")
    approval_id = await used(alerting, task_id)
    [review] = (await list_reviews(alerting.ctx, READER)).items

    def late() -> int:
        return alerting.ctx.database.read_now(lambda session: overdue_count(session, now=alerting.clock()))

    assert (await remind_of_overdue(alerting.ctx), late()) == (0, 0)
    alerting.clock.advance((review.due_at - alerting.clock()).total_seconds() + 1)
    assert [await remind_of_overdue(alerting.ctx) for _ in range(2)] == [1, 0]
    assert late() == 1
    alerting.clock.advance(86400)
    assert [await remind_of_overdue(alerting.ctx) for _ in range(2)] == [1, 0]
    found = await alerting.ctx.database.read(lambda session: list(session.exec(select(Announcement))))
    assert {tuple(row.groups) for row in found if row.kind == "review_due"} == {("board", "treasury")}
    await close_review(alerting.ctx, person("mo"), approval_id, outcome="justified", note="Seen.")
    alerting.clock.advance(86400)
    assert (await remind_of_overdue(alerting.ctx), late()) == (0, 0)


async def test_rule_that_denies_wins_over_an_emergency(terms: World) -> None:
    asked = question("unlock", arguments={"to": "X"})
    submitted = await terms.submit(await terms.body(asked, requested_access=URGENT))
    assert submitted.task["status"] == "denied"


async def test_without_a_rule_it_is_a_request_like_any_other(terms: World) -> None:
    task_id = await pending(terms, "plain")
    detail = await terms.decide(task_id, "ann")
    assert (detail.is_emergency, detail.status) == (False, "approved")
    assert (await list_reviews(terms.ctx, READER)).items == ()


@pytest.mark.requirement("ARS-119")
@pytest.mark.parametrize("by_report", [False, True])
async def test_use_opens_one_review_that_somebody_without_a_part_closes(terms: World, *, by_report: bool) -> None:
    task_id = await pending(terms)
    await terms.decide(task_id, "lea")
    assert (await list_reviews(terms.ctx, READER)).items == ()
    for generation in (1, 2):
        if by_report:
            said = {"disposition": "approved-executed", "at": format_instant(terms.clock()), "generation": generation}
            await requests.report(terms.ctx, GATE, task_id, said)
        else:
            await used(terms, task_id)
    [review] = (await list_reviews(terms.ctx, READER)).items
    assert (review.request_id, review.approved_by, review.due_at, review.is_overdue) == (
        task_id, ("Lea Legal",), START + timedelta(seconds=3600), False,
    )  # fmt: skip
    administrator = person("lea", scopes=frozenset({Scope.ADMIN, Scope.APPROVAL_READ}))
    for who, code in (
        (administrator, "counted_in_another_step"), (person("alice"), "is_subject"), (person("zoe"), "not_assigned"),
        (machine("gate", "admin", "approval:read"), "is_submitter"),
    ):  # fmt: skip
        with pytest.raises(IneligibleApprover) as refused:
            await close_review(terms.ctx, who, review.approval_id, outcome="justified", note="fine")
        assert refused.value.extra["code"] == code
    closed = await close_review(terms.ctx, person("mo"), review.approval_id, outcome="unjustified", note=" Not a fire ")
    assert (closed.closed_by, closed.outcome, closed.note, closed.may_close) == (
        "Mo Board", "unjustified", "Not a fire", False,
    )  # fmt: skip
    with pytest.raises(InvalidTaskState):
        await close_review(terms.ctx, person("ann"), review.approval_id, outcome="justified", note="fine")
    kinds = await terms.kinds(task_id)
    assert (kinds.count("emergency_used"), kinds.count("review_refused"), kinds[-1]) == (1, 4, "emergency_reviewed")
    assert all("fire" not in entry.detail for entry in await terms.audit(task_id))


async def test_administrator_without_a_part_closes_as_well(terms: World) -> None:
    task_id = await pending(terms)
    await terms.decide(task_id, "lea")
    approval_id = await used(terms, task_id)
    zoe = person("zoe", scopes=frozenset({Scope.ADMIN}))
    assert (await close_review(terms.ctx, zoe, approval_id, outcome="justified", note="ok")).outcome == "justified"


@pytest.mark.requirement("ARS-119")
async def test_overdue_reviews_are_listed_by_themselves_and_keep_their_request(terms: World) -> None:
    task_id = await pending(terms)
    await terms.decide(task_id, "lea")
    approval_id = await used(terms, task_id)
    assert (await list_reviews(terms.ctx, READER, state="overdue")).items == ()
    terms.clock.advance(3601)
    [late] = (await list_reviews(terms.ctx, READER, state="overdue")).items
    assert (late.approval_id, late.is_overdue) == (approval_id, True)
    terms.clock.advance(86400 * 400)
    await workers.purge_due(terms.ctx)
    assert (await list_reviews(terms.ctx, READER, state="open")).items[0].is_overdue
    await close_review(terms.ctx, person("mo"), approval_id, outcome="justified", note="late, but fine")
    assert (await list_reviews(terms.ctx, READER, state="open")).items == ()
    assert len((await list_reviews(terms.ctx, READER, state="closed")).items) == 1
    await workers.purge_due(terms.ctx)
    assert (await list_reviews(terms.ctx, READER)).items == ()


async def test_pages_of_reviews_go_on_where_the_last_one_ended(terms: World) -> None:
    ids = []
    for _ in range(3):
        task_id = await pending(terms)
        await terms.decide(task_id, "lea")
        ids.append(await used(terms, task_id))
        terms.clock.advance(5)
    first = await list_reviews(terms.ctx, READER, limit=2)
    rest = await list_reviews(terms.ctx, READER, limit=2, after=first.next_cursor)
    assert [review.approval_id for review in (*first.items, *rest.items)] == ids
    assert rest.next_cursor is None
    with pytest.raises(InvalidRequest):
        await list_reviews(terms.ctx, READER, after="nonsense")


async def test_what_is_malformed_or_unknown_or_not_for_the_caller_changes_nothing(terms: World) -> None:
    task_id = await pending(terms)
    await terms.decide(task_id, "lea")
    approval_id = await used(terms, task_id)
    for outcome, note in (
        ("fine", "x"),
        ("justified", " "),
        ("justified", "\u200b"),
        ("justified", "x" * 4001),
        ("justified", "\ud800"),
    ):
        with pytest.raises(InvalidRequest):
            await close_review(terms.ctx, person("mo"), approval_id, outcome=outcome, note=note)
    for name, caller in (("apr_unknown", person("mo")), (approval_id, machine("gate"))):
        with pytest.raises(NotFound):
            await close_review(terms.ctx, caller, name, outcome="justified", note="x")
    with pytest.raises(Forbidden):
        await list_reviews(terms.ctx, GATE)
    assert (await list_reviews(terms.ctx, READER)).items[0].closed_at is None
