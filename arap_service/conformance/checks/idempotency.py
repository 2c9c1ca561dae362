"""Group `idempotency`: one key, one task."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "idempotency"


@rule(
    "same-key-same-task",
    GROUP,
    "The Access Request Service SHOULD treat a repeated submission with the same `Idempotency-Key`, the "
    "same authenticated requester, and an equivalent submission body as the same request, returning the "
    "same Task Handle while the original request remains available.",
    requirements=("ARS-39",),
    level=Level.SHOULD,
)
async def same_key_same_task(trial: Trial) -> None:
    """The same key and body, white space and the order of members aside: the same task."""
    await trial.not_written()


@rule(
    "same-key-other-body",
    GROUP,
    "A submission with the same `Idempotency-Key` and authenticated requester but a materially different "
    "submission body MUST be rejected with `urn:openid:authzen:access-request:error:duplicate_request`.",
    requirements=("ARS-40",),
)
async def same_key_other_body(trial: Trial) -> None:
    """The same key, another body: 409 duplicate_request."""
    await trial.not_written()


@rule(
    "keys-belong-to-their-caller",
    GROUP,
    "Implementations SHOULD scope idempotency keys to the authenticated caller and avoid storing them "
    "longer than necessary.",
    requirements=("ARS-42",),
    level=Level.SHOULD,
    tokens=("second",),
)
async def keys_belong_to_their_caller(trial: Trial) -> None:
    """Another caller's equal key is another key."""
    await trial.not_written()


@rule(
    "equal-submissions-race",
    GROUP,
    "The Access Request Service SHOULD treat a repeated submission with the same `Idempotency-Key`, the "
    "same authenticated requester, and an equivalent submission body as the same request, returning the "
    "same Task Handle while the original request remains available.",
    requirements=("ARS-49",),
    level=Level.SHOULD,
)
async def equal_submissions_race(trial: Trial) -> None:
    """Equal submissions at the same moment: one task."""
    await trial.not_written()


@rule(
    "key-outlives-the-end",
    GROUP,
    "SHOULD continue to retain it for at least 24 hours after the task reaches a terminal status.",
    requirements=("ARS-45", "ARS-47"),
    level=Level.SHOULD,
    verbs=("deny",),
)
async def key_outlives_the_end(trial: Trial) -> None:
    """The same key after the task was denied: that task."""
    await trial.not_written()


@rule(
    "failure-spends-nothing",
    GROUP,
    "with a submission body that is not equivalent to the original request",
    requirements=("ARS-36", "ARS-48"),
    level=Level.SHOULD,
)
async def failure_spends_nothing(trial: Trial) -> None:
    """A refused submission, corrected, is accepted under the same key."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    same_key_same_task,
    same_key_other_body,
    keys_belong_to_their_caller,
    equal_submissions_race,
    key_outlives_the_end,
    failure_spends_nothing,
)
