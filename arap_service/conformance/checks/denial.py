"""Group `denial`: what a requestable denial looks like, and what is none."""

import hashlib
from datetime import UTC, datetime
from typing import Final

import rfc8785

from arap_service.conformance.instants import instant, utc_now
from arap_service.conformance.jose import Unreadable, encoded, read, verified
from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import MACHINERY, Denial, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

GROUP: Final = "denial"
INLINE: Final = ("subject", "resource", "action")


@rule(
    "denial-is-an-answer",
    GROUP,
    "a denied decision remains a denial and MUST NOT be treated as access",
    requirements=("PDP-01", "PDP-37"),
)
async def denial_is_an_answer(trial: Trial) -> None:
    """A requestable denial is HTTP 200 with `decision` false and an offer."""
    denial = await trial.denied()
    if denial.answer.status != 200 or denial.answer.document.get("decision") is not False:
        raise NotKept(f"a requestable denial is {denial.answer.brief()}")


@rule(
    "denial-says-how-long",
    GROUP,
    "MUST include an expiration time for the requestable denial hint as `context.access_request.expires_at`.",
    requirements=("PDP-38",),
)
async def denial_says_how_long(trial: Trial) -> None:
    """The offer ends at an instant in the future."""
    ends = instant((await trial.denied()).offer.get("expires_at"))
    if ends is None or ends <= utc_now():
        raise NotKept(f"the offer's expires_at is no instant of RFC 3339 in the future: {ends}")


@rule(
    "denial-can-be-bound",
    GROUP,
    "MUST provide verifiable denial-binding material when returning `context.access_request`",
    requirements=("PDP-39",),
)
async def denial_can_be_bound(trial: Trial) -> None:
    """There is a binding token or an evaluation id."""
    denial = await trial.denied()
    if not denial.token and not denial.evaluation_id:
        raise NotKept("the denial has neither a binding_token nor an evaluation_id")


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
    answer = await trial.evaluate(trial.question("permitted", trial.new_marker()))
    if answer.document.get("decision") is not True:
        raise NotRun(f"the question permitted is none: {answer.brief()}")
    if _offers(answer.document):
        raise NotKept("a permit has context.access_request")


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
    answer = await trial.evaluate(trial.question("denied", trial.new_marker()))
    if answer.document.get("decision") is not False:
        raise NotRun(f"the question denied is none: {answer.brief()}")
    if _offers(answer.document):
        raise NotKept("a denial that cannot be requested has context.access_request")


@rule(
    "evaluations-have-ids",
    GROUP,
    "SHOULD return a stable evaluation identifier as `context.evaluation_id`",
    requirements=("PDP-41",),
    level=Level.SHOULD,
)
async def evaluations_have_ids(trial: Trial) -> None:
    """Every evaluation has an id of its own."""
    marker = trial.new_marker()
    ids = [(await trial.denied(marker=marker)).evaluation_id for _ in range(3)]
    if None in ids or len(set(ids)) != len(ids):
        raise NotKept(f"three evaluations have the ids {ids}")


@rule(
    "reason-is-stable",
    GROUP,
    "SHOULD include a stable machine-readable reason code when returning a requestable denial.",
    requirements=("PDP-43",),
    level=Level.SHOULD,
)
async def reason_is_stable(trial: Trial) -> None:
    """The same denial has the same reason code."""
    marker = trial.new_marker()
    reasons = [(await trial.denied(marker=marker)).context.get("reason") for _ in range(2)]
    if not all(isinstance(reason, str) and reason for reason in reasons) or reasons[0] != reasons[1]:
        raise NotKept(f"the same denial has the reasons {reasons[0]!r} and {reasons[1]!r}")


@rule(
    "token-is-signed",
    GROUP,
    "When present, the value MUST be integrity protected in a way the Access Request Service can verify",
    requirements=("PDP-48", "PDP-33"),
    profiles=("token",),
)
async def token_is_signed(trial: Trial) -> None:
    """The binding token is a JWS of a published key."""
    denial = await trial.denied()
    _claims(denial)
    try:
        verified(denial.token, await trial.keys())
    except Unreadable as error:
        raise NotKept(f"the binding token cannot be verified: {error}") from None


@rule(
    "token-names-its-audience",
    GROUP,
    "The Access Request Service MUST reject a `binding_token` JWT that lacks `aud`",
    requirements=("PDP-49",),
    profiles=("token",),
)
async def token_names_its_audience(trial: Trial) -> None:
    """The binding token has `aud`."""
    audience = _claims(await trial.denied()).get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not named or not all(isinstance(one, str) and one for one in named):
        raise NotKept(f"the aud of the binding token is {audience!r}")


@rule(
    "token-proves-its-end",
    GROUP,
    "either include an integrity-protected `binding_token` that protects or constrains the requestable-denial expiry",
    requirements=("PDP-51",),
    profiles=("token",),
)
async def token_proves_its_end(trial: Trial) -> None:
    """`denial_expires_at` is the offer's end, or `exp` is no later."""
    denial = await trial.denied()
    claims, ends = _claims(denial), instant(denial.offer.get("expires_at"))
    if ends is None:
        raise NotRun("the offer has no end to compare with")
    if "denial_expires_at" in claims:
        if instant(claims["denial_expires_at"]) != ends:
            raise NotKept(f"denial_expires_at is {claims['denial_expires_at']!r}, and the offer's end {ends}")
    elif not isinstance(claims.get("exp"), int | float) or datetime.fromtimestamp(claims["exp"], UTC) > ends:
        raise NotKept("the token has no denial_expires_at, and its exp is none or later than the offer's end")


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
    name = "with_context" if "with_context" in trial.control.questions else "requestable"
    denial = await trial.denied(name)
    claims, members = _claims(denial), _members(_claims(denial))
    asked = _bound(denial.question, members)
    inline = {part: claims[part] for part in INLINE if part in claims}
    if len(inline) < len(INLINE) and "binding_hash" not in claims:
        raise NotKept("the token has neither the whole question inline nor a binding_hash")
    if "subject" in inline:
        inline["subject"] = _unacted(inline["subject"])
    if wrong := [part for part, value in inline.items() if not _equal(value, asked[part])]:
        raise NotKept(f"these claims are not of the question: {', '.join(wrong)}")
    bound = claims.get("context", {})
    if "context" in claims and (
        not isinstance(bound, dict)
        or not _equal({name: bound[name] for name in members if name in bound}, asked["context"])
    ):
        raise NotKept("the claim context is not that of the question")
    if "binding_hash" in claims and claims["binding_hash"] not in _hashes(denial.question, members):
        raise NotKept("the binding_hash is not the digest of the question")


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
    named = {"reason": "asked", "evaluation_id": "e-asked", "evaluated_at": "2026-01-01T00:00:00Z"}

    def alter(question: Json) -> None:
        question["context"] = {**question.get("context", {}), **named}

    members = _members(_claims(await trial.denied(alter=alter)))
    if found := sorted(MACHINERY & set(members)):
        raise NotKept(f"binding_context_members has {', '.join(found)}")


def _offers(document: Json) -> bool:
    context = document.get("context")
    return isinstance(context, dict) and "access_request" in context


def _claims(denial: Denial) -> Json:
    """The claims of the binding token.

    Raises:
        NotApplicable: It is no JWS; other formats are allowed, and nobody else can read them.
    """
    if denial.token is None:
        raise NotApplicable("the denial has no binding token")
    try:
        return read(denial.token)[1]
    except Unreadable as error:
        raise NotApplicable(f"the binding token is no JWS with JSON in it: {error}") from None


def _members(claims: Json) -> list[str]:
    members = claims.get("binding_context_members", [])
    return [name for name in members if isinstance(name, str)] if isinstance(members, list) else []


def _unacted(subject: object) -> object:
    if not isinstance(subject, dict) or not isinstance(subject.get("properties"), dict):
        return subject
    return {**subject, "properties": {name: one for name, one in subject["properties"].items() if name != "act"}}


def _bound(question: Json, members: list[str]) -> Json:
    context = question.get("context", {})
    bound = {name: question[name] for name in ("subject", "resource", "action")}
    bound["subject"] = _unacted(bound["subject"])
    return bound | {"context": {name: context[name] for name in members if name in context}}


def _equal(one: object, other: object) -> bool:
    """Structurally, properties that became empty aside."""
    return _canonical(_pruned(one)) == _canonical(_pruned(other))


def _pruned(value: object) -> object:
    return {k: v for k, v in value.items() if (k, v) != ("properties", {})} if isinstance(value, dict) else value


def _canonical(value: object) -> bytes:
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # whatever JSON came
    except rfc8785.CanonicalizationError:
        raise NotRun("a value has no canonical form") from None


def _hashes(question: Json, members: list[str]) -> set[str]:
    """With and without properties that are empty once the actor is taken out: the draft leaves that open."""
    bound = _bound(question, members)
    pruned = bound | {"subject": _pruned(bound["subject"])}
    return {encoded(hashlib.sha256(_canonical(one)).digest()) for one in (bound, pruned)}


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
