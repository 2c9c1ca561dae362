"""Whether a submission belongs to the denial it names, and whether that denial is still fresh.

Decides steps 8 to 11 of the submission pipeline from material that somebody else has authenticated: the claims of a
token whose signature, issuer and audience are verified (`keys.py`), or the record of a denial from our own store. It
does not spend the token (ARS-36) and does not judge the caller. Profile, "Verifying the Denial Binding", "Structural
Comparison".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NewType

from arap_service.domain.actors import ActorMalformed, Chain, agent_of, chain_of, subject_chain
from arap_service.domain.errors import ExpiredDenial, InvalidDenialBinding
from arap_service.domain.scopes import read_widening
from arap_service.domain.tool_calls import shown_call
from arap_service.protocol.arap import parse_instant
from arap_service.protocol.bundles import Pair
from arap_service.protocol.canonical import (
    Tuple4,
    Unrepresentable,
    accepted_binding_hashes,
    bound_context,
    prune_subject,
    same_json,
    same_tuple,
)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a verified token as far as they bind; None stands for a claim that the token lacks.

    `token_id` is the `jti`, or what the caller passed in its place; together with `issuer` it names the token for good.
    `shown_call` is what `tool_calls.shown_call` said of the evaluation; other decision points do not claim it.
    """

    issuer: str
    token_id: str
    expires_at: datetime | None
    denial_expires_at: datetime | None
    evaluation_id: str | None
    members: tuple[str, ...] | None
    binding_hash: str | None
    subject: Mapping[str, Any] | None
    resource: Mapping[str, Any] | None
    action: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    approval_id: str | None = None
    task_id: str | None = None
    template: str | None = None
    client_id: str | None = None
    agent: str | None = None
    actor: Chain | None = None
    issued_at: datetime | None = None
    shown_call: str | None = None
    items: tuple[Pair, ...] | None = None
    may_vary: tuple[str, ...] = ()
    within: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedDenial:
    """A requestable denial as our decision point recorded it."""

    evaluation_id: str
    expires_at: datetime
    about: Tuple4
    members: tuple[str, ...]
    client_id: str
    template: str
    reason: str
    token_issued: bool = True
    agent: str | None = None
    actor: Chain = ()


@dataclass(frozen=True, slots=True)
class Submitted:
    """What a submission says about itself: the four objects, the echoed evaluation id, and the actor it claims.

    `client_id` is the authenticated client, never a label; `actor` the content of `client.actor`.
    """

    about: Tuple4
    client_id: str
    evaluation_id: str | None = None
    actor: object = None


@dataclass(frozen=True, slots=True)
class Bound:
    """What a binding is worth once it is proven: the bound set and where it came from.

    `is_call_proven` says that the call of the submission, title and all, is the one that was evaluated.
    """

    about: Tuple4
    members: tuple[str, ...]
    evaluation_id: str | None
    template: str | None
    agent: str | None
    actor: Chain
    is_call_proven: bool


VerifiedBinding = NewType("VerifiedBinding", Bound)


WIDENED: Final = "urn:x-arap:scope"
"""Our own claim of an approval: the members that may vary, and the bound within which; who ignores it reads less."""
SHOWN_CALL: Final = "shown_call"
"""Our own claim: `arguments_hash` binds the arguments, and this binds what rules and reviewers are shown of them."""


class _ClaimMisshapen(ValueError):
    """A claim has another JSON type than it must; the message is its name."""


def claims_from(payload: Mapping[str, Any], *, token_id: str) -> Claims:
    """The binding claims of a verified payload; `token_id` replaces a missing `jti`.

    Raises:
        InvalidDenialBinding: if a claim that would bind has the wrong shape.
    """
    try:
        return Claims(
            issuer=_text(payload, "iss") or "",
            token_id=_text(payload, "jti") or token_id,
            expires_at=_numeric_date(payload, "exp"),
            denial_expires_at=_instant(payload, "denial_expires_at"),
            evaluation_id=_text(payload, "evaluation_id"),
            members=_names(payload, "binding_context_members"),
            binding_hash=_text(payload, "binding_hash"),
            subject=_object(payload, "subject"),
            resource=_object(payload, "resource"),
            action=_object(payload, "action"),
            context=_object(payload, "context"),
            approval_id=_text(payload, "approval_id"),
            task_id=_text(payload, "task_id"),
            template=_text(payload, "template"),
            client_id=_text(payload, "client_id"),
            agent=_text(payload, "agent"),
            actor=_chain(payload),
            issued_at=_numeric_date(payload, "iat"),
            shown_call=_text(payload, SHOWN_CALL),
            items=_items(payload),
            **read_widening(payload.get(WIDENED)),
        )
    except ValueError:
        raise InvalidDenialBinding from None


def check_binding(submitted: Submitted, proof: Claims | RecordedDenial) -> VerifiedBinding:
    """Prove that `submitted` is about what was denied.

    Raises:
        InvalidDenialBinding: if it is not, or if the proof does not cover all that it must.
    """
    try:
        actor = submitted_actor(submitted)
        if isinstance(proof, Claims):
            return _check_claims(submitted, proof, actor)
        return _check_record(submitted, proof, actor)
    except (ActorMalformed, Unrepresentable):
        raise InvalidDenialBinding from None


def check_freshness(
    proof: Claims | RecordedDenial, *, echo: datetime, now: datetime, tolerance_seconds: int
) -> datetime:
    """The deadline of the denial, which has not passed; `echo` is the submission's `denial.expires_at`.

    Raises:
        InvalidDenialBinding: if nothing protects a deadline, or the echo contradicts what is protected.
        ExpiredDenial: if the deadline plus the tolerance for clocks has passed.
    """
    if isinstance(proof, RecordedDenial):
        deadline = proof.expires_at  # ARS-28: the record governs, not the echo
    else:
        if proof.denial_expires_at is not None:
            if proof.denial_expires_at != echo:  # ARS-31
                raise InvalidDenialBinding
        elif proof.expires_at is None or proof.expires_at > echo:  # ARS-32
            raise InvalidDenialBinding
        deadline = min(at for at in (proof.expires_at, echo) if at is not None)  # ARS-30
    if now > deadline + timedelta(seconds=tolerance_seconds):
        raise ExpiredDenial
    return deadline


def fixes_tuple(claims: Claims) -> bool:
    """Whether the claims fix subject, resource, action and bound context, inline or by their hash."""
    inline = (claims.subject, claims.resource, claims.action)
    is_inline = all(part is not None for part in inline) and (not claims.members or claims.context is not None)
    return is_inline or claims.binding_hash is not None


def covers(claims: Claims, about: Tuple4) -> bool:
    """Whether `about` agrees with everything that the claims fix, inline and hashed (ARS-20, ARS-21).

    Raises:
        Unrepresentable: if `about` holds numbers that nothing can bind.
    """
    members = claims.members or ()
    if claims.items is not None:  # it is about a bundle; see `bulk_binding.py`
        return False
    if claims.binding_hash is not None and claims.binding_hash not in accepted_binding_hashes(
        *about, members
    ):  # ARS-25
        return False
    if claims.resource is not None and not same_json(dict(claims.resource), dict(about.resource)):
        return False
    if claims.action is not None and not same_json(dict(claims.action), dict(about.action)):
        return False
    return covers_surroundings(claims, about)


def covers_surroundings(claims: Claims, about: Tuple4) -> bool:
    """Whether subject and bound context of `about` are those that the claims say inline, if they do.

    Raises:
        Unrepresentable: as `covers`.
    """
    members = claims.members or ()
    if claims.subject is not None and not same_json(prune_subject(claims.subject), prune_subject(about.subject)):
        return False
    return claims.context is None or same_json(
        bound_context(claims.context, members), bound_context(about.context, members)
    )


def claimed_actor(claims: Claims) -> Chain:
    """The chain of actors of what was denied or approved, from its own claim or from the inline subject.

    Raises:
        ActorMalformed: if the inline subject carries something else.
    """
    if claims.actor is not None:
        return claims.actor
    return () if claims.subject is None else subject_chain(claims.subject)


def _check_claims(submitted: Submitted, claims: Claims, actor: Chain) -> VerifiedBinding:
    if not fixes_tuple(claims) or not covers(claims, submitted.about):
        raise InvalidDenialBinding
    check_parties(submitted, claims, actor)
    return verified(submitted, claims, actor)


def check_parties(submitted: Submitted, claims: Claims, actor: Chain) -> None:
    """Check that evaluation, actor, client and shown call of a submission are those of its token.

    Raises:
        InvalidDenialBinding: One of them is not.
        ActorMalformed: The inline subject carries something else than a chain.
    """
    echoed = submitted.evaluation_id
    if claims.evaluation_id is not None and echoed is not None and echoed != claims.evaluation_id:  # ARS-14
        raise InvalidDenialBinding
    _check_actor(submitted, claims.agent, claimed_actor(claims), actor)
    if claims.client_id is not None and claims.client_id != submitted.client_id:  # a stolen token is of no use
        raise InvalidDenialBinding
    if claims.shown_call is not None:
        _check_shown_call(submitted, claims.shown_call)


def verified(submitted: Submitted, claims: Claims, actor: Chain) -> VerifiedBinding:
    """The binding of a submission that has passed every check against `claims`."""
    return VerifiedBinding(
        Bound(
            submitted.about,
            claims.members or (),
            claims.evaluation_id,
            claims.template,
            claims.agent,
            actor,
            is_call_proven=claims.shown_call is not None,
        )
    )


def _check_record(submitted: Submitted, record: RecordedDenial, actor: Chain) -> VerifiedBinding:
    if record.token_issued:  # ARS-15: the enforcement point was given a token and dropped it
        raise InvalidDenialBinding
    if record.client_id != submitted.client_id:  # ARS-29
        raise InvalidDenialBinding
    if not same_tuple(record.about, submitted.about, record.members):
        raise InvalidDenialBinding
    _check_actor(submitted, record.agent, record.actor, actor)
    _check_shown_call(submitted, shown_call(record.about.context))
    return VerifiedBinding(
        Bound(
            submitted.about,
            record.members,
            record.evaluation_id,
            record.template,
            record.agent,
            actor,
            is_call_proven=True,
        )
    )


def _check_shown_call(submitted: Submitted, denied: str) -> None:
    # ARS-20, X-42: a call left out, cut short or reworded would be approved by people who were shown another one.
    if shown_call(submitted.about.context) != denied:
        raise InvalidDenialBinding


def _check_actor(submitted: Submitted, agent: str | None, denied: Chain, actor: Chain) -> None:
    # ARS-102: the comparison above excludes `act`, so a dropped or exchanged actor shows only here.
    if actor != denied or (agent is not None and agent_of(submitted.about.context) != agent):
        raise InvalidDenialBinding


def submitted_actor(submitted: Submitted) -> Chain:
    """The chain of actors that a submission claims, in the subject or beside it.

    Raises:
        ActorMalformed: It is no chain, or there are two.
    """
    kept = subject_chain(submitted.about.subject)
    moved = chain_of(submitted.actor)
    if kept and moved and kept != moved:
        raise ActorMalformed
    return kept or moved


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise _ClaimMisshapen(name)
    return value


def _object(payload: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = payload.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise _ClaimMisshapen(name)
    return value


def _names(payload: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = payload.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _ClaimMisshapen(name)
    return tuple(value)


def _items(payload: Mapping[str, Any]) -> tuple[Pair, ...] | None:
    value = payload.get("items")
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(item, Mapping) for item in value):
        raise _ClaimMisshapen("items")
    pairs = [(_object(item, "resource"), _object(item, "action")) for item in value]
    whole = [(resource, action) for resource, action in pairs if resource is not None and action is not None]
    if len(whole) < len(value):
        raise _ClaimMisshapen("items")
    return tuple(whole)


def _numeric_date(payload: Mapping[str, Any], name: str) -> datetime | None:
    value = payload.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _ClaimMisshapen(name)
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, OSError):
        raise _ClaimMisshapen(name) from None


def _instant(payload: Mapping[str, Any], name: str) -> datetime | None:
    value = _text(payload, name)
    return None if value is None else parse_instant(value)


def _chain(payload: Mapping[str, Any]) -> Chain | None:
    value = payload.get("actor")
    if value is None:
        return None
    if not isinstance(value, list):
        raise _ClaimMisshapen("actor")
    return tuple(pair for link in value for pair in chain_of(link))
