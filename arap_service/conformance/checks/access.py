"""Group `access`: each operation on a task is authorised by itself."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "access"


@rule(
    "status-needs-authentication",
    GROUP,
    "A leaked task handle MUST NOT be sufficient to retrieve task status without caller authorization.",
    requirements=("ARS-01", "ARS-68"),
)
async def status_needs_authentication(trial: Trial) -> None:
    """A handle without a token shows nothing."""
    await trial.not_written()


@rule(
    "other-caller-cannot-read",
    GROUP,
    "A leaked task handle MUST NOT be sufficient to retrieve task status without caller authorization.",
    requirements=("ARS-63", "ARS-68"),
    tokens=("second",),
)
async def other_caller_cannot_read(trial: Trial) -> None:
    """Another caller's token shows nothing."""
    await trial.not_written()


@rule(
    "foreign-looks-unknown",
    GROUP,
    "The task handle is unknown or unavailable to the caller.",
    requirements=("ARS-63",),
    level=Level.SHOULD,
    tokens=("second",),
)
async def foreign_looks_unknown(trial: Trial) -> None:
    """What another caller gets is what a task that does not exist gets."""
    await trial.not_written()


@rule(
    "other-caller-cannot-cancel",
    GROUP,
    "MUST verify the PEP is authorized for the original Subject, Resource, Action, task, and cancellation operation.",
    requirements=("ARS-74",),
    tokens=("second",),
    profiles=("cancellation",),
)
async def other_caller_cannot_cancel(trial: Trial) -> None:
    """Another caller's cancellation is refused, and the task stays."""
    await trial.not_written()


@rule(
    "reader-cannot-cancel",
    GROUP,
    "Authorization to retrieve task status does not imply authorization to cancel the task, view approver "
    "details, or retrieve an enforceable result.",
    requirements=("ARS-66", "ARS-74"),
    tokens=("reader",),
    profiles=("cancellation",),
)
async def reader_cannot_cancel(trial: Trial) -> None:
    """Who may see the status only cannot cancel."""
    await trial.not_written()


@rule(
    "reader-gets-no-result",
    GROUP,
    "Authorization to retrieve task status does not imply authorization to cancel the task, view approver "
    "details, or retrieve an enforceable result.",
    requirements=("ARS-66",),
    verbs=("approve",),
    tokens=("reader",),
)
async def reader_gets_no_result(trial: Trial) -> None:
    """Who may see the status only gets no approval."""
    await trial.not_written()


@rule(
    "new-token-keeps-the-task",
    GROUP,
    "Refresh of a calling identity's underlying token does not invalidate Task Handle access as long as "
    "the caller remains authorized for the bound task and operation.",
    requirements=("ARS-67",),
    tokens=("again",),
)
async def new_token_keeps_the_task(trial: Trial) -> None:
    """A new token of the same caller keeps the task."""
    await trial.not_written()


@rule(
    "approvers-are-not-shown",
    GROUP,
    "A task status response MUST NOT disclose approval details, approver identities, policy identifiers, "
    "or resource metadata to a caller that is not authorized to receive them.",
    requirements=("ARS-69", "ARS-65"),
    verbs=("approve",),
)
async def approvers_are_not_shown(trial: Trial) -> None:
    """None of the texts that the control file calls hidden is in a task or a problem."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    status_needs_authentication,
    other_caller_cannot_read,
    foreign_looks_unknown,
    other_caller_cannot_cancel,
    reader_cannot_cancel,
    reader_gets_no_result,
    new_token_keeps_the_task,
    approvers_are_not_shown,
)
