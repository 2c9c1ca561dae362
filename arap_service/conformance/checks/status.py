"""Group `status`: what the Task Status Endpoint shows from the beginning to the end."""

from typing import Final

from arap_service.conformance.checks.submission import guessable
from arap_service.conformance.instants import instant, utc_now
from arap_service.conformance.jose import Unreadable, read, verified
from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import ENDS, approval_of, misnamed
from arap_service.conformance.trial import Trial
from blackbox_kit.model import NotApplicable, NotKept, NotRun

GROUP: Final = "status"


@rule(
    "pending-is-shown",
    GROUP,
    "A response with `task.status: pending` echoes the Task Handle returned at submission",
    requirements=("ARS-57", "ARS-114"),
)
async def pending_is_shown(trial: Trial) -> None:
    """The handle comes back: id, pending, status_endpoint, and no approval."""
    task = await trial.open()
    answer = await trial.look(task)
    found = answer.task or {}
    if answer.status != 200 or found.get("id") != task.id or found.get("status") != "pending":
        raise NotKept(f"the status of a new task was answered with {answer.brief()}")
    if found.get("status_endpoint") != task.status_endpoint:
        raise NotKept(f"the status_endpoint of the pending task is {found.get('status_endpoint')!r}")
    if approval_of(answer.document) is not None or approval_of(task.created.document) is not None:
        raise NotKept("a pending task has an approval")


@rule(
    "approved-has-its-result",
    GROUP,
    "When `task.status` is `approved` and the task does not contain an `items` array, the response MUST "
    "include a top-level `result` object.",
    requirements=("ARS-59",),
    verbs=("approve",),
)
async def approved_has_its_result(trial: Trial) -> None:
    """After an approval: approved, and a result of a defined form."""
    task = await trial.open()
    await trial.do("approve", task)
    found = await trial.ended(task)
    if found["task"].get("status") != "approved":
        raise NotKept(f"after an approval the status is {found['task'].get('status')!r}")
    result = found.get("result")
    if not isinstance(result, dict):
        raise NotKept("the approved task has no result")
    mode = result.get("mode")
    if mode != "reevaluate":
        if isinstance(mode, str) and ":" in mode:
            raise NotApplicable(f"the result's mode is of another profile: {mode}")
        raise NotKept(f"the result's mode is {mode!r}")
    approval = approval_of(found) or {}
    if lacking := [name for name in ("id", "approved_until") if not isinstance(approval.get(name), str)]:
        raise NotKept(f"the approval lacks {', '.join(lacking)}")


@rule(
    "approval-ends",
    GROUP,
    "Approval results MUST expire.",
    requirements=("ARS-59", "ARS-120"),
    verbs=("approve",),
)
async def approval_ends(trial: Trial) -> None:
    """`approved_until` is an instant in the future."""
    until = (await trial.approved(await trial.open())).get("approved_until")
    ends = instant(until)
    if ends is None or ends <= utc_now():
        raise NotKept(f"approved_until is no instant of RFC 3339 in the future: {until!r}")


@rule(
    "approval-ids-are-unguessable",
    GROUP,
    "Stable, opaque, and unguessable identifier of the approval.",
    requirements=("ARS-52",),
    verbs=("approve",),
)
async def approval_ids_are_unguessable(trial: Trial) -> None:
    """Approval ids are long, and no two differ in a few places only."""
    guessable([str((await trial.approved(await trial.open())).get("id")) for _ in range(3)], "approval")


@rule(
    "denied-is-no-approval",
    GROUP,
    "For any other terminal status, the response MAY include a `result` object for diagnostic or workflow "
    "information, but the PEP MUST NOT treat it as approval.",
    requirements=("ARS-60",),
    verbs=("deny",),
)
async def denied_is_no_approval(trial: Trial) -> None:
    """After a denial: denied, and no approval."""
    task = await trial.open()
    await trial.do("deny", task)
    found = await trial.ended(task)
    if found["task"].get("status") != "denied":
        raise NotKept(f"after a denial the status is {found['task'].get('status')!r}")
    if approval_of(found) is not None:
        raise NotKept("a denied task has an approval")


@rule(
    "expired-is-said",
    GROUP,
    "MUST expire Access Requests and approvals according to local policy.",
    requirements=("ARS-120",),
    verbs=("expire",),
)
async def expired_is_said(trial: Trial) -> None:
    """After its time: expired, or the problem task_expired; no approval."""
    task = await trial.open()
    await trial.do("expire", task)
    answer = await trial.look(task)
    if answer.problem == "task_expired":
        return
    found = await trial.ended(task)
    if found["task"].get("status") != "expired":
        raise NotKept(f"after its time the status is {found['task'].get('status')!r}")
    if approval_of(found) is not None:
        raise NotKept("an expired task has an approval")


@rule(
    "an-end-is-an-end",
    GROUP,
    "Terminal states do not transition further.",
    requirements=("ARS-55",),
    verbs=("approve", "deny"),
)
async def an_end_is_an_end(trial: Trial) -> None:
    """A denial after an approval, and the other way round, change nothing."""
    for first, second, kept in (("approve", "deny", "approved"), ("deny", "approve", "denied")):
        task = await trial.open()
        await trial.do(first, task)
        if (status := (await trial.ended(task))["task"].get("status")) != kept:
            raise NotRun(f"after {first} the status is {status!r}")
        await trial.do_late(second, task, proof={"approve": "approved", "deny": "denied"}[second])
        await trial.settle()
        if (status := await trial.status(task)) != kept:
            raise NotKept(f"the task was {kept}, and became {status!r} by a later {second}")


@rule(
    "expired-cannot-be-approved",
    GROUP,
    "Terminal states do not transition further.",
    requirements=("ARS-55",),
    verbs=("expire", "approve"),
)
async def expired_cannot_be_approved(trial: Trial) -> None:
    """An approval that comes after the time of the task changes nothing."""
    task = await trial.open()
    await trial.do("expire", task)
    before = await trial.look(task)
    if before.problem != "task_expired" and (status := (await trial.ended(task))["task"].get("status")) != "expired":
        raise NotRun(f"after its time the status is {status!r}")
    await trial.do_late("approve", task, proof="approved")
    await trial.settle()
    after = await trial.look(task)
    if after.problem == "task_expired":
        return
    if (after.task or {}).get("status") != "expired" or approval_of(after.document) is not None:
        raise NotKept(f"the expired task was approved later, and is answered with {after.brief()}")


@rule(
    "a-question-is-no-end",
    GROUP,
    "Implementations are expected to collapse such richer state into the canonical statuses for the "
    "purpose of the Task Status Endpoint.",
    requirements=("ARS-64", "ARS-114"),
    verbs=("ask",),
)
async def a_question_is_no_end(trial: Trial) -> None:
    """While a reviewer waits for an answer the status is not approved, and no end."""
    task = await trial.open()
    await trial.do("ask", task)
    await trial.settle()
    found = await trial.state(task)
    if found["task"].get("status") in ENDS or approval_of(found) is not None:
        raise NotKept(f"while a reviewer waits for an answer the status is {found['task'].get('status')!r}")


@rule(
    "unknown-task",
    GROUP,
    "The task handle is unknown or unavailable to the caller.",
    requirements=("ARS-62",),
)
async def unknown_task(trial: Trial) -> None:
    """A task that does not exist: 404 unknown_task."""
    task = await trial.open()
    answer = await trial.ask("GET", misnamed(task.status_endpoint, task.id))
    if answer.status != 404 or answer.problem != "unknown_task":
        raise NotKept(f"a task that does not exist was answered with {answer.brief()}")


@rule(
    "state-is-signed-for-the-pdp",
    GROUP,
    "A JWS `approval.state` MUST carry an `aud` (or equivalent intended-recipient) claim identifying the verifying PDP",
    requirements=("ARS-61", "PDP-68"),
    verbs=("approve",),
    profiles=("state",),
)
async def state_is_signed_for_the_pdp(trial: Trial) -> None:
    """`approval.state` is a JWS of a published key, with `iss`, and `aud` the decision point."""
    approval = await trial.approved(await trial.open())
    try:
        read(approval.get("state"))
    except Unreadable:
        raise NotApplicable("approvals carry no state that is a JWS") from None
    try:
        _, claims = verified(approval["state"], await trial.keys())
    except Unreadable as error:
        raise NotKept(f"approval.state cannot be verified: {error}") from None
    if not claims.get("iss"):
        raise NotKept("approval.state has no iss")
    audience = claims.get("aud")
    named = {trial.target, trial.target + "/", trial.metadata.get("policy_decision_point")} - {None}
    if not named & set(audience if isinstance(audience, list) else [audience]):
        raise NotKept(f"the aud of approval.state is {audience!r}, not the decision point")


CHECKS: Final[tuple[Check, ...]] = (
    pending_is_shown,
    approved_has_its_result,
    approval_ends,
    approval_ids_are_unguessable,
    denied_is_no_approval,
    expired_is_said,
    an_end_is_an_end,
    expired_cannot_be_approved,
    a_question_is_no_end,
    unknown_task,
    state_is_signed_for_the_pdp,
)
