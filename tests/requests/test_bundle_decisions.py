"""What becomes of bundles: items decided, expired, withdrawn and revoked one by one, and the whole that follows."""

import json
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlmodel import select

from arap_service import requests, workers
from arap_service.domain.callers import Caller
from arap_service.domain.errors import (
    ArapError,
    DuplicateRequest,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    StaleVersion,
    UnknownTask,
)
from arap_service.evaluation import evaluate
from arap_service.protocol.arap import format_instant
from arap_service.records import task_seal
from arap_service.requests import QueueFilter
from arap_service.store import tasks
from arap_service.store.tables import Approval, Delivery, Task, Vote
from tests.requests.bundles import asked, body_of, bundle, decide, handle, rows, statuses, submit
from tests.requests.world import CALLBACK, GATE, READER, RISK_ENGINE, World, machine, person

pytestmark = pytest.mark.anyio


async def approvals(world: World, task_id: str) -> dict[int, Approval]:
    found = await world.ctx.database.read(
        lambda session: session.exec(select(Approval).where(Approval.task_id == task_id)).all()
    )
    return {approval.item: approval for approval in found}


async def presented(world: World, approval: dict[str, Any], resource: str, **context: Any) -> dict[str, Any]:
    """The answer to an evaluation of `resource` that presents `approval`."""
    question = asked(resource, approval=approval, **context)
    return await evaluate(world.ctx, GATE, question)


@pytest.mark.requirement("ARS-82", "ARS-83", "ARS-114")
async def test_each_item_is_decided_by_its_own_workflow_and_the_last_settles_the_whole(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "merge", "payroll")
    await decide(world, task_id, 1)
    assert await statuses(world, task_id) == ["pending", "approved", "pending", "pending"]
    await decide(world, task_id, 2, "lea")
    assert await statuses(world, task_id) == ["pending", "approved", "pending", "pending"]  # the board is to come
    await decide(world, task_id, 2, "mo")
    assert await statuses(world, task_id) == ["pending", "approved", "approved", "pending"]
    await decide(world, task_id, 3, "ann", "deny")
    await decide(world, task_id, 3, "bob", "deny")
    assert await statuses(world, task_id) == ["partial", "approved", "approved", "denied"]
    task = await handle(world, task_id)
    assert ["result" in item for item in task["items"]] == [True, True, False]
    assert "links" not in task
    votes = await world.ctx.database.read(lambda session: session.exec(select(Vote)).all())
    assert sorted((vote.item, vote.voter) for vote in votes) == [
        (1, "ann"), (2, "lea"), (2, "mo"), (3, "ann"), (3, "bob")
    ]  # fmt: skip
    stored = await world.task(task_id)
    assert (stored.ended_at, stored.ended_by) == (world.clock(), "items")


@pytest.mark.requirement("ARS-122", "ARS-123", "GOV-09")
async def test_the_audit_chain_tells_of_every_item_and_of_the_whole(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "merge")
    with pytest.raises(IneligibleApprover):
        await decide(world, task_id, 2, "alice")
    await decide(world, task_id, 1)
    await decide(world, task_id, 2, "lea", "deny")
    told = [(entry.kind, json.loads(entry.detail).get("item")) for entry in (await world.audit(task_id))[3:]]
    assert told == [
        ("decision_refused", 2), ("vote_cast", 1), ("item_approved", 1), ("vote_cast", 2), ("item_denied", 2),
        ("task_partial", None),
    ]  # fmt: skip
    entries = await world.audit(task_id)
    items = await rows(world, task_id)
    assert [entry.evaluation_id for entry in entries[4:6]] == [items[0].evaluation_id] * 2


@pytest.mark.requirement("ARS-85", "PDP-67")
async def test_the_approval_of_one_item_is_worth_nothing_for_another(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    await decide(world, task_id, 1)
    await decide(world, task_id, 2)
    assert (await handle(world, task_id))["status"] == "approved"
    first, second = (item["result"]["approval"] for item in (await handle(world, task_id))["items"])
    assert first["id"] != second["id"]
    for approval, own, other in ((first, "wire_transfer", "quiet"), (second, "quiet", "wire_transfer")):
        assert (await presented(world, approval, own))["decision"] is True
        denied = await presented(world, approval, other)
        assert (denied["decision"], denied["context"]["reason"]) == (False, "out_of_scope")
        for changed in ({"tenant": "rival"}, {"agent": "other"}):
            assert (await presented(world, approval, own, **changed))["context"]["reason"] == "out_of_scope"
    # Nor does the identifier of one with the signed state of the other.
    mixed = await presented(world, {**first, "state": second["state"]}, "wire_transfer")
    assert (mixed["decision"], mixed["context"]["reason"]) == (False, "approval_unverifiable")
    reevaluated = [entry for entry in await world.audit(task_id) if entry.kind == "reevaluated"]
    items = await rows(world, task_id)
    assert {entry.evaluation_id for entry in reevaluated} == {row.evaluation_id for row in items}


@pytest.mark.requirement("ARS-85", "ARS-121")
async def test_the_approval_of_one_item_is_revoked_alone(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    await decide(world, task_id, 1)
    await decide(world, task_id, 2)
    first, second = (item["result"]["approval"] for item in (await handle(world, task_id))["items"])
    await requests.revoke(world.ctx, person("bob"), first["id"], reason="Changed my mind.")
    assert (await presented(world, first, "wire_transfer"))["context"]["reason"] == "approval_expired"
    assert (await presented(world, second, "quiet"))["decision"] is True
    assert await statuses(world, task_id) == ["approved", "approved", "approved"]
    entries = [entry for entry in await world.audit(task_id) if entry.kind == "approval_revoked"]
    assert [json.loads(entry.detail)["item"] for entry in entries] == [1]


@pytest.mark.requirement("ARS-118")
async def test_a_decision_names_the_item_and_the_version_of_it_that_was_seen(world: World) -> None:
    task_id = await bundle(world, "payroll", "wire_transfer")
    for wrong in (None, 3, 999):
        with pytest.raises(InvalidRequest) as caught:
            await requests.decide(world.ctx, person("ann"), task_id, decision="approve", version=1, item=wrong)
        assert caught.value.extra["pointer"] == "/item"
    single = await world.pending()
    with pytest.raises(InvalidRequest):
        await requests.decide(world.ctx, person("ann"), single, decision="approve", version=1, item=1)
    await decide(world, task_id, 1, "ann", reason="Fine.")
    with pytest.raises(StaleVersion) as stale:
        await decide(world, task_id, 1, "bob", version=1, reason="Fine.")
    assert stale.value.extra == {"current_status": "pending", "version": 2}
    # What happens to one item is nothing that the decider of another must have seen.
    await decide(world, task_id, 2, "bob", version=1)
    assert await statuses(world, task_id) == ["pending", "pending", "approved"]
    with pytest.raises(InvalidTaskState) as ended:
        await decide(world, task_id, 2, "ann")
    assert ended.value.extra == {"current_status": "approved", "version": 2}


async def test_reasons_and_lifetimes_are_those_of_the_item(world: World) -> None:
    """ARS-59, ARS-108: the template of each item says what a decision needs and how long it may last."""
    task_id = await bundle(world, "payroll", "quiet")
    with pytest.raises(InputInvalid):
        await decide(world, task_id, 1)
    await decide(world, task_id, 2)
    quiet = (await approvals(world, task_id))[2]
    assert quiet.approved_until - quiet.approved_at == timedelta(seconds=60)


async def test_a_key_is_for_the_decision_of_one_item(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    for _ in range(2):
        await decide(world, task_id, 1, version=1, idempotency_key="k")
    with pytest.raises(DuplicateRequest):
        await decide(world, task_id, 2, version=1, idempotency_key="k")
    assert await statuses(world, task_id) == ["pending", "approved", "pending"]


@pytest.mark.requirement("ARS-56")
async def test_decisions_on_different_items_at_once_all_count_and_one_end_follows(world: World) -> None:
    """On PostgreSQL they run side by side; the whole is settled once."""
    names = ("wire_transfer", "quiet", "form")
    context = {"business_justification": "because"}
    task_id = await bundle(world, *names, context=context)
    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for item in range(1, len(names) + 1):
                group.start_soon(decide, world, task_id, item)
    assert await statuses(world, task_id) == ["approved"] * 4
    assert (await world.kinds(task_id)).count("task_approved") == 1
    assert sorted(await approvals(world, task_id)) == [1, 2, 3]


@pytest.mark.requirement("ARS-56")
async def test_of_decisions_on_one_item_at_once_one_counts(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "merge")
    refusals: list[ArapError] = []

    async def attempt(who: str, decision: str) -> None:
        try:
            await decide(world, task_id, 1, who, decision, version=1)
        except ArapError as fault:
            refusals.append(fault)

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(attempt, "ann" if number % 2 else "bob", "approve" if number % 3 else "deny")
    assert len(refusals) == 5
    kinds = await world.kinds(task_id)
    assert kinds.count("item_approved") + kinds.count("item_denied") == 1


# Withdrawal


@pytest.mark.requirement("ARS-84")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), ["cancelled", "cancelled", "cancelled"]),
        (("approve",), ["partial", "approved", "cancelled"]),
        (("deny",), ["partial", "denied", "cancelled"]),
    ],
)
async def test_withdrawing_ends_the_items_that_are_open(
    world: World, before: tuple[str, ...], after: list[str]
) -> None:
    """bulk-aggregation.json, `cancel`, on stored requests."""
    task_id = await bundle(world, "wire_transfer", "quiet")
    for item, decision in enumerate(before, start=1):
        await decide(world, task_id, item, decision=decision)
    answer = await requests.cancel(world.ctx, GATE, task_id, {"reason": "done"})
    assert [answer["task"]["status"], *(item["status"] for item in answer["task"]["items"])] == after
    assert await statuses(world, task_id) == after
    assert (await world.task(task_id)).ended_by == ("items" if before else "requester")
    with pytest.raises(InvalidTaskState) as again:
        await requests.cancel(world.ctx, GATE, task_id, None)
    assert again.value.extra["current_status"] == after[0]
    with pytest.raises(InvalidTaskState):
        await decide(world, task_id, 2)


@pytest.mark.requirement("ARS-84")
async def test_nothing_is_left_to_withdraw_once_every_item_has_ended(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    await decide(world, task_id, 1)
    await decide(world, task_id, 2, decision="deny")
    with pytest.raises(InvalidTaskState) as refused:
        await requests.cancel(world.ctx, GATE, task_id, None)
    assert refused.value.extra["current_status"] == "partial"
    assert await statuses(world, task_id) == ["partial", "approved", "denied"]


@pytest.mark.requirement("ARS-76")
async def test_an_approver_withdraws_a_bundle_only_if_all_that_is_open_is_his_to_decide(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "merge")
    with pytest.raises(Forbidden):
        await requests.cancel(world.ctx, person("ann"), task_id, None)
    await decide(world, task_id, 2, "lea", "deny")
    await requests.cancel(world.ctx, person("ann"), task_id, None)
    assert await statuses(world, task_id) == ["partial", "cancelled", "denied"]


# Time


@pytest.mark.requirement("ARS-120")
async def test_items_run_out_of_time_each_at_its_own_deadline(world: World) -> None:
    """By the sweeper, by a reader, and by a late decision, which is refused."""
    soon = format_instant(world.clock() + timedelta(seconds=100))
    body = await body_of(world, "wire_transfer", "quiet", "payroll")
    body["items"][1]["requested_access"] = {"requested_until": soon}
    task_id = (await submit(world, body)).task["id"]
    world.clock.advance(100)
    assert await workers.expire_due(world.ctx) == 1
    assert await statuses(world, task_id) == ["pending", "pending", "expired", "pending"]
    assert await workers.expire_due(world.ctx) == 0
    await decide(world, task_id, 1)
    world.clock.advance(86_400)
    with pytest.raises(InvalidTaskState) as late:
        await decide(world, task_id, 3, version=1)
    assert late.value.extra["current_status"] == "expired"
    assert await statuses(world, task_id) == ["partial", "approved", "expired", "expired"]
    assert (await world.kinds(task_id))[-2:] == ["item_expired", "task_partial"]


@pytest.mark.requirement("ARS-84", "ARS-120")
async def test_withdrawing_leaves_expired_what_had_run_out_of_time(world: World) -> None:
    soon = format_instant(world.clock() + timedelta(seconds=100))
    body = await body_of(world, "wire_transfer", "quiet")
    body["items"][0]["requested_access"] = {"requested_until": soon}
    task_id = (await submit(world, body)).task["id"]
    world.clock.advance(100)
    answer = await requests.cancel(world.ctx, GATE, task_id, None)
    assert [item["status"] for item in answer["task"]["items"]] == ["expired", "cancelled"]
    assert answer["task"]["status"] == "partial"


@pytest.mark.requirement("ARS-120")
async def test_a_look_at_a_bundle_whose_time_is_over_shows_it_expired(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    world.clock.advance(86_400)
    assert await statuses(world, task_id) == ["expired", "expired", "expired"]
    assert (await world.task(task_id)).ended_by == "deadline"
    with pytest.raises(InvalidTaskState):
        await requests.cancel(world.ctx, GATE, task_id, None)


@pytest.mark.requirement("ARS-124")
async def test_items_go_with_their_request_when_its_retention_is_over(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    world.clock.advance(86_400)
    await workers.expire_due(world.ctx)
    world.clock.advance(86_400)
    assert await workers.purge_due(world.ctx) == 1
    assert await rows(world, task_id) == []


# Who sees what


async def test_a_decider_sees_the_items_that_name_him_and_a_reader_all(world: World) -> None:
    """ARS-63, ARS-69: what others decide is nothing that deciding one thing takes."""
    task_id = await bundle(world, "wire_transfer", "merge")
    await decide(world, task_id, 1)
    hers = await requests.detail(world.ctx, machine("lea", "approval:resolve", person_id="lea"), task_id)
    assert [(item.item, item.resource["id"], item.may_decide) for item in hers.items] == [(2, "merge", True)]
    assert not any("Item 1" in entry.text for entry in hers.history)
    assert (hers.item_count, hers.status, hers.may_decide) == (2, "pending", True)
    every = await requests.detail(world.ctx, READER, task_id)
    assert [(item.item, item.status, item.may_decide) for item in every.items] == [
        (1, "approved", False),
        (2, "pending", False),
    ]
    assert [entry.text for entry in every.history if entry.kind in {"vote_cast", "item_approved"}] == [
        "Item 1: approved in step Treasury",
        "Item 1: approved: everybody who had to agree has agreed",
    ]
    with pytest.raises(InvalidRequest):
        await requests.decide(
            world.ctx, machine("lea", "approval:resolve", person_id="lea"), task_id, decision="deny", version=2, item=1
        )
    with pytest.raises(UnknownTask):
        await requests.detail(world.ctx, machine("zoe", "approval:resolve", person_id="zoe"), task_id)


async def test_every_item_is_shown_by_the_lists_of_its_own_template(world: World) -> None:
    task_id = await bundle(world, "quiet", "wire_transfer", context={"secret_plan": "x", "note": "for Ann"})
    shown = await requests.detail(world.ctx, person("ann"), task_id)
    quiet, transfer = shown.items
    assert [argument.pointer for argument in quiet.arguments] == []
    assert "/context/note" in [argument.pointer for argument in transfer.arguments]
    assert shown.arguments == ()
    assert (transfer.template_title, transfer.risk, transfer.caution) == ("Wire transfer", "high", "Cannot be undone.")
    assert (shown.template_title, shown.risk) == ("Several things together", "high")
    assert shown.effect == "bot asks for 2 things together for alice."
    assert transfer.effect == "Sends 0 to ?"
    assert quiet.effect == "bot may do open on account quiet for alice."
    assert [item.pending_approval for item in (shown, *shown.items)] == [None, None, None]


async def test_the_queue_lists_a_bundle_once_and_finds_it_by_any_item(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "merge")
    other = await bundle(world, "quiet")

    async def found(who: Caller, **wanted: Any) -> list[tuple[str, int]]:
        page = await requests.queue(world.ctx, who, QueueFilter(**wanted))
        return [(row.id, row.item_count) for row in page.items]

    assert sorted(await found(READER)) == sorted([(task_id, 2), (other, 1)])
    assert await found(READER, template="board") == [(task_id, 2)]
    assert await found(READER, q="merge") == [(task_id, 2)]
    assert await found(READER, q="nothing") == []
    assert await found(person("mo"), mine=True) == [(task_id, 2)]
    await decide(world, task_id, 1)
    assert await found(person("ann"), mine=True) == [(other, 1)]
    row = (await requests.queue(world.ctx, person("ann"), QueueFilter(template="board"))).items[0]
    assert (row.effect, row.risk, row.may_decide, row.why_not) == (
        "bot asks for 2 things together for alice.", "high", False, "not_assigned"
    )  # fmt: skip


# What is told


@pytest.mark.requirement("ARS-92", "ARS-93", "ARS-94")
@pytest.mark.parametrize(
    ("events", "told"), [(None, ["partial"]), (["partial"], ["partial"]), (["approved", "denied"], [])]
)
async def test_callbacks_tell_of_the_whole_and_carry_no_result(
    world: World, events: list[str] | None, told: list[str]
) -> None:
    """The events are those of the task; no item is told about by itself."""
    callback = {"endpoint": CALLBACK, "state": {"n": 1}, **({} if events is None else {"events": events})}
    task_id = await bundle(world, "wire_transfer", "quiet", callback=callback)
    await decide(world, task_id, 1)
    await decide(world, task_id, 2, decision="deny", reason="No.")
    task = await world.task(task_id)
    sent = await world.ctx.database.read(lambda session: session.exec(select(Delivery)).all())
    assert [delivery.event for delivery in sent] == told
    for delivery in sent:
        body = task_seal(task, world.ctx.ring).open_at(f"delivery:{delivery.id}:body_sealed", delivery.body_sealed)
        assert body["state"] == {"n": 1}
        assert [body["task"]["status"], *(item["status"] for item in body["task"]["items"])] == [
            "partial", "approved", "denied"
        ]  # fmt: skip
        assert not any("result" in part for part in (body, body["task"], *body["task"]["items"]))


async def test_why_an_item_was_denied_is_told_where_its_template_lets_it(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet")
    await decide(world, task_id, 1, decision="deny", reason="Too much.")
    await decide(world, task_id, 2, decision="deny", reason="Hush.")
    items = (await handle(world, task_id))["items"]
    assert [item.get("display") for item in items] == [{"urn:x-arap:decision": {"reason": "Too much."}}, None]


async def test_each_approval_is_reported_on_by_itself(world: World) -> None:
    task_id = await bundle(world, "wire_transfer", "quiet", "payroll")
    await decide(world, task_id, 1)
    await decide(world, task_id, 2)
    said = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}
    second = (await approvals(world, task_id))[2].id
    for _ in range(2):
        await requests.report(world.ctx, GATE, task_id, said, item=1)
        await requests.report_on_approval(world.ctx, GATE, second, said)
    shown = await requests.detail(world.ctx, READER, task_id)
    assert [len(item.executions) for item in shown.items] == [1, 1, 0]
    assert (await world.kinds(task_id)).count("execution_reported") == 2
    for item in (None, 3, 9):
        with pytest.raises(InvalidTaskState):
            await requests.report(world.ctx, GATE, task_id, said, item=item)


async def test_a_resolver_decides_items_and_cannot_decide_what_it_carries_out(world: World) -> None:
    """GOV-12, ARS-117: the same rules bind machines, item by item."""
    task_id = await bundle(world, "wire_transfer", "merge")
    await decide(world, task_id, 1, RISK_ENGINE)
    with pytest.raises(InvalidRequest):
        await decide(world, task_id, 2, RISK_ENGINE)
    with pytest.raises(UnknownTask):
        await decide(world, task_id, 2, machine("gate", "approval:resolve"))
    assert await statuses(world, task_id) == ["pending", "approved", "pending"]


async def test_what_has_ended_stays_ended_whatever_the_items_are_made_to_say(world: World) -> None:
    """ARS-55: the row of the whole is guarded by itself as well."""
    task_id = await bundle(world, "wire_transfer")
    await decide(world, task_id, 1)
    ended = await world.task(task_id)

    def again(session: Any) -> Task | None:
        return tasks.end_task(session, task_id, seen=ended.version, to="denied", at=world.clock(), by="test")

    assert await world.ctx.database.write(again) is None
