"""Group `status`: what the Task Status Endpoint shows from the beginning to the end."""

from typing import Final

from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "status"


@rule(
    "pending-is-shown",
    GROUP,
    "A response with `task.status: pending` echoes the Task Handle returned at submission",
    requirements=("ARS-57", "ARS-114"),
)
async def pending_is_shown(trial: Trial) -> None:
    """The handle comes back: id, pending, status_endpoint, and no approval."""
    await trial.not_written()


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
    await trial.not_written()


@rule(
    "approval-ends",
    GROUP,
    "Approval results MUST expire.",
    requirements=("ARS-59", "ARS-120"),
    verbs=("approve",),
)
async def approval_ends(trial: Trial) -> None:
    """`approved_until` is an instant in the future."""
    await trial.not_written()


@rule(
    "approval-ids-are-unguessable",
    GROUP,
    "Stable, opaque, and unguessable identifier of the approval.",
    requirements=("ARS-52",),
    verbs=("approve",),
)
async def approval_ids_are_unguessable(trial: Trial) -> None:
    """Approval ids are long, and no two differ in a few places only."""
    await trial.not_written()


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
    await trial.not_written()


@rule(
    "expired-is-said",
    GROUP,
    "MUST expire Access Requests and approvals according to local policy.",
    requirements=("ARS-120",),
    verbs=("expire",),
)
async def expired_is_said(trial: Trial) -> None:
    """After its time: expired, or the problem task_expired; no approval."""
    await trial.not_written()


@rule(
    "an-end-is-an-end",
    GROUP,
    "Terminal states do not transition further.",
    requirements=("ARS-55",),
    verbs=("approve", "deny"),
)
async def an_end_is_an_end(trial: Trial) -> None:
    """A denial after an approval, and the other way round, change nothing."""
    await trial.not_written()


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
    await trial.not_written()


@rule(
    "unknown-task",
    GROUP,
    "The task handle is unknown or unavailable to the caller.",
    requirements=("ARS-62",),
)
async def unknown_task(trial: Trial) -> None:
    """A task that does not exist: 404 unknown_task."""
    await trial.not_written()


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
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    pending_is_shown,
    approved_has_its_result,
    approval_ends,
    approval_ids_are_unguessable,
    denied_is_no_approval,
    expired_is_said,
    an_end_is_an_end,
    a_question_is_no_end,
    unknown_task,
    state_is_signed_for_the_pdp,
)
