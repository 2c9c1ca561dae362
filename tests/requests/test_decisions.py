"""Who may decide, what a decision does, and what becomes of an approval."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlmodel import select

from arap_service import audit, requests, workers
from arap_service.domain.callers import Caller
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    StaleVersion,
    UnknownTask,
)
from arap_service.evaluation import evaluate
from arap_service.keys import APPROVAL_TYP
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import binding_hash, strict_loads
from arap_service.records import task_seal
from arap_service.store.people_tables import Person
from arap_service.store.tables import Approval, Delivery, Vote
from tests.clock import START
from tests.requests.world import CALLBACK, GATE, READER, RISK_ENGINE, World, machine, person, question

pytestmark = pytest.mark.anyio
ENDS = {"task_approved", "task_denied", "task_cancelled", "task_expired"}


async def refused(world: World, task_id: str, who: str | Caller, **options: Any) -> ArapError:
    """Why a decision is refused; the task is as before, and nobody has voted."""
    before = await world.task(task_id)
    with pytest.raises(ArapError) as caught:
        await world.decide(task_id, who, **options)
    after = await world.task(task_id)
    assert (after.status, after.version) == (before.status, before.version)
    return caught.value


async def rows(world: World, table: type[Any]) -> list[Any]:
    return await world.ctx.database.read(lambda session: list(session.exec(select(table))))


@pytest.mark.requirement("ARS-59", "ARS-61", "ARS-57")
async def test_approval_gives_the_gate_a_result(world: World) -> None:
    """Catalogue ARS-57, ARS-59: the handle stays whole, and the result can be verified by the decision point alone."""
    task_id = await world.pending()
    world.clock.advance(10)
    detail = await world.decide(task_id)
    assert detail.status == "approved"
    answer = await requests.status(world.ctx, GATE, task_id)
    approval = answer["result"]["approval"]
    url = f"https://approvals.example/access/v1/request/{task_id}"
    assert answer == {
        "task": {
            "id": task_id,
            "status": "approved",
            "status_endpoint": url,
            "expires_at": "2026-05-02T20:00:00Z",
            "links": {"urn:x-arap:report": f"{url}/report"},
        },
        "result": {
            "mode": "reevaluate",
            "approval": {
                "id": approval["id"],
                "approved_at": "2026-04-30T20:00:10Z",
                "approved_until": "2026-04-30T20:15:10Z",
                "state": approval["state"],
            },
        },
    }


@pytest.mark.requirement("PDP-69", "ARS-61")
async def test_signed_state_carries_the_whole_scope(world: World) -> None:
    """Catalogue PDP-69: every claim, and the hash recomputes from the inline tuple."""
    asked = question()
    submitted = await world.submit(await world.body(asked))
    task_id = submitted.task["id"]
    await world.decide(task_id)
    approval = (await requests.status(world.ctx, GATE, task_id))["result"]["approval"]
    claims = world.ctx.keys.verify(approval["state"], typ=APPROVAL_TYP, issuers=world.ctx.trust.approval)
    bound = {name: asked["context"][name] for name in ("agent", "arguments_hash", "server")}
    members = ["agent", "arguments_hash", "server"]
    task = await world.task(task_id)
    assert dict(claims) == {
        "iss": "https://approvals.example/access/v1/request",
        "aud": "https://approvals.example",
        "iat": int(START.timestamp()),
        "exp": int((START + timedelta(seconds=900)).timestamp()),
        "jti": claims["jti"],
        "approval_id": approval["id"],
        "task_id": task_id,
        "evaluation_id": task.evaluation_id,
        "subject": asked["subject"],
        "resource": asked["resource"],
        "action": asked["action"],
        "context": bound,
        "binding_context_members": members,
        "binding_hash": binding_hash(asked["subject"], asked["resource"], asked["action"], bound, members),
        "client_id": "gate",
        "agent": "bot",
        "template": "transfer",
    }


@pytest.mark.requirement("ARS-114")
async def test_request_is_approved_only_when_every_step_is(world: World) -> None:
    """Catalogue ARS-114: two steps, one approval, still pending."""
    task_id = await world.pending("merge")
    first = await world.decide(task_id, "lea")
    assert (first.status, first.version) == ("pending", 2)
    assert [(step.id, step.status, step.approvals) for step in first.steps] == [
        ("legal", "completed", 1),
        ("board", "waiting", 0),
    ]
    assert await rows(world, Approval) == []
    second = await world.decide(task_id, "mo")
    assert (second.status, second.version) == ("approved", 3)


@pytest.mark.requirement("ARS-114")
async def test_quorum_counts_people_and_veto_counts_denials(world: World) -> None:
    """Design section 4: how many approvals a step takes, how many denials end it."""
    task_id = await world.pending("payroll")
    assert (await world.decide(task_id, "ann", reason="fine")).status == "pending"
    assert (await world.decide(task_id, "bob", "deny")).status == "pending"
    detail = await world.decide(task_id, "carl", "deny")
    assert detail.status == "denied"
    assert [(vote.voter, vote.decision, vote.reason) for vote in detail.votes] == [
        ("Ann Treasurer", "approve", "fine"),
        ("Bob Treasurer", "deny", "Not like this."),
        ("Carl Payroll", "deny", "Not like this."),
    ]
    assert [step.status for step in detail.steps] == ["ended"]


@pytest.mark.requirement("ARS-115", "GOV-09")
@pytest.mark.parametrize(
    ("who", "error", "code"),
    [
        ("zoe", IneligibleApprover, "not_assigned"),
        (READER, Forbidden, "missing_scope"),
        (person("ann", scopes=frozenset({"approval:read"})), Forbidden, "missing_scope"),
    ],
    ids=["not-asked", "reader", "without-scope"],
)
async def test_ineligible_act_counts_for_nothing_and_is_recorded(
    world: World, who: str | Caller, error: type[ArapError], code: str
) -> None:
    """Catalogue ARS-115, GOV-09: 403, task pending, audit entry."""
    task_id = await world.pending()
    assert type(await refused(world, task_id, who)) is error
    entries = await world.audit(task_id)
    assert [entry.kind for entry in entries] == ["task_submitted", "decision_refused"]
    assert strict_loads(entries[1].detail) == {"code": code, "version": 1}
    assert await rows(world, Vote) == []


@pytest.mark.requirement("ARS-116", "GOV-12")
@pytest.mark.parametrize(
    ("who", "code"),
    [
        (person("alice"), "is_subject"),
        (person("alice", sub="alias", iss="https://elsewhere.example"), "is_subject"),
        (machine("gate", "approval:read", "approval:resolve"), "is_submitter"),
        (machine("risk-engine", "approval:resolve", agent="bot"), "is_actor"),
        (machine("bot", "approval:read", "approval:resolve"), "is_actor"),
        (person("ann", act=(("https://idp.example", "bot"),)), "is_actor"),
        (person("ann", channel="api", client_id="gate"), "is_submitter"),
    ],
    ids=["subject", "alias", "submitter", "resolver-for-agent", "agent", "agent-for-person", "person-through-gate"],
)
async def test_nobody_who_takes_part_decides(world: World, who: Caller, code: str) -> None:
    """Catalogue ARS-116, GOV-12: subject, submitter and actor, by whatever account, client or agent."""
    fault = await refused(world, await world.pending(), who)
    assert isinstance(fault, IneligibleApprover)
    assert fault.extra == {"code": code}


@pytest.mark.requirement("ARS-116")
async def test_second_identity_of_a_person_is_the_same_person(world: World) -> None:
    """Catalogue ARS-116: the subject is named by an e-mail address that belongs to the reviewer."""
    submitted = await world.submit(await world.body(question(subject="ann@corp.example")))
    fault = await refused(world, submitted.task["id"], "ann")
    assert isinstance(fault, IneligibleApprover)
    assert fault.extra == {"code": "is_subject"}
    assert (await world.decide(submitted.task["id"], "bob")).status == "approved"


@pytest.mark.requirement("ARS-116")
async def test_person_who_counts_in_one_step_does_not_count_in_another(world: World) -> None:
    """Catalogue ARS-116: Lea is named by both steps and may speak in one."""
    task_id = await world.pending("merge")
    await world.decide(task_id, "lea")
    fault = await refused(world, task_id, "lea")
    assert isinstance(fault, IneligibleApprover)
    assert fault.extra == {"code": "counted_in_another_step"}


@pytest.mark.requirement("ARS-117")
async def test_resolver_client_decides_under_the_same_rules(world: World) -> None:
    """Catalogue ARS-117: named in the step it may; as the actor of the request it may not."""
    task_id = await world.pending()
    detail = await requests.decide(world.ctx, RISK_ENGINE, task_id, decision="approve", version=1)
    assert detail.status == "approved"
    assert [(vote.voter, vote.kind) for vote in detail.votes] == [("risk-engine", "resolver")]
    acting = await world.submit(await world.body(question(agent="risk-engine")))
    with pytest.raises(IneligibleApprover) as caught:
        await requests.decide(world.ctx, RISK_ENGINE, acting.task["id"], decision="approve", version=1)
    assert caught.value.extra == {"code": "is_actor"}


@pytest.mark.requirement("ARS-117", "ARS-63")
async def test_resolver_that_no_step_names_knows_nothing(world: World) -> None:
    """A foreign request looks like an unknown one, also to a resolver."""
    task_id = await world.pending("merge")
    for known in (task_id, "task_unknown"):
        with pytest.raises(UnknownTask) as caught:
            await requests.decide(world.ctx, RISK_ENGINE, known, decision="approve", version=1)
        assert (caught.value.detail, dict(caught.value.extra)) == (None, {})
    assert await world.kinds(task_id) == ["task_submitted"]


async def test_inactive_person_decides_nothing(world: World) -> None:
    """Design section 3: eligibility is judged at the moment of deciding."""
    task_id = await world.pending()

    def leave(session: Any) -> None:
        session.get(Person, "ann").active = False

    await world.ctx.database.write(leave)
    fault = await refused(world, task_id, "ann")
    assert fault.extra == {"code": "not_active"}


async def test_person_who_comes_with_a_token_is_known_by_identity(world: World) -> None:
    """A reviewer may use the REST API under an identity of his own."""
    task_id = await world.pending()
    caller = Caller(
        iss="https://idp.example",
        sub="ann@corp.example",
        client_id="console",
        scopes=frozenset({"approval:resolve"}),
        channel="api",
    )
    detail = await world.decide(task_id, caller)
    assert [(vote.voter, vote.kind) for vote in detail.votes] == [("Ann Treasurer", "person")]


@pytest.mark.requirement("ARS-118")
async def test_decision_on_what_somebody_else_has_changed_is_refused(world: World) -> None:
    """Catalogue ARS-118: 409 with the current state; the version is the one that the decider has seen."""
    task_id = await world.pending("payroll")
    await world.decide(task_id, "ann", reason="fine")
    fault = await refused(world, task_id, "bob", version=1, reason="fine")
    assert isinstance(fault, StaleVersion)
    assert fault.extra == {"current_status": "pending", "version": 2}
    assert len(await rows(world, Vote)) == 1


@pytest.mark.requirement("ARS-118", "ARS-55")
async def test_repeated_decision_is_told_the_first(world: World) -> None:
    """A decision is not idempotent: the second one is 409 with the current state, and there is one vote."""
    task_id = await world.pending()
    await world.decide(task_id, version=1)
    fault = await refused(world, task_id, "ann", version=1)
    assert isinstance(fault, InvalidTaskState)
    assert fault.extra == {"current_status": "approved", "version": 2}
    assert len(await rows(world, Vote)) == len(await rows(world, Approval)) == 1


@pytest.mark.requirement("ARS-55")
@pytest.mark.parametrize("end", ["approve", "deny", "cancel", "expire"])
async def test_terminal_states_are_frozen(world: World, end: str) -> None:
    """Catalogue ARS-55: every second transition is refused and changes nothing."""
    task_id = await world.pending()
    if end == "cancel":
        await requests.cancel(world.ctx, GATE, task_id, None)
    elif end == "expire":
        world.clock.advance(86400)
        await workers.expire_due(world.ctx)
    else:
        await world.decide(task_id, decision=end)
    frozen = await world.task(task_id)
    for decision in ("approve", "deny"):
        assert isinstance(await refused(world, task_id, "bob", decision=decision), InvalidTaskState)
    with pytest.raises(InvalidTaskState):
        await requests.cancel(world.ctx, GATE, task_id, None)
    assert await workers.expire_due(world.ctx) == 0
    assert (await world.task(task_id)).model_dump() == frozen.model_dump()


@pytest.mark.requirement("ARS-56")
async def test_four_way_race_of_use_cases_has_one_winner(world: World) -> None:
    """Catalogue ARS-56: approve, deny, cancel and expire at once, on the real use cases; see also the store's 200."""
    with anyio.fail_after(60):
        for _ in range(10):
            await race(world, await world.pending())


async def race(world: World, task_id: str) -> None:
    deadline = (await world.task(task_id)).pending_until
    # The sweeper's clock has reached the deadline, those of the others have not.
    late = replace(world.ctx, clock=lambda: deadline)
    done: list[str] = []

    async def run(outcome: str, action: Callable[[], Awaitable[object]]) -> None:
        try:
            if await action() != 0:  # the sweeper says how many it ended
                done.append(outcome)
        except (InvalidTaskState, StaleVersion):
            pass  # somebody else was faster, and said so

    async with anyio.create_task_group() as group:
        group.start_soon(run, "approved", lambda: world.decide(task_id, "ann", version=1))
        group.start_soon(run, "denied", lambda: world.decide(task_id, "bob", "deny", version=1))
        group.start_soon(run, "cancelled", lambda: requests.cancel(world.ctx, GATE, task_id, None))
        group.start_soon(run, "expired", lambda: workers.expire_due(late))
    status = (await world.task(task_id)).status
    assert done == [status]
    assert [kind for kind in await world.kinds(task_id) if kind in ENDS] == [f"task_{status}"]


@pytest.mark.requirement("ARS-120")
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_decision_after_the_deadline_expires_the_request(world: World, decision: str) -> None:
    """Catalogue ARS-120: no sweeper has run, yet nothing is decided, and the task is expired by the very attempt."""
    task_id = await world.pending()
    world.clock.advance(86400)
    with pytest.raises(InvalidTaskState) as caught:
        await world.decide(task_id, decision=decision)
    assert caught.value.extra["current_status"] == "expired"
    assert await world.status(task_id) == "expired"
    assert await world.kinds(task_id) == ["task_submitted", "task_expired"]
    assert await rows(world, Approval) == []


@pytest.mark.requirement("ARS-54")
async def test_approval_in_the_last_second_stays_retrievable(world: World) -> None:
    """Catalogue ARS-54: the result outlives the deadline, since the published end is the later clock."""
    task_id = await world.pending()
    world.clock.advance(86399)
    await world.decide(task_id)
    world.clock.advance(600)
    answer = await requests.status(world.ctx, GATE, task_id)
    assert answer["result"]["approval"]["approved_until"] == "2026-05-01T20:14:59Z"


@pytest.mark.requirement("ARS-108", "ARS-107")
async def test_approval_lasts_as_long_as_everybody_allows(world: World) -> None:
    """Catalogue ARS-108: the least of the template's cap, what was requested and what each approver chose."""
    far, near = START + timedelta(days=9), START + timedelta(seconds=300)
    for wanted, chosen, until in (
        (None, None, START + timedelta(seconds=900)),
        (far, far, START + timedelta(seconds=900)),
        (near, None, near),
        (None, near, near),
        (near, near - timedelta(seconds=1), near - timedelta(seconds=1)),
        (near, near + timedelta(seconds=1), near),
    ):
        wishes = {} if wanted is None else {"requested_until": format_instant(wanted)}
        detail = await world.decide(await world.pending(requested_access=wishes), approved_until=chosen)
        assert detail.approval is not None
        assert detail.approval.approved_until == until


@pytest.mark.requirement("ARS-108")
async def test_shortest_wish_of_several_approvers_counts(world: World) -> None:
    """Design section 5: a reviewer can shorten the lifetime, and nobody can lengthen it again."""
    task_id = await world.pending("payroll")
    await world.decide(task_id, "ann", reason="ok", approved_until=START + timedelta(seconds=60))
    detail = await world.decide(task_id, "bob", reason="ok", approved_until=START + timedelta(seconds=600))
    assert detail.approval is not None
    assert detail.approval.approved_until == START + timedelta(seconds=60)


async def test_request_ends_when_what_was_wanted_would(world: World) -> None:
    """Nobody is asked to approve what could no longer be used."""
    until = START + timedelta(seconds=300)
    task_id = await world.pending(requested_access={"requested_until": format_instant(until)})
    assert (await world.task(task_id)).pending_until == until
    world.clock.advance(300)
    assert await world.status(task_id) == "expired"


@pytest.mark.parametrize(
    ("choice", "error", "errors"),
    [
        ({"decision": "maybe"}, InvalidRequest, None),
        ({"decision": "deny", "approved_until": START + timedelta(60)}, InvalidRequest, None),
        ({"decision": "approve", "reason": "x" * 4001}, InvalidRequest, None),
        ({"decision": "approve", "reason": "\ud800"}, InvalidRequest, None),
        ({"decision": "deny", "reason": None}, InputInvalid, [{"pointer": "/reason", "code": "required"}]),
        ({"decision": "deny", "reason": " \n"}, InputInvalid, [{"pointer": "/reason", "code": "required"}]),
        (
            {"decision": "approve", "approved_until": START},
            InputInvalid,
            [{"pointer": "/approved_until", "code": "past"}],
        ),
    ],
)
async def test_incomplete_decision_is_refused(
    world: World, choice: dict[str, Any], error: type[ArapError], errors: object
) -> None:
    """A reason where the template wants one, a lifetime that has not passed, and nothing that has no meaning."""
    fault = await refused(world, await world.pending(), "ann", **choice)
    assert type(fault) is error
    assert fault.extra.get("errors") == errors


@pytest.mark.requirement("ARS-60", "ARS-125")
async def test_denial_tells_the_reason_only_where_the_template_lets_it(world: World) -> None:
    """Catalogue ARS-60, design section 5: no approval inside, and the reason in its one place or not at all."""
    for resource, display in (
        ("wire_transfer", {"urn:x-arap:decision": {"reason": "canary reason"}}),
        ("quiet", None),
    ):
        task_id = await world.pending(resource)
        await world.decide(task_id, decision="deny", reason="canary reason")
        answer = await requests.status(world.ctx, GATE, task_id)
        assert answer["task"].get("display") == display
        assert set(answer) == {"task"}
        assert "links" not in answer["task"]


@pytest.mark.requirement("ARS-121")
async def test_revocation_is_effective_at_once_and_leaves_the_task_approved(world: World) -> None:
    """Catalogue ARS-121: the very next evaluation is denied."""
    asked = question()
    submitted = await world.submit(await world.body(asked))
    detail = await world.decide(submitted.task["id"])
    approval = (await requests.status(world.ctx, GATE, detail.id))["result"]["approval"]
    presenting = {**asked, "context": {**asked["context"], "approval": approval}}
    assert (await evaluate(world.ctx, GATE, presenting))["decision"] is True
    revoked = await requests.revoke(world.ctx, person("bob"), approval["id"], reason="Changed our mind.")
    assert revoked.approval is not None
    assert (revoked.status, revoked.approval.status) == ("approved", "revoked")
    denied = await evaluate(world.ctx, GATE, presenting)
    assert (denied["decision"], denied["context"]["reason"]) == (False, "approval_expired")
    assert await world.status(detail.id) == "approved"
    assert "approval_revoked" in await world.kinds(detail.id)


@pytest.mark.requirement("ARS-120")
async def test_approval_runs_out(world: World) -> None:
    """Catalogue ARS-120: refused by the decision point from its end on."""
    asked = question()
    submitted = await world.submit(await world.body(asked))
    await world.decide(submitted.task["id"])
    approval = (await requests.status(world.ctx, GATE, submitted.task["id"]))["result"]["approval"]
    presenting = {**asked, "context": {**asked["context"], "approval": approval}}
    world.clock.advance(899)
    assert (await evaluate(world.ctx, GATE, presenting))["decision"] is True
    world.clock.advance(1)
    assert (await evaluate(world.ctx, GATE, presenting))["context"]["reason"] == "approval_expired"


@pytest.mark.requirement("ARS-121")
async def test_revocation_needs_its_own_right_and_an_approval_in_force(world: World) -> None:
    """Catalogue ARS-121: neither twice, nor after the end, nor without a reason, nor by whoever may only decide."""
    detail = await world.decide(await world.pending())
    assert detail.approval is not None
    approval_id = detail.approval.id

    async def told(who: Caller, reason: str = "why", approval: str = approval_id) -> type[ArapError]:
        with pytest.raises(ArapError) as caught:
            await requests.revoke(world.ctx, who, approval, reason=reason)
        return type(caught.value)

    assert await told(person("ann"), approval="apr_unknown") is UnknownTask
    assert await told(machine("stranger", "approval:revoke")) is UnknownTask
    assert await told(READER) is Forbidden
    assert await told(person("ann"), reason=" ") is InvalidRequest
    await requests.revoke(world.ctx, person("ann"), approval_id, reason="why")
    assert await told(person("bob")) is InvalidTaskState
    late = await world.decide(await world.pending())
    assert late.approval is not None
    world.clock.advance(900)
    assert await told(person("ann"), approval=late.approval.id) is InvalidTaskState


@pytest.mark.requirement("ARS-92", "ARS-93", "ARS-94")
@pytest.mark.parametrize(
    ("events", "decision", "told"),
    [
        (None, "approve", True),
        (None, "deny", True),
        (["approved"], "approve", True),
        (["approved"], "deny", False),
        (["denied", "expired"], "deny", True),
    ],
)
async def test_notification_is_written_with_the_decision(
    world: World, events: list[str] | None, decision: str, *, told: bool
) -> None:
    """Catalogue ARS-92 to ARS-94: only wanted events, the state as given, no result, in the outbox."""
    state = {"täsk": [1, "x"]}
    callback = {"endpoint": CALLBACK, "state": state, **({} if events is None else {"events": events})}
    task_id = await world.pending(callback=callback)
    assert await rows(world, Delivery) == []
    await world.decide(task_id, decision=decision)
    deliveries = await rows(world, Delivery)
    assert len(deliveries) == told
    if told:
        delivery, task = deliveries[0], await world.task(task_id)
        assert (delivery.endpoint, delivery.client_id, delivery.status) == (CALLBACK, "gate", "pending")
        body = task_seal(task, world.ctx.ring).open_at(f"delivery:{delivery.id}:body_sealed", delivery.body_sealed)
        assert set(body) == {"task", "state"}
        assert body["state"] == state
        assert body["task"]["id"] == task_id
        assert body["task"]["status"] == task.status


class StoppedError(Exception):
    """Stands for the death of the process."""


async def test_death_around_a_decision_leaves_all_or_nothing(world: World) -> None:
    """Before the commit there is no vote, after it there is the vote, its approval, its record and its notification."""
    task_id = await world.pending(callback={"endpoint": CALLBACK})
    for point, count in (("decide.before_commit", 0), ("decide.after_commit", 1)):

        def die(name: str, point: str = point) -> None:
            if name == point:
                raise StoppedError

        broken = World(replace(world.ctx, checkpoint=die), world.clock)
        with pytest.raises(StoppedError):
            await broken.decide(task_id)
        assert [len(await rows(world, table)) for table in (Vote, Approval, Delivery)] == [count] * 3
    assert await world.kinds(task_id) == ["task_submitted", "vote_cast", "task_approved"]


async def test_decision_wakes_whoever_waits_for_the_task(world: World) -> None:
    """Design section 2: waiters need not poll."""
    task_id = await world.pending()
    with anyio.fail_after(20), world.ctx.database.subscribe(f"task:{task_id}") as subscription:
        await world.decide(task_id)
        assert await subscription.wait(5)


@pytest.mark.requirement("ARS-122", "ARS-123", "PDP-78")
async def test_audit_rebuilds_the_whole_story_from_the_evaluation_id(world: World) -> None:
    """Catalogue ARS-122, ARS-123: the seven facts of the request, then votes, approval, use, report; nothing secret."""
    asked = question()
    body = await world.body({**asked, "context": {**asked["context"], "business_justification": "canary-why"}})
    submitted = await world.submit(body)
    task_id = submitted.task["id"]
    await world.decide(task_id, reason="canary-reason")
    approval = (await requests.status(world.ctx, GATE, task_id))["result"]["approval"]
    await evaluate(world.ctx, GATE, {**asked, "context": {**asked["context"], "approval": approval}})
    report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 0}
    await requests.report(world.ctx, GATE, task_id, report)
    task = await world.task(task_id)
    assert task.evaluation_id is not None
    evaluation_id = task.evaluation_id
    entries = await world.ctx.database.read(lambda session: audit.entries_of_evaluation(session, evaluation_id))
    assert [entry.kind for entry in entries if entry.chain == task_id][:3] == [
        "task_submitted",
        "vote_cast",
        "task_approved",
    ]
    assert {entry.kind for entry in entries} >= {"denied_requestable", "execution_reported"}
    assert len([entry for entry in entries if "evaluat" in entry.kind]) == 1
    facts = json.loads(entries[[entry.kind for entry in entries].index("task_submitted")].detail)
    assert facts["subject"] == {"type": "user", "id": "alice"}
    assert facts["resource"] == {"type": "tool", "id": "wire_transfer"}
    assert facts["action"] == "tools/call"
    assert facts["bound"] == ["agent", "arguments_hash", "business_justification", "server"]
    assert facts["denial"]["evaluation_id"] == task.evaluation_id
    assert facts["requester"] == GATE.principal
    assert facts["client"] == "gate"
    assert "canary" not in repr([entry.detail for entry in entries])
    assert "DE1" not in repr([entry.detail for entry in entries])


@pytest.mark.requirement("ARS-118")
async def test_who_clicks_twice_is_told_that_the_request_has_changed(world: World) -> None:
    """The second click has seen an old version; it is never taken for somebody who may not decide."""
    for _ in range(25):
        task_id = await world.pending("payroll")
        heard: list[str] = []

        async def click(task_id: str = task_id, heard: list[str] = heard) -> None:
            try:
                await world.decide(task_id, "ann", version=1, reason="fine")
            except ArapError as fault:
                heard.append(type(fault).__name__)
            else:
                heard.append("counted")

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(click)
        assert sorted(heard) == ["StaleVersion", "StaleVersion", "counted"]
