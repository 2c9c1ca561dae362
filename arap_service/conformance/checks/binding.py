"""Group `binding`: a submission is of the question that was denied, and of nothing else."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "binding"


@rule(
    "changed-subject",
    GROUP,
    "An Access Request whose denial binding does not cover the submitted Subject, Resource, Action, and "
    "authorization-relevant Context (for every item when `items` is present) MUST be rejected with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-20",),
)
async def changed_subject(trial: Trial) -> None:
    """Another subject: invalid_denial_binding, no task."""
    await trial.not_written()


@rule(
    "changed-resource",
    GROUP,
    "An Access Request whose denial binding does not cover the submitted Subject, Resource, Action, and "
    "authorization-relevant Context (for every item when `items` is present) MUST be rejected with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-20",),
)
async def changed_resource(trial: Trial) -> None:
    """Another resource: invalid_denial_binding, no task."""
    await trial.not_written()


@rule(
    "changed-context",
    GROUP,
    "Submission-time augmentations MUST NOT change or remove authorization-relevant context from the "
    "denied evaluation.",
    requirements=("ARS-20", "ARS-22"),
    questions=("with_context",),
)
async def changed_context(trial: Trial) -> None:
    """A bound member of the context changed, or left out: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "changed-properties",
    GROUP,
    "Subject, Resource, and Action comparison includes the full AuthZEN Authorization API objects, "
    "including any `properties` members present in the bound values",
    requirements=("ARS-20",),
)
async def changed_properties(trial: Trial) -> None:
    """A property more on the resource: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "values-have-types",
    GROUP,
    "structural comparison of two JSON values treats them as equal when they have the same JSON type",
    requirements=("ARS-26",),
    questions=("with_number",),
)
async def values_have_types(trial: Trial) -> None:
    """`1` is neither `true` nor "1"."""
    await trial.not_written()


@rule(
    "added-context-is-accepted",
    GROUP,
    "The Access Request Service MUST use exactly this set.",
    requirements=("ARS-22",),
)
async def added_context_is_accepted(trial: Trial) -> None:
    """A member of the context that is not bound may be added."""
    await trial.not_written()


@rule(
    "token-signature-is-verified",
    GROUP,
    "the service MUST verify the signature using a key resolved from the JWK Set advertised at the PDP's `jwks_uri`",
    requirements=("ARS-17",),
    profiles=("token",),
)
async def token_signature_is_verified(trial: Trial) -> None:
    """A token with another signature, or other claims under the old one: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "unsigned-token-is-refused",
    GROUP,
    "When `denial.binding_token` is present, the service MUST verify its integrity.",
    requirements=("ARS-18",),
    profiles=("token",),
)
async def unsigned_token_is_refused(trial: Trial) -> None:
    """`alg: none`: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "own-key-is-refused",
    GROUP,
    "the service MUST verify the signature using a key resolved from the JWK Set advertised at the PDP's `jwks_uri`",
    requirements=("ARS-18",),
    profiles=("token",),
)
async def own_key_is_refused(trial: Trial) -> None:
    """A token signed with the key in its own header: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "token-outranks-id",
    GROUP,
    "When `denial.binding_token` is absent, the service MUST resolve or validate `denial.evaluation_id`",
    requirements=("ARS-13",),
    profiles=("token", "id"),
)
async def token_outranks_id(trial: Trial) -> None:
    """A broken token beside a good evaluation id: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "unknown-evaluation",
    GROUP,
    "The Access Request Service MUST be able to resolve or validate `evaluation_id` before relying on it "
    "as denial-binding material.",
    requirements=("ARS-28",),
    profiles=("id",),
)
async def unknown_evaluation(trial: Trial) -> None:
    """An evaluation id that nobody gave: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "later-end-is-refused",
    GROUP,
    "the Access Request Service MUST verify that `denial.expires_at` matches the protected value before relying on it.",
    requirements=("ARS-31",),
    profiles=("token",),
)
async def later_end_is_refused(trial: Trial) -> None:
    """A later `denial.expires_at` than the protected one: invalid_denial_binding."""
    await trial.not_written()


@rule(
    "expired-denial",
    GROUP,
    "A submission whose freshness deadline has passed MUST be rejected with "
    "`urn:openid:authzen:access-request:error:expired_denial`.",
    requirements=("ARS-30",),
    verbs=("expire_denial",),
)
async def expired_denial(trial: Trial) -> None:
    """After the end of the offer: 410 expired_denial."""
    await trial.not_written()


@rule(
    "replayed-token",
    GROUP,
    "The Access Request Service SHOULD track recently-seen `jti` values until the token's `exp` to detect "
    "replay of an otherwise valid token",
    requirements=("ARS-35",),
    level=Level.SHOULD,
    profiles=("token",),
)
async def replayed_token(trial: Trial) -> None:
    """A token that opened a task opens no second one."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    changed_subject,
    changed_resource,
    changed_context,
    changed_properties,
    values_have_types,
    added_context_is_accepted,
    token_signature_is_verified,
    unsigned_token_is_refused,
    own_key_is_refused,
    token_outranks_id,
    unknown_evaluation,
    later_end_is_refused,
    expired_denial,
    replayed_token,
)
