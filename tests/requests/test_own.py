"""A gate and its own requests: status, result, withdrawal, report, and what anybody else learns of them."""

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlmodel import select

from arap_service import requests, workers
from arap_service.domain.callers import Caller
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    InvalidRequest,
    InvalidTaskState,
    TaskExpired,
    UnknownTask,
)
from arap_service.store.tables import Approval, Execution
from tests.requests.world import GATE, OTHER_GATE, READER, RISK_ENGINE, World, machine, person

pytestmark = pytest.mark.anyio
REPORT = {"disposition": "approved-executed", "at": "2026-04-30T20:00:05Z", "generation": 0}


async def told(action: Any) -> type[ArapError]:
    with pytest.raises(ArapError) as caught:
        await action
    return type(caught.value)


@pytest.mark.requirement("ARS-57")
async def test_pending_status_repeats_the_handle(world: World) -> None:
    """Catalogue ARS-57: the whole handle, byte for byte what the submission gave."""
    submitted = await world.submit()
    assert await requests.status(world.ctx, GATE, submitted.task["id"]) == submitted.body


@pytest.mark.requirement("ARS-63", "ARS-68")
@pytest.mark.parametrize(
    "who",
    [
        OTHER_GATE,
        machine("gate", sub="somebody"),
        machine("other-gate", sub="gate"),
        machine("gate", iss="https://elsewhere.example"),
        person("ann"),
        READER,
    ],
    ids=["client", "principal", "client-of-principal", "issuer", "reviewer", "reader"],
)
async def test_foreign_task_looks_like_none(world: World, who: Caller) -> None:
    """Catalogue ARS-63, ARS-68: the exact id without rights is worth nothing, and nothing tells it from a wrong one."""
    task_id = await world.pending()
    seen = []
    for known in (task_id, "task_AAAAAAAAAAAAAAAAAAAAAA"):
        with pytest.raises(UnknownTask) as caught:
            await requests.status(world.ctx, who, known)
        fault = caught.value
        seen.append((fault.urn, fault.status, fault.title, fault.detail, dict(fault.extra), dict(fault.headers)))
    assert seen[0] == seen[1]


async def test_id_that_cannot_be_stored_is_unknown(world: World) -> None:
    """The same on both engines: a NUL in an id is no fault of the database."""
    for known in ("\x00", "task_\x00"):
        assert await told(requests.status(world.ctx, GATE, known)) is UnknownTask
        assert await told(requests.detail(world.ctx, READER, known)) is UnknownTask
        assert await told(requests.cancel(world.ctx, GATE, known, None)) is UnknownTask
        assert await told(requests.report_on_approval(world.ctx, GATE, known, REPORT)) is UnknownTask


@pytest.mark.requirement("ARS-67")
async def test_rights_follow_the_identity(world: World) -> None:
    """Catalogue ARS-67: another token of the same principal and client, whatever instance presents it."""
    task_id = await world.pending()
    refreshed = machine("gate", "arap:status", channel="cli")
    assert (await requests.status(world.ctx, refreshed, task_id))["task"]["id"] == task_id


@pytest.mark.requirement("ARS-66")
async def test_each_operation_has_its_own_right(world: World) -> None:
    """Catalogue ARS-66: status alone gives no result, no withdrawal and no report; a visible task answers 403."""
    task_id = await world.pending()
    status_only = machine("gate", "arap:status")
    assert await told(requests.cancel(world.ctx, status_only, task_id, None)) is Forbidden
    assert await world.status(task_id) == "pending"
    await world.decide(task_id)
    assert "result" not in await requests.status(world.ctx, status_only, task_id)
    assert "result" in await requests.status(world.ctx, GATE, task_id)
    assert await told(requests.report(world.ctx, status_only, task_id, REPORT)) is Forbidden
    assert await told(requests.status(world.ctx, machine("gate", "arap:submit"), task_id)) is Forbidden


@pytest.mark.requirement("ARS-65", "ARS-69", "ARS-05")
async def test_gate_learns_nothing_about_people_or_rules(world: World) -> None:
    """Catalogue ARS-65, ARS-69: neither who decides nor who decided, nor by which rule, at no stage."""
    task_id = await world.pending("payroll")
    await world.decide(task_id, "ann", reason="canary-one")
    answers = [await requests.status(world.ctx, GATE, task_id)]
    await world.decide(task_id, "bob", reason="canary-two")
    answers.append(await requests.status(world.ctx, GATE, task_id))
    for answer in answers:
        text = repr({**answer, "result": None}).lower()
        for secret in ("ann", "bob", "treasur", "rule-quorum", "canary", "progress", "review"):
            assert secret not in text


@pytest.mark.requirement("ARS-62")
async def test_task_is_gone_after_its_end_and_unknown_after_its_tombstone(world: World) -> None:
    """Catalogue ARS-62: 410 by the clock alone, 410 while the tombstone stands, then 404; a stranger always 404."""
    task_id = await world.pending()
    await world.decide(task_id, decision="deny")
    world.clock.advance(2 * 86400 - 1)
    assert await world.status(task_id) == "denied"
    world.clock.advance(1)
    assert await told(requests.status(world.ctx, GATE, task_id)) is TaskExpired
    assert await workers.purge_due(world.ctx) == 1
    assert await told(requests.status(world.ctx, GATE, task_id)) is TaskExpired
    assert await told(requests.detail(world.ctx, READER, task_id)) is TaskExpired
    assert await told(requests.status(world.ctx, OTHER_GATE, task_id)) is UnknownTask
    assert await told(requests.detail(world.ctx, RISK_ENGINE, task_id)) is UnknownTask
    world.clock.advance(workers.TOMBSTONE.total_seconds())
    assert await told(requests.status(world.ctx, GATE, task_id)) is UnknownTask
    await workers.purge_due(world.ctx)
    assert await told(requests.detail(world.ctx, READER, task_id)) is UnknownTask


@pytest.mark.requirement("ARS-120")
async def test_status_tells_the_truth_before_the_sweeper_came(world: World) -> None:
    """Catalogue ARS-120: from the deadline on the task is expired, for whoever looks first."""
    task_id = await world.pending()
    world.clock.advance(86400)
    assert await world.status(task_id) == "expired"
    assert await world.kinds(task_id) == ["task_submitted", "task_expired"]
    assert await workers.expire_due(world.ctx) == 0


@pytest.mark.requirement("ARS-72", "ARS-73")
@pytest.mark.parametrize("body", [None, {}, {"reason": "obsolete", "comment": "no longer needed"}])
async def test_withdrawal_ends_the_request_once(world: World, body: dict[str, str] | None) -> None:
    """Catalogue ARS-72, ARS-73: 200 with the task, then 409."""
    task_id = await world.pending()
    answer = await requests.cancel(world.ctx, GATE, task_id, body)
    assert answer["task"]["status"] == "cancelled"
    assert "links" not in answer["task"]
    assert answer == await requests.status(world.ctx, GATE, task_id)
    assert await told(requests.cancel(world.ctx, GATE, task_id, body)) is InvalidTaskState
    assert await world.kinds(task_id) == ["task_submitted", "task_cancelled"]


@pytest.mark.requirement("ARS-74")
async def test_right_to_submit_does_not_withdraw(world: World) -> None:
    """Catalogue ARS-74: the submitter without the cancel right gets 403, and the task goes on."""
    task_id = await world.pending()
    submitter = machine("gate", "arap:submit", "arap:status", "arap:result")
    assert await told(requests.cancel(world.ctx, submitter, task_id, None)) is Forbidden
    assert await world.status(task_id) == "pending"


@pytest.mark.requirement("ARS-75")
async def test_withdrawn_request_cannot_be_approved(world: World) -> None:
    """Catalogue ARS-75: 409 for the approver, and no approval exists."""
    task_id = await world.pending()
    await requests.cancel(world.ctx, GATE, task_id, None)
    assert await told(world.decide(task_id)) is InvalidTaskState
    found = await world.ctx.database.read(lambda session: session.exec(select(Approval)).all())
    assert list(found) == []


@pytest.mark.requirement("ARS-76")
@pytest.mark.parametrize(
    ("who", "role"),
    [
        (person("alice"), "requester"),
        (person("ann"), "approver"),
        (RISK_ENGINE, "approver"),
        (person("zoe", scopes=frozenset({"admin"})), "administrator"),
    ],
    ids=["requester", "approver", "resolver", "administrator"],
)
async def test_people_may_withdraw_in_their_role(world: World, who: Caller, role: str) -> None:
    """Catalogue ARS-76: same transition, own reason in the audit."""
    task_id = await world.pending("wire_transfer")
    if role == "requester":  # alice is in every group, so let the request be one that does not ask her
        task_id = await world.pending("payroll")
        who = person("alice", scopes=frozenset({"approval:read"}))
    answer = await requests.cancel(world.ctx, who, task_id, None)
    assert answer["task"]["status"] == "cancelled"
    assert (await world.task(task_id)).ended_by == role


@pytest.mark.requirement("ARS-76")
@pytest.mark.parametrize("who", [person("zoe"), READER, person("ann", scopes=frozenset({"approval:read"}))])
async def test_who_only_looks_may_not_withdraw(world: World, who: Caller) -> None:
    """Catalogue ARS-76: no role in the request, no withdrawal."""
    task_id = await world.pending()
    assert await told(requests.cancel(world.ctx, who, task_id, None)) is Forbidden
    assert await told(requests.cancel(world.ctx, machine("stranger", "arap:cancel"), task_id, None)) is UnknownTask
    assert await world.status(task_id) == "pending"


@pytest.mark.parametrize("body", [{"reason": 1}, {"comment": ["x"]}, {"reason": "x" * 2001}])
async def test_malformed_withdrawal_changes_nothing(world: World, body: dict[str, Any]) -> None:
    """Bad input is a documented error."""
    task_id = await world.pending()
    assert await told(requests.cancel(world.ctx, GATE, task_id, body)) is InvalidRequest
    assert await world.status(task_id) == "pending"


async def test_withdrawal_after_the_deadline_finds_the_request_expired(world: World) -> None:
    """The deadline ends a request, and a late withdrawal is told so."""
    task_id = await world.pending()
    world.clock.advance(86400)
    with pytest.raises(InvalidTaskState) as caught:
        await requests.cancel(world.ctx, GATE, task_id, None)
    assert caught.value.extra["current_status"] == "expired"
    assert await world.status(task_id) == "expired"


async def test_report_is_shown_once_however_often_it_comes(world: World) -> None:
    """Design section 5: the outbox of the gate repeats; the desk shows one execution."""
    task_id = await world.pending()
    assert await told(requests.report(world.ctx, GATE, task_id, REPORT)) is InvalidTaskState
    detail = await world.decide(task_id)
    assert detail.approval is not None
    await requests.report(world.ctx, GATE, task_id, REPORT)
    world.clock.advance(5)
    await requests.report(world.ctx, GATE, task_id, REPORT)
    await requests.report_on_approval(world.ctx, GATE, detail.approval.id, REPORT)
    await requests.report(world.ctx, GATE, task_id, {**REPORT, "generation": 1, "disposition": "execution-error"})
    shown = (await requests.detail(world.ctx, READER, task_id)).executions
    assert [(each.disposition, each.generation) for each in shown] == [("approved-executed", 0), ("execution-error", 1)]
    assert shown[0].received_at == world.clock() - timedelta(seconds=5)
    assert (await world.kinds(task_id)).count("execution_reported") == 2


async def test_report_that_comes_twice_at_once_is_one_as_well(world: World) -> None:
    """Both look before either has written, where the engine lets them; nobody is told of the other."""
    task_id = await world.pending()
    await world.decide(task_id)
    writers = 1 if world.ctx.database.is_sqlite else 2
    both_have_looked = threading.Barrier(writers, timeout=5)

    def new_id(prefix: str) -> str:
        both_have_looked.wait()
        return world.ctx.new_id(prefix)

    ctx = replace(world.ctx, new_id=new_id)
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(requests.report, ctx, GATE, task_id, REPORT)
    detail = await requests.detail(world.ctx, person("ann"), task_id)
    assert [(told.generation, told.disposition) for told in detail.executions] == [(0, "approved-executed")]
    assert (await world.kinds(task_id)).count("execution_reported") == 1


async def test_report_belongs_to_who_was_approved(world: World) -> None:
    """Nobody reports on a foreign approval, and nobody learns that it exists."""
    detail = await world.decide(await world.pending())
    assert detail.approval is not None
    assert await told(requests.report(world.ctx, OTHER_GATE, detail.id, REPORT)) is UnknownTask
    for approval_id in (detail.approval.id, "apr_unknown"):
        assert await told(requests.report_on_approval(world.ctx, OTHER_GATE, approval_id, REPORT)) is UnknownTask
    found = await world.ctx.database.read(lambda session: session.exec(select(Execution)).all())
    assert list(found) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**REPORT, "disposition": "it went well"},
        {**REPORT, "disposition": 1},
        {**REPORT, "at": "yesterday"},
        {**REPORT, "at": 5},
        {**REPORT, "generation": -1},
        {**REPORT, "generation": True},
        {**REPORT, "generation": 2**40},
        {**REPORT, "generation": "0"},
    ],
)
async def test_malformed_report_is_refused(world: World, body: dict[str, Any]) -> None:
    """Bad input is a documented error, and nothing is stored."""
    detail = await world.decide(await world.pending())
    assert await told(requests.report(world.ctx, GATE, detail.id, body)) is InvalidRequest
    assert (await requests.detail(world.ctx, READER, detail.id)).executions == ()
