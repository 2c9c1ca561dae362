"""Group `revocation`: an approval that was taken back."""

from typing import Final

from arap_service.conformance.checks.applying import permits_nothing
from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial
from blackbox_kit.model import NotKept, NotRun

GROUP: Final = "revocation"


@rule(
    "revoked-permits-nothing",
    GROUP,
    "The PDP MUST check current approval status during re-evaluation, including whether the approval has "
    "been revoked, cancelled, superseded, or otherwise invalidated before `approved_until`.",
    requirements=("PDP-65", "ARS-121"),
    verbs=("approve", "revoke"),
)
async def revoked_permits_nothing(trial: Trial) -> None:
    """After the revocation the approval permits nothing, nor does its id alone."""
    task = await trial.open()
    approval = await trial.approved(task)
    if not await trial.permits(task.denial.question, approval=approval):
        raise NotRun("the approved question was denied before the revocation")
    await trial.do("revoke", task)
    await permits_nothing(trial, task.denial.question, approval, "a revoked approval")


@rule(
    "revoked-stays-approved",
    GROUP,
    "Terminal states do not transition further.",
    requirements=("ARS-121", "ARS-55"),
    verbs=("approve", "revoke"),
)
async def revoked_stays_approved(trial: Trial) -> None:
    """The task stays approved: an end is an end."""
    task = await trial.open()
    await trial.approved(task)
    await trial.do("revoke", task)
    await trial.settle()
    if (status := await trial.status(task)) != "approved":
        raise NotKept(f"after the revocation the task is {status!r}")


CHECKS: Final[tuple[Check, ...]] = (
    revoked_permits_nothing,
    revoked_stays_approved,
)
