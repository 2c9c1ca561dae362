"""Group `binding`: a submission is of the question that was denied, and of nothing else."""

import secrets
from copy import deepcopy
from datetime import timedelta
from typing import Any, Final

from arap_service.conformance import jose
from arap_service.conformance.instants import instant
from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import handled, refused
from arap_service.conformance.trial import Denial, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

GROUP: Final = "binding"
BINDING: Final = "invalid_denial_binding"


@rule(
    "changed-subject",
    GROUP,
    "An Access Request whose denial binding does not cover the submitted Subject, Resource, Action, and "
    "authorization-relevant Context (for every item when `items` is present) MUST be rejected with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-20",),
)
async def changed_subject(trial: Trial) -> None:
    """Another subject, or one of another type: invalid_denial_binding, no task."""
    await _changed(trial, "subject")


@rule(
    "changed-resource",
    GROUP,
    "An Access Request whose denial binding does not cover the submitted Subject, Resource, Action, and "
    "authorization-relevant Context (for every item when `items` is present) MUST be rejected with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-20",),
)
async def changed_resource(trial: Trial) -> None:
    """Another resource, or one of another type: invalid_denial_binding, no task."""
    await _changed(trial, "resource")


@rule(
    "changed-action",
    GROUP,
    "An Access Request whose denial binding does not cover the submitted Subject, Resource, Action, and "
    "authorization-relevant Context (for every item when `items` is present) MUST be rejected with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-20",),
)
async def changed_action(trial: Trial) -> None:
    """Another action: invalid_denial_binding, no task."""
    await _changed(trial, "action")


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
    denial = await trial.denied("with_context")
    name = bound_member(denial)
    changed, dropped = denial.body(), denial.body()
    changed["context"][name] = "conformance-other"
    refused(await trial.submit(denial, changed), BINDING, f"another context.{name}")
    del dropped["context"][name]
    refused(await trial.submit(denial, dropped), BINDING, f"a submission without context.{name}")


@rule(
    "changed-properties",
    GROUP,
    "Subject, Resource, and Action comparison includes the full AuthZEN Authorization API objects, "
    "including any `properties` members present in the bound values",
    requirements=("ARS-20",),
)
async def changed_properties(trial: Trial) -> None:
    """A property more on the subject, resource or action, and one that was asked about left out."""
    for part in ("resource", "subject", "action"):
        denial = await trial.denied()
        whole = denial.body()[part]
        more = {**whole, "properties": {**whole.get("properties", {}), "conformance.example/more": "x"}}
        await _differing(trial, denial, part, more, f"a {part} with one property more")
    for question in {"requestable", "with_number"} & trial.control.questions.keys():
        denial = await trial.denied(question)
        for part in ("resource", "subject", "action"):
            for name in denial.body()[part].get("properties", {}).keys() - {"act"}:  # the actor may stand elsewhere
                whole = denial.body()[part]
                less = {one: value for one, value in whole["properties"].items() if one != name}
                what = f"a {part} without its property {name}"
                await _differing(trial, denial, part, {**whole, "properties": less}, what)


@rule(
    "values-have-types",
    GROUP,
    "structural comparison of two JSON values treats them as equal when they have the same JSON type",
    requirements=("ARS-26",),
    questions=("with_number",),
)
async def values_have_types(trial: Trial) -> None:
    """`1` is neither `true` nor "1"."""
    denial = await trial.denied("with_number")
    for other in (True, "1"):
        body = denial.body()
        if not _replaced(body, denial, other):
            raise NotRun("the question with_number has no number 1 in a place that is bound")
        refused(await trial.submit(denial, body), BINDING, f"{other!r} in place of 1")


@rule(
    "added-context-is-accepted",
    GROUP,
    "The Access Request Service MUST use exactly this set.",
    requirements=("ARS-22",),
)
async def added_context_is_accepted(trial: Trial) -> None:
    """A member of the context that is not bound may be added."""
    denial = await trial.denied()
    body = denial.body()
    body["context"] = {**body.get("context", {}), "conformance.example/added": "x"}
    answer = await trial.submit(denial, body)
    if not answer.is_success:
        raise NotKept(f"a member of the context that is not bound led to {answer.brief()}")


@rule(
    "token-signature-is-verified",
    GROUP,
    "the service MUST verify the signature using a key resolved from the JWK Set advertised at the PDP's `jwks_uri`",
    requirements=("ARS-17",),
    profiles=("token",),
)
async def token_signature_is_verified(trial: Trial) -> None:
    """A token with another signature, or other claims under the old one: invalid_denial_binding."""
    denial, token, claims = await _signed(trial)
    renewed = {**claims, "jti": secrets.token_urlsafe(12)}
    for spoiled, what in (
        (jose.with_other_signature(token), "another signature"),
        (jose.with_other_claims(token, renewed), "other claims under the old signature"),
    ):
        refused(await trial.submit(denial, _with(denial, spoiled)), BINDING, f"a token with {what}")


@rule(
    "unsigned-token-is-refused",
    GROUP,
    "When `denial.binding_token` is present, the service MUST verify its integrity.",
    requirements=("ARS-18",),
    profiles=("token",),
)
async def unsigned_token_is_refused(trial: Trial) -> None:
    """`alg: none`: invalid_denial_binding."""
    denial, token, claims = await _signed(trial)
    refused(await trial.submit(denial, _with(denial, jose.unsigned(token, claims))), BINDING, "an unsigned token")


@rule(
    "own-key-is-refused",
    GROUP,
    "the service MUST verify the signature using a key resolved from the JWK Set advertised at the PDP's `jwks_uri`",
    requirements=("ARS-18",),
    profiles=("token",),
)
async def own_key_is_refused(trial: Trial) -> None:
    """A token signed with the key in its own header: invalid_denial_binding."""
    denial, token, claims = await _signed(trial)
    own = jose.with_own_key(token, claims)
    refused(await trial.submit(denial, _with(denial, own)), BINDING, "a token signed with the key in its header")


@rule(
    "token-outranks-id",
    GROUP,
    "When `denial.binding_token` is absent, the service MUST resolve or validate `denial.evaluation_id`",
    requirements=("ARS-13",),
    profiles=("token",),
)
async def token_outranks_id(trial: Trial) -> None:
    """A broken token beside a good evaluation id: invalid_denial_binding."""
    denial, token, _ = await _signed(trial)
    if denial.evaluation_id is None:
        raise NotApplicable("the denial has no evaluation_id")
    broken = _with(denial, jose.with_other_signature(token))
    broken["denial"]["evaluation_id"] = denial.evaluation_id
    refused(await trial.submit(denial, broken), BINDING, "a broken token beside a good evaluation_id")


@rule(
    "unknown-evaluation",
    GROUP,
    "The Access Request Service MUST be able to resolve or validate `evaluation_id` before relying on it "
    "as denial-binding material.",
    requirements=("ARS-28",),
)
async def unknown_evaluation(trial: Trial) -> None:
    """An evaluation id that nobody gave: invalid_denial_binding."""
    denial = await trial.denied()
    body = denial.body()
    body["denial"] = {"evaluation_id": f"{secrets.token_hex(16)}", "expires_at": denial.offer.get("expires_at")}
    refused(await trial.submit(denial, body), BINDING, "an evaluation_id that nobody gave")


@rule(
    "later-end-is-refused",
    GROUP,
    "the Access Request Service MUST verify that `denial.expires_at` matches the protected value before relying on it.",
    requirements=("ARS-31",),
    profiles=("token",),
)
async def later_end_is_refused(trial: Trial) -> None:
    """A later `denial.expires_at` than the protected one: invalid_denial_binding."""
    denial, _, claims = await _signed(trial)
    if "denial_expires_at" not in claims:
        raise NotApplicable("the token protects its own end, exp, and no end of the denial beside it")
    ends = instant(denial.offer.get("expires_at"))
    if ends is None:
        raise NotRun("the offer has no end to put off")
    body = denial.body()
    body["denial"]["expires_at"] = (ends + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    refused(await trial.submit(denial, body), BINDING, "a later denial.expires_at than the protected one")


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
    denial = await trial.denied()
    await trial.do("expire_denial", None)
    refused(await trial.submit(denial), "expired_denial", "a denial that is over")


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
    denial = await trial.denied()
    first = trial.accepted(await trial.submit(denial))
    answer = handled(await trial.submit(denial), "a token that was used before")
    again = answer.task if answer.is_success else None
    if again is not None and again.get("id") != first.id:
        raise NotKept("one binding token opened two tasks")


async def _changed(trial: Trial, part: str) -> None:
    """See that a submission of another subject, resource or action is refused, and one under another type."""
    denial = await trial.denied()
    await _differing(trial, denial, part, trial.other(denial, part)[part], f"another {part}")
    if part != "action":
        whole = denial.body()[part]
        await _differing(trial, denial, part, {**whole, "type": f"{whole.get('type')}-other"}, f"a {part} retyped")


async def _differing(trial: Trial, denial: Denial, part: str, other: Json, what: str) -> None:
    """See that a submission that differs in one part is refused."""
    answer = await trial.submit(denial, denial.body() | {part: other})
    if part != "subject" or answer.status != 403:  # who may not submit for that subject is told so first
        refused(answer, BINDING, what)


def bound_member(denial: Denial) -> str:
    """The first member of the question's context that is bound, as the token has it; else the first at all.

    Raises:
        NotRun: There is none.
    """
    context = list(denial.question.get("context", {}))
    try:
        members = jose.read(denial.token)[1].get("binding_context_members", [])
    except jose.Unreadable:
        members = context
    found = [name for name in context if name in members]
    if not found:
        raise NotRun("the question with_context has no member that is bound")
    return str(found[0])


async def _signed(trial: Trial) -> tuple[Denial, str, Json]:
    denial = await trial.denied()
    if denial.token is None:
        raise NotApplicable("the denial has no binding token")
    try:
        return denial, denial.token, jose.read(denial.token)[1]
    except jose.Unreadable as error:
        raise NotApplicable(f"the binding token is no JWS with JSON in it: {error}") from None


def _with(denial: Denial, token: str) -> Json:
    """A submission that rests on this token alone; what stands beside it is another check's question."""
    body = denial.body()
    body["denial"].pop("evaluation_id", None)
    body["denial"]["binding_token"] = token
    return body


def _replaced(body: Json, denial: Denial, other: Any) -> bool:
    """Put `other` where the question has the number 1, anywhere but in what is machinery."""
    for part in ("action", "resource", "subject", "context"):
        before = deepcopy(denial.question.get(part))
        if before is not None and (after := _exchanged(before, other)) is not None:
            body[part] = {**body[part], **after}
            return True
    return False


def _exchanged(value: Any, other: Any) -> Any:
    """The value with its first 1 exchanged; None when there is none."""
    if isinstance(value, bool):
        return None
    if value == 1 and isinstance(value, int):
        return other
    if isinstance(value, dict):
        for name, member in value.items():
            if (found := _exchanged(member, other)) is not None:
                return {**value, name: found}
    return None


CHECKS: Final[tuple[Check, ...]] = (
    changed_subject,
    changed_resource,
    changed_action,
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
