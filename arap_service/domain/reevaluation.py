"""What an approval is worth in a fresh decision: applicable or not, and what the enforcement point does next.

An approval is one input beside what the rules say now; it never overrides a plain deny (PDP-70), and evaluating
consumes nothing (PDP-07). The record comes from the store, the claims from `keys.py`; nothing the caller wrote into
the envelope but the identifier is believed (PDP-64). Profile, "Verify the Approval", "Approval Scope", "Deny a
Re-evaluation".
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from arap_service.domain.actors import ActorMalformed, Chain, agent_of, subject_chain
from arap_service.domain.binding import Claims, claimed_actor, covers, fixes_tuple
from arap_service.domain.policy import Deny, Judgement, Permit, Question, Requestable
from arap_service.domain.scopes import same_but
from arap_service.domain.tool_calls import is_call
from arap_service.protocol.arap import NextAction
from arap_service.protocol.canonical import Tuple4, Unrepresentable

DEFAULT_RETRY_SECONDS: Final = 5
Bound = Callable[[str], bool]
"""Whether a condition holds of the question; what cannot be evaluated does not."""


def _nothing_is(_: str) -> bool:
    return False


class Reason(StrEnum):
    """The registered reasons of a denied re-evaluation, the earlier one outranking the later (PDP-74)."""

    UNVERIFIABLE = "approval_unverifiable"
    EXPIRED = "approval_expired"
    OUT_OF_SCOPE = "out_of_scope"
    GRANT_PENDING = "grant_pending"
    POLICY_DENIED = "policy_denied"


class ApprovalStatus(StrEnum):
    """Whether an approval is in force; its expiry is a matter of time and not of status."""

    ACTIVE = "active"
    REVOKED = "revoked"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class PresentedApproval:
    """What of `context.approval` is looked at: the identifier and the signed state."""

    id: str
    state: str | None


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval as the request service recorded it, with the scope that it covers.

    `may_vary` are the members in which a question may differ, if `within` holds of it.
    """

    id: str
    task_id: str
    evaluation_id: str | None
    status: ApprovalStatus
    approved_until: datetime
    about: Tuple4
    members: tuple[str, ...]
    client_id: str
    template: str
    agent: str | None = None
    actor: Chain = ()
    may_vary: tuple[str, ...] = ()
    within: str | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """A presented state that does not verify; the code is for the log and never goes to the caller."""

    code: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision, and for a denial its reason and what to do next; `retry_after` in seconds.

    `approval_id` and `approved_until` are set when the decision relies on the approval; `finding` is what the approval
    was found to be, for the audit, even where standing policy permits anyway.
    """

    decision: bool
    finding: str
    reason: Reason | None = None
    next_action: NextAction | None = None
    retry_after: int | None = None
    approval_id: str | None = None
    approved_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Applicable:
    until: datetime


def present(value: Any) -> PresentedApproval | None:
    """`context.approval` as far as it is looked at, or None when it has no usable shape."""
    if not isinstance(value, dict):
        return None
    name, state = value.get("id"), value.get("state")
    if not isinstance(name, str) or not name or not isinstance(state, str | None):
        return None
    return PresentedApproval(name, state)


def judge_approval(
    question: Question,
    approval: PresentedApproval | None,
    *,
    record: ApprovalRecord | None,
    state: Claims | Invalid | None,
    standing: Judgement,
    provisioned: bool | None,
    now: datetime,
    signed_only_seconds: int,
    is_within: Bound = _nothing_is,
) -> Verdict:
    """The decision on a question that presents an approval; `approval` is None when it is malformed.

    `signed_only_seconds` caps how long a state without a record of ours is honoured, since nobody can revoke it
    (PDP-66). `is_within` says whether the bound of a widened scope holds of the question.
    """
    if approval is None:
        return _denied(Reason.UNVERIFIABLE, standing)  # PDP-76
    if isinstance(state, Claims) and state.approval_id is not None and state.approval_id != approval.id:
        return _denied(Reason.UNVERIFIABLE, standing)  # PDP-62: even where standing policy would permit
    found = _examine(
        question,
        record=record,
        state=state,
        standing=standing,
        now=now,
        signed_only_seconds=signed_only_seconds,
        is_within=is_within,
    )
    if isinstance(found, Reason):
        if isinstance(standing, Permit):
            return Verdict(True, found.value)  # PDP-63: judged as if the reference were absent
        return _denied(found, standing)
    if isinstance(standing, Permit):
        return Verdict(True, "applicable", approval_id=approval.id, approved_until=found.until)
    if provisioned is False:
        return _denied(Reason.GRANT_PENDING, standing)
    if isinstance(standing, Deny):
        return _denied(Reason.POLICY_DENIED, standing)
    return Verdict(True, "applicable", approval_id=approval.id, approved_until=found.until)


def _denied(reason: Reason, standing: Judgement) -> Verdict:
    requestable = isinstance(standing, Requestable)
    if reason is Reason.GRANT_PENDING:
        seconds = standing.template.provisioned_retry_seconds if isinstance(standing, Requestable) else None
        return Verdict(False, reason.value, reason, "retry", retry_after=seconds or DEFAULT_RETRY_SECONDS)  # PDP-73
    if requestable and reason in {Reason.EXPIRED, Reason.OUT_OF_SCOPE}:
        return Verdict(False, reason.value, reason, "request")
    return Verdict(False, reason.value, reason, "none")


def _examine(
    question: Question,
    *,
    record: ApprovalRecord | None,
    state: Claims | Invalid | None,
    standing: Judgement,
    now: datetime,
    signed_only_seconds: int,
    is_within: Bound,
) -> _Applicable | Reason:
    """Whether the approval applies, and until when, in the order of precedence of the reasons."""
    if isinstance(state, Invalid) or (record is None and state is None):
        return Reason.UNVERIFIABLE
    if record is not None and not _is_about_same_subject(record, question):
        return Reason.UNVERIFIABLE  # PDP-77: a foreign approval looks like one that never was
    if state is not None and not _is_complete(state):
        return Reason.UNVERIFIABLE  # PDP-69: without the tuple nobody can tell its scope
    until = _until(record, state, signed_only_seconds)
    if until is None:
        return Reason.UNVERIFIABLE
    if now >= until or (record is not None and record.status is not ApprovalStatus.ACTIVE):
        return Reason.EXPIRED  # PDP-65
    try:
        in_scope = (record is None or _is_in_scope(record, question, standing, is_within)) and (
            state is None or _is_in_signed_scope(state, question, standing, is_within)
        )
    except (ActorMalformed, Unrepresentable):
        return Reason.OUT_OF_SCOPE
    return _Applicable(until) if in_scope else Reason.OUT_OF_SCOPE


def _is_about_same_subject(record: ApprovalRecord, question: Question) -> bool:
    approved = record.about.subject
    return all(approved.get(name) == question.subject.get(name) for name in ("type", "id"))


def _is_complete(state: Claims) -> bool:
    return state.approval_id is not None and state.client_id is not None and fixes_tuple(state)


def _until(record: ApprovalRecord | None, state: Claims | None, signed_only_seconds: int) -> datetime | None:
    if record is not None:
        return record.approved_until
    if state is None or state.expires_at is None or state.issued_at is None:
        return None
    return min(state.expires_at, state.issued_at + timedelta(seconds=signed_only_seconds))


def _is_in_scope(record: ApprovalRecord, question: Question, standing: Judgement, is_within: Bound) -> bool:
    return (
        _is_same_route(record.template, standing)
        and record.client_id == question.client_id  # ARS-70: the client, not one of its instances
        and record.agent == agent_of(question.context)
        and record.actor == subject_chain(question.subject)
        and _covers_arguments(record.members, question)
        and same_but(record.about, _about(question), record.members, may_vary=record.may_vary)  # PDP-67
        and (record.within is None or is_within(record.within))
    )


def _is_in_signed_scope(state: Claims, question: Question, standing: Judgement, is_within: Bound) -> bool:
    return (
        _is_same_route(state.template, standing)
        and state.client_id == question.client_id
        and (state.agent is None or state.agent == agent_of(question.context))
        and claimed_actor(state) == subject_chain(question.subject)
        and _covers_arguments(state.members or (), question)
        and _is_covered(state, _about(question))
        and (state.within is None or is_within(state.within))
    )


def _is_covered(state: Claims, about: Tuple4) -> bool:
    if not state.may_vary:
        return covers(state, about)
    if state.items is not None or state.subject is None or state.resource is None or state.action is None:
        return False  # of a hash nobody can tell what it would be without some members
    approved = Tuple4(state.subject, state.resource, state.action, state.context or {})
    return same_but(approved, about, state.members or (), may_vary=state.may_vary)


def _covers_arguments(members: Collection[str], question: Question) -> bool:
    # X-02, PDP-56: what was approved without a look at arguments must not cover whichever come.
    is_about_call = is_call(question.context, resource_type=question.resource["type"])
    return not is_about_call or "arguments_hash" in members


def _is_same_route(template: str | None, standing: Judgement) -> bool:
    # An approval won in one workflow says nothing about another that the rules demand by now.
    return template is None or not isinstance(standing, Requestable) or standing.template.id == template


def _about(question: Question) -> Tuple4:
    return Tuple4(question.subject, question.resource, question.action, question.context)
