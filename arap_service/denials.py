"""Makes requestable denials: who may be offered one, the binding token, and the record of it.

An offer is withheld rather than made without proof: when the client may not request, asks too often, or nothing could
later bind the request to this evaluation. The denial itself is decided in `evaluation.py`. Access Request and Approval
Profile, "Requestable Denial Context", "Denial Binding Artifacts".
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.actors import ActorMalformed, Chain, agent_of, subject_chain
from arap_service.domain.binding import SHOWN_CALL
from arap_service.domain.callers import Caller
from arap_service.domain.input_faults import lacks_input
from arap_service.domain.policy import Policy, Question, Requestable, Template, may_submit
from arap_service.domain.tool_calls import shown_call
from arap_service.keys import BINDING_TYP, Use
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import (
    Tuple4,
    Unrepresentable,
    bindable_members,
    binding_hash,
    bound_context,
    prune_subject,
)
from arap_service.records import new_denial
from arap_service.short_tokens import RESERVE, is_readable, sign_short
from arap_service.store.database import StoreUnavailable, WriteSession
from arap_service.store.rows import add_row
from arap_service.store.tables import Denial


@dataclass(frozen=True, slots=True)
class Offer:
    """A requestable denial: the decision context to answer with, and the row to store before answering."""

    context: dict[str, Any]
    row: Denial


def prepare_offer(
    ctx: Context, caller: Caller, policy: Policy, *, about: Tuple4, requestable: Requestable, reason: str
) -> Offer | None:
    """An offer to request what was denied, or None when it must be withheld (PDP-37, PDP-39, PDP-47)."""
    question = Question(about.subject, about.resource, about.action, about.context, caller.client_id)
    if not may_submit(policy, caller.client_id, question):
        return None
    try:
        actor, shown = subject_chain(about.subject), shown_call(about.context)
    except (ActorMalformed, Unrepresentable):
        return None
    if ctx.rates.take("denial", caller.principal) is not None:
        ctx.log.warning("denial_withheld", cause="rate", client_id=caller.client_id)
        return None
    now = ctx.clock().replace(microsecond=0)
    denial = _Denied(
        about=about,
        members=tuple(bindable_members(about.context)),
        evaluation_id=ctx.keys.mint_evaluation_id("requestable"),
        reason=reason,
        template_id=requestable.template.id,
        agent=agent_of(about.context),
        actor=actor,
        shown_call=shown,
        now=now,
        expires_at=now + timedelta(seconds=requestable.template.denial_seconds),
    )
    token_id = ctx.new_id("jti")
    token = _sign(ctx, caller, denial, token_id=token_id)
    if not _can_be_requested(ctx, caller, token):
        return None
    row = new_denial(
        ctx.ring,
        evaluation_id=denial.evaluation_id,
        about=about,
        members=denial.members,
        client_id=caller.client_id,
        caller=caller.principal,
        template_id=denial.template_id,
        rule_id=requestable.rule_id,
        reason=reason,
        policy_version=policy.version,
        agent=denial.agent,
        jti=None if token is None else token_id,
        now=now,
        expires_at=denial.expires_at,
    )
    return Offer(_context(ctx, denial, requestable, token), row)


def _can_be_requested(ctx: Context, caller: Caller, token: str | None) -> bool:
    if token is None:
        return not ctx.settings.independent  # PDP-40: an independent service has nothing but the token
    if not is_readable(token, reserve=RESERVE):
        ctx.log.warning("denial_withheld", cause="length", client_id=caller.client_id)
        return False  # PDP-39: nobody could verify it, nor the approval that it leads to
    return True


async def issue_offer(
    ctx: Context, caller: Caller, policy: Policy, *, about: Tuple4, requestable: Requestable, reason: str
) -> Offer | None:
    """A recorded offer, or None when it must be withheld or cannot be recorded."""
    offer = prepare_offer(ctx, caller, policy, about=about, requestable=requestable, reason=reason)
    if offer is None:
        return None
    try:
        await ctx.database.write(lambda session: record_offer(session, offer))
    except StoreUnavailable as error:
        ctx.log.warning("denial_withheld", cause=error.reason, client_id=caller.client_id)
        return None
    ctx.log.info("denial_issued", evaluation_id=offer.row.evaluation_id, client_id=caller.client_id)
    return offer


def plain_denial(ctx: Context, reason: str, **members: Any) -> dict[str, Any]:
    """The response of a denial that nobody can request; it is not recorded."""
    context = {"evaluation_id": ctx.keys.mint_evaluation_id("deny"), "reason": reason, **members}
    return {"decision": False, "context": context}


def record_offer(session: WriteSession, offer: Offer) -> None:
    """Store the denial and its audit entry within the caller's transaction."""
    row = offer.row
    add_row(session, row)
    audit.append(
        session,
        row.evaluation_id,
        kind="denied_requestable",
        actor=row.caller,
        detail={
            "client_id": row.client_id,
            "policy_version": row.policy_version,
            "reason": row.reason,
            "rule_id": row.rule_id,
            "template": row.template_id,
        },
        now=row.evaluated_at,
        evaluation_id=row.evaluation_id,
        opens_chain=True,
    )


@dataclass(frozen=True, slots=True)
class _Denied:
    about: Tuple4
    members: tuple[str, ...]
    evaluation_id: str
    reason: str
    template_id: str
    agent: str | None
    actor: Chain
    shown_call: str
    now: datetime
    expires_at: datetime


def _sign(ctx: Context, caller: Caller, denied: _Denied, *, token_id: str) -> str | None:
    about = denied.about
    claims: dict[str, Any] = {
        "iss": ctx.settings.identifier,
        "aud": ctx.settings.offered_endpoint,
        "iat": int(denied.now.timestamp()),
        "exp": int(denied.expires_at.timestamp()),
        "jti": token_id,
        "denial_expires_at": format_instant(denied.expires_at),  # PDP-51
        "evaluation_id": denied.evaluation_id,
        "binding_context_members": list(denied.members),
        "binding_hash": binding_hash(*about, denied.members),
        "subject": prune_subject(about.subject),
        "resource": about.resource,
        "action": about.action,
        "context": bound_context(about.context, denied.members),
        SHOWN_CALL: denied.shown_call,
        "client_id": caller.client_id,
        "template": denied.template_id,
        "reason": denied.reason,
    }
    if denied.agent is not None:
        claims["agent"] = denied.agent
    if denied.actor:
        claims["actor"] = [{"sub": sub} if iss is None else {"iss": iss, "sub": sub} for iss, sub in denied.actor]
    try:
        return sign_short(ctx.keys, Use.BINDING, claims, BINDING_TYP, reserve=RESERVE)
    except RuntimeError:
        ctx.log.exception("binding_token_not_signed")
        return None


def _context(ctx: Context, denied: _Denied, requestable: Requestable, token: str | None) -> dict[str, Any]:
    template = requestable.template
    request: dict[str, Any] = {
        "endpoint": ctx.settings.offered_endpoint,
        "template": template.id,
        "expires_at": format_instant(denied.expires_at),
        "display": {"title": template.title, "description": template.explanation},
    }
    if token is not None:
        request["binding_token"] = token
    if template.request_schema is not None:
        request["request_schema_url"] = request_schema_url(ctx.settings.identifier, template.id)  # PDP-46
        if template.catalogs:  # PDP-45, ARS-112
            request["request_catalogs_url"] = catalogs_url(
                ctx.settings.identifier, template.id, evaluation_id=denied.evaluation_id
            )
        if _has_form(ctx, denied, template):
            request["form_url"] = form_url(ctx.settings.identifier, denied.evaluation_id)  # PDP-45
    return {
        "evaluation_id": denied.evaluation_id,
        "evaluated_at": format_instant(denied.now),
        "reason": denied.reason,
        "access_request": request,
    }


def _has_form(ctx: Context, denied: _Denied, template: Template) -> bool:
    """Whether the requester is asked for what the denied evaluation lacks; another service would not know of it."""
    if not template.form or template.request_schema is None or ctx.settings.request_endpoint is not None:
        return False
    return lacks_input(template.request_schema, denied.about.context)


def form_url(identifier: str, evaluation_id: str) -> str:
    """Where the requester may fill in what this denial lacks."""
    return f"{identifier}/desk/forms/{evaluation_id}"


def request_schema_url(identifier: str, template_id: str) -> str:
    """Where the request schema of a template is published."""
    return f"{identifier}/access/v1/request-schemas/{template_id}"


def catalogs_url(identifier: str, template_id: str, *, evaluation_id: str) -> str:
    """Where it is said which fields are chosen from which catalog, for this denial."""
    return f"{identifier}/access/v1/request-catalogs/{template_id}?{urlencode({'evaluation_id': evaluation_id})}"
