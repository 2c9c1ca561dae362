"""Group `cancellation`: by the enforcement point."""

from typing import Final

from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import approval_of, refused
from arap_service.conformance.trial import Trial
from blackbox_kit.model import NotKept, NotRun

GROUP: Final = "cancellation"


@rule(
    "cancel-ends-the-task",
    GROUP,
    "A successful cancellation returns `200 OK` and the updated `task` object whose `status` is `cancelled`.",
    requirements=("ARS-72",),
    profiles=("cancellation",),
)
async def cancel_ends_the_task(trial: Trial) -> None:
    """POST, with reason and comment or without a body: 200, cancelled; so says the status endpoint."""
    for body in ({"reason": "no_longer_needed", "comment": "The suite needs it no more."}, None):
        task = await trial.open()
        answer = await trial.cancel(task, body=body)
        what = "a cancellation" if body else "a cancellation without a body"
        if answer.status != 200 or (answer.task or {}).get("status") != "cancelled":
            raise NotKept(f"{what} was answered with {answer.brief()}")
        if (status := await trial.status(task)) != "cancelled":
            raise NotKept(f"after {what} the status is {status!r}")


@rule(
    "cancel-needs-authentication",
    GROUP,
    "The Access Request Service MUST authenticate the PEP",
    requirements=("ARS-01", "ARS-74"),
    profiles=("cancellation",),
)
async def cancel_needs_authentication(trial: Trial) -> None:
    """Without a token: 401, and the task stays."""
    task = await trial.open()
    answer = await trial.cancel(task, role=None)
    if answer.status != 401:
        raise NotKept(f"a cancellation without a token was answered with {answer.brief()}")
    if (status := await trial.status(task)) != "pending":
        raise NotKept(f"without a token the task became {status!r}")


@rule(
    "ended-cannot-be-cancelled",
    GROUP,
    "Cancellation of a task that has already reached a terminal status returns `409 Conflict` using the "
    "`urn:openid:authzen:access-request:error:invalid_task_state` problem type.",
    requirements=("ARS-73",),
    profiles=("cancellation",),
)
async def ended_cannot_be_cancelled(trial: Trial) -> None:
    """After an end, and a second time: 409 invalid_task_state."""
    task = await trial.open()
    if not (first := await trial.cancel(task)).is_success:
        raise NotRun(f"a cancellation was answered with {first.brief()}")
    again = await trial.cancel(task)
    refused(again, "invalid_task_state", "a second cancellation")
    if again.status != 409:
        raise NotKept(f"a second cancellation has HTTP {again.status}, not 409")


@rule(
    "decided-cannot-be-cancelled",
    GROUP,
    "Cancellation of a task that has already reached a terminal status returns `409 Conflict` using the "
    "`urn:openid:authzen:access-request:error:invalid_task_state` problem type.",
    requirements=("ARS-73", "ARS-55"),
    verbs=("approve", "deny"),
    profiles=("cancellation",),
)
async def decided_cannot_be_cancelled(trial: Trial) -> None:
    """What was approved or denied: 409 invalid_task_state, and it stays what it is."""
    for verb, status in (("approve", "approved"), ("deny", "denied")):
        task = await trial.open()
        await trial.do(verb, task)
        if (found := (await trial.ended(task))["task"].get("status")) != status:
            raise NotRun(f"after {verb} the status is {found!r}")
        answer = await trial.cancel(task)
        await trial.settle()
        if (found := await trial.status(task)) != status:
            raise NotKept(f"the task was {status}, and became {found!r} by a later cancellation")
        refused(answer, "invalid_task_state", f"a cancellation of what was {status}")


@rule(
    "cancelled-cannot-be-approved",
    GROUP,
    "Terminal states do not transition further.",
    requirements=("ARS-75",),
    verbs=("approve",),
    profiles=("cancellation",),
)
async def cancelled_cannot_be_approved(trial: Trial) -> None:
    """An approval after a cancellation changes nothing."""
    task = await trial.open()
    if not (first := await trial.cancel(task)).is_success:
        raise NotRun(f"a cancellation was answered with {first.brief()}")
    await trial.do_late("approve", task, proof="approved")
    await trial.settle()
    found = await trial.state(task)
    if found["task"].get("status") != "cancelled" or approval_of(found) is not None:
        raise NotKept(f"the cancelled task became {found['task'].get('status')!r} by a later approval")


CHECKS: Final[tuple[Check, ...]] = (
    cancel_ends_the_task,
    cancel_needs_authentication,
    ended_cannot_be_cancelled,
    decided_cannot_be_cancelled,
    cancelled_cannot_be_approved,
)
