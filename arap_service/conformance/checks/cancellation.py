"""Group `cancellation`: by the enforcement point."""

from typing import Final

from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

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
    await trial.not_written()


@rule(
    "cancel-needs-authentication",
    GROUP,
    "The Access Request Service MUST authenticate the PEP",
    requirements=("ARS-01", "ARS-74"),
    profiles=("cancellation",),
)
async def cancel_needs_authentication(trial: Trial) -> None:
    """Without a token: 401, and the task stays."""
    await trial.not_written()


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
    await trial.not_written()


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
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    cancel_ends_the_task,
    cancel_needs_authentication,
    ended_cannot_be_cancelled,
    cancelled_cannot_be_approved,
)
