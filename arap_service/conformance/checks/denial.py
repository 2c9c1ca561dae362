"""Group `denial`: what a requestable denial looks like, and what is none."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "denial"


@rule(
    "denial-is-an-answer",
    GROUP,
    "a denied decision remains a denial and MUST NOT be treated as access",
    requirements=("PDP-01", "PDP-37"),
)
async def denial_is_an_answer(trial: Trial) -> None:
    """A requestable denial is HTTP 200 with `decision` false and an offer."""
    await trial.not_written()


@rule(
    "denial-says-how-long",
    GROUP,
    "MUST include an expiration time for the requestable denial hint as `context.access_request.expires_at`.",
    requirements=("PDP-38",),
)
async def denial_says_how_long(trial: Trial) -> None:
    """The offer ends at an instant in the future."""
    await trial.not_written()


@rule(
    "denial-can-be-bound",
    GROUP,
    "MUST provide verifiable denial-binding material when returning `context.access_request`",
    requirements=("PDP-39",),
)
async def denial_can_be_bound(trial: Trial) -> None:
    """There is a binding token or an evaluation id."""
    await trial.not_written()


@rule(
    "permit-offers-nothing",
    GROUP,
    "MAY include `context.access_request` in a denied AuthZEN Decision when the denied access is eligible "
    "for approval.",
    requirements=("PDP-37",),
    questions=("permitted",),
)
async def permit_offers_nothing(trial: Trial) -> None:
    """A permit has no offer."""
    await trial.not_written()


@rule(
    "plain-denial-offers-nothing",
    GROUP,
    "The PDP MUST include this object only when the denied access is eligible for submission to an Access "
    "Request Endpoint",
    requirements=("PDP-37",),
    questions=("denied",),
)
async def plain_denial_offers_nothing(trial: Trial) -> None:
    """A denial that nothing can lift has no offer."""
    await trial.not_written()


@rule(
    "evaluations-have-ids",
    GROUP,
    "SHOULD return a stable evaluation identifier as `context.evaluation_id`",
    requirements=("PDP-41",),
    level=Level.SHOULD,
)
async def evaluations_have_ids(trial: Trial) -> None:
    """Every evaluation has an id of its own."""
    await trial.not_written()


@rule(
    "reason-is-stable",
    GROUP,
    "SHOULD include a stable machine-readable reason code when returning a requestable denial.",
    requirements=("PDP-43",),
    level=Level.SHOULD,
)
async def reason_is_stable(trial: Trial) -> None:
    """The same denial has the same reason code."""
    await trial.not_written()


@rule(
    "token-is-signed",
    GROUP,
    "When present, the value MUST be integrity protected in a way the Access Request Service can verify",
    requirements=("PDP-48", "PDP-33"),
    profiles=("token",),
)
async def token_is_signed(trial: Trial) -> None:
    """The binding token is a JWS of a published key."""
    await trial.not_written()


@rule(
    "token-names-its-audience",
    GROUP,
    "The Access Request Service MUST reject a `binding_token` JWT that lacks `aud`",
    requirements=("PDP-49",),
    profiles=("token",),
)
async def token_names_its_audience(trial: Trial) -> None:
    """The binding token has `aud`."""
    await trial.not_written()


@rule(
    "token-proves-its-end",
    GROUP,
    "either include an integrity-protected `binding_token` that protects or constrains the requestable-denial expiry",
    requirements=("PDP-51",),
    profiles=("token",),
)
async def token_proves_its_end(trial: Trial) -> None:
    """`denial_expires_at` is the offer's end, or `exp` is no later."""
    await trial.not_written()


@rule(
    "token-binds-the-question",
    GROUP,
    "Implementations that use the hashed form MUST use exactly this construction so that a PDP and an "
    "independently implemented Access Request Service compute identical digests.",
    requirements=("PDP-50", "PDP-52"),
    profiles=("token",),
)
async def token_binds_the_question(trial: Trial) -> None:
    """The claims are of the question that was asked: inline, hashed, or both."""
    await trial.not_written()


@rule(
    "machinery-is-not-bound",
    GROUP,
    "Profile machinery members (`access_request`, `evaluation_id`, `evaluated_at`, and `reason`) are not "
    "authorization-relevant.",
    requirements=("PDP-54",),
    profiles=("token",),
)
async def machinery_is_not_bound(trial: Trial) -> None:
    """No member of the profile's machinery is among the bound members of the context."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    denial_is_an_answer,
    denial_says_how_long,
    denial_can_be_bound,
    permit_offers_nothing,
    plain_denial_offers_nothing,
    evaluations_have_ids,
    reason_is_stable,
    token_is_signed,
    token_names_its_audience,
    token_proves_its_end,
    token_binds_the_question,
    machinery_is_not_bound,
)
