"""Group `revocation`: an approval that was taken back."""

from typing import Final

from arap_service.conformance.model import Check
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

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
    """After the revocation the approval permits nothing."""
    await trial.not_written()


@rule(
    "revoked-stays-approved",
    GROUP,
    "Terminal states do not transition further.",
    requirements=("ARS-121", "ARS-55"),
    verbs=("approve", "revoke"),
)
async def revoked_stays_approved(trial: Trial) -> None:
    """The task stays approved: an end is an end."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    revoked_permits_nothing,
    revoked_stays_approved,
)
