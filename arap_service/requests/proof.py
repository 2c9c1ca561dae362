"""Steps 6 to 12 of the submission pipeline: does the submission rest on a fresh, unused, requestable denial?

Authenticates the binding material (a signed token, or a denial on record) and has `domain/binding.py` judge it. It
spends nothing: that happens with the creation of the task, in one transaction (ARS-36). Catalogue section 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from arap_service.context import Context
from arap_service.domain.actors import Chain
from arap_service.domain.binding import (
    Claims,
    RecordedDenial,
    Submitted,
    VerifiedBinding,
    check_binding,
    check_freshness,
    claims_from,
)
from arap_service.domain.bulk_binding import check_bundle
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidDenialBinding, NotRequestable
from arap_service.domain.tool_calls import TOOL
from arap_service.keys import BINDING_TYP, TokenInvalid
from arap_service.protocol.arap import Denial
from arap_service.protocol.canonical import TOOL_CALL, Tuple4, arguments_hash, bound_context, prune_subject
from arap_service.protocol.canonical import digest as digest_of
from arap_service.protocol.sealing import SealBroken
from arap_service.records import recorded_denial
from arap_service.requests.intake import Bundle, Intake
from arap_service.store import tasks


@dataclass(frozen=True, slots=True)
class Proof:
    """A proven binding: what it covers, until when its marker must be remembered, and the token that it came from.

    `about` is what of the submission the denial proves; rules and automatic voices hear nothing else (ARS-20).
    `recorded_as` is the id of the evaluation if it was ours: what others call theirs may be a name of our records.
    """

    bound: VerifiedBinding
    about: Tuple4
    remember_until: datetime
    token: tuple[str, str] | None
    recorded_as: str | None


async def prove(ctx: Context, caller: Caller, intake: Intake, *, now: datetime) -> Proof:
    """The proof that `intake` may become a request.

    Raises:
        InvalidDenialBinding: The material is not authentic, or does not belong to this submission.
        NotRequestable: The evaluation was not denied requestably.
        ExpiredDenial: The denial is too old.
    """
    material = await _material(ctx, intake.denial)
    return _proof(ctx, intake, check_binding(_submitted(caller, intake), material), material, now=now)


async def prove_bundle(ctx: Context, caller: Caller, bundle: Bundle, *, now: datetime) -> tuple[Proof, ...]:
    """The proofs of all items in their order: all, or none (ARS-80).

    An item is proven by its own denial, and by that of the whole bundle where one item has none of its own.

    Raises:
        InvalidDenialBinding, NotRequestable, ExpiredDenial: As `prove`, for the first that fails.
    """
    covered: tuple[Proof, ...] = ()
    if bundle.covering is not None:
        material = await _material(ctx, bundle.covering)
        bindings = check_bundle(
            [replace(_submitted(caller, item), evaluation_id=bundle.covering.evaluation_id) for item in bundle.items],
            material,
        )
        covered = tuple(
            _proof(ctx, replace(item, denial=bundle.covering), bound, material, now=now)
            for item, bound in zip(bundle.items, bindings, strict=True)
        )
    return tuple(
        [
            await prove(ctx, caller, item, now=now) if is_own else covered[index]
            for index, (item, is_own) in enumerate(zip(bundle.items, bundle.own, strict=True))
        ]
    )


async def _material(ctx: Context, denial: Denial) -> Claims | RecordedDenial:
    # ARS-13: a token alone is the binding, whatever stands beside it.
    if denial.binding_token is not None:
        return await _claims(ctx, denial.binding_token)
    return await _recorded(ctx, str(denial.evaluation_id))


def _proof(
    ctx: Context, intake: Intake, bound: VerifiedBinding, proof: Claims | RecordedDenial, *, now: datetime
) -> Proof:
    _check_call(intake, bound)
    deadline = check_freshness(
        proof, echo=intake.denial.deadline, now=now, tolerance_seconds=ctx.settings.clock_skew_seconds
    )
    return Proof(
        bound,
        _proven(intake, bound),
        # Twice the tolerance, so that the memory outlasts the last instant at which the token could be accepted.
        deadline + timedelta(seconds=2 * ctx.settings.clock_skew_seconds + 1),
        (proof.issuer, proof.token_id) if isinstance(proof, Claims) else None,
        bound.evaluation_id if _is_ours(proof, identifier=ctx.settings.identifier) else None,
    )


def _is_ours(proof: Claims | RecordedDenial, *, identifier: str) -> bool:
    return isinstance(proof, RecordedDenial) or proof.issuer == identifier


async def _claims(ctx: Context, token: str) -> Claims:
    await ctx.trust.binding.prepare(token)
    try:
        verified = ctx.keys.verify(token, typ=BINDING_TYP, issuers=ctx.trust.binding)
    except TokenInvalid as invalid:
        ctx.log.info("binding_token_refused", code=invalid.code)
        raise InvalidDenialBinding from None
    if not _names_us(verified.get("aud"), ctx.settings.access_request_endpoint):  # ARS-19
        ctx.log.info("binding_token_refused", code="aud")
        raise InvalidDenialBinding
    # Without the signature, of which there may be several good ones over the same claims (ARS-36).
    return claims_from(verified, token_id=digest_of(token.rpartition(".")[0]))


def _names_us(audience: object, ours: str) -> bool:
    return audience == ours or (isinstance(audience, list) and ours in audience)


async def _recorded(ctx: Context, evaluation_id: str) -> RecordedDenial:
    if ctx.settings.independent:  # ARS-15: without shared state an id proves nothing
        raise InvalidDenialBinding("A binding token is required.")
    denial = await ctx.database.read(lambda session: tasks.find_denial(session, evaluation_id))
    if denial is None:
        if ctx.keys.evaluation_kind(evaluation_id) in {"permit", "deny"}:  # ARS-12
            raise NotRequestable
        raise InvalidDenialBinding
    try:
        return recorded_denial(denial, ctx.ring)
    except SealBroken:
        ctx.log.error("denial_unreadable", evaluation_id=evaluation_id)  # noqa: TRY400  # the code says it all
        raise InvalidDenialBinding from None


def _submitted(caller: Caller, intake: Intake) -> Submitted:
    described: Mapping[str, Any] = intake.body.get("client") or {}
    return Submitted(
        about=intake.about,
        client_id=caller.client_id,
        evaluation_id=intake.denial.evaluation_id,
        actor=described.get("actor"),
    )


def _check_call(intake: Intake, bound: VerifiedBinding) -> None:
    """What a reviewer will read must be what was bound: the arguments by their hash, the tool and server by name."""
    call, context = intake.call, intake.about.context
    if call is None:
        return
    resource = intake.about.resource
    if resource.get("type") == TOOL and resource.get("id") != call.tool:
        raise InvalidDenialBinding
    if "server" in bound.members and context.get("server") != call.server:
        raise InvalidDenialBinding
    if not call.complete:
        return
    if "arguments_hash" not in bound.members or context.get("arguments_hash") != arguments_hash(call.arguments):
        raise InvalidDenialBinding


def _proven(intake: Intake, bound: VerifiedBinding) -> Tuple4:
    subject = prune_subject(intake.about.subject)
    if "act" in intake.about.subject.get("properties", {}):
        subject["properties"] = {**subject.get("properties", {}), "act": _act(bound.actor)}
    context = bound_context(intake.about.context, bound.members)
    call = intake.call
    if call is not None and call.complete:
        context[TOOL_CALL] = intake.about.context[TOOL_CALL] if bound.is_call_proven else _call(intake, bound)
    return Tuple4(subject, intake.about.resource, intake.about.action, context)


def _act(chain: Chain) -> Mapping[str, Any] | None:
    """The chain as it was compared: what else its links said is not proven."""
    act: dict[str, Any] | None = None
    for issuer, subject in reversed(chain):
        link = {"sub": subject} if issuer is None else {"iss": issuer, "sub": subject}
        act = link if act is None else {**link, "act": act}
    return act


def _call(intake: Intake, bound: VerifiedBinding) -> Mapping[str, Any]:
    """A call as far as its parts are bound each by itself, for a token that does not bind it as it is shown."""
    assert intake.call is not None  # noqa: S101  # the caller has looked
    call: dict[str, Any] = {"arguments": dict(intake.call.arguments)}
    if intake.about.resource["type"] == TOOL:
        call["tool"] = intake.call.tool
    if "server" in bound.members:
        call["server"] = intake.call.server
    return call
