"""Standing rules: "always decide like this", proposed by a reviewer, confirmed by an administrator, for a while.

A rule is a voice of its template that says yes to later requests that are the same but for what may vary; it decides
like an evaluator, so that a rule of the file that denies or holds wins, and it is recorded as one. It never is an
approval that could be used again. Whoever proposes has had a part in deciding; whoever confirms is somebody else; and
neither may be who is served by it. See design.md section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from pydantic import JsonValue
from sqlmodel import Session

from arap_service import audit
from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    NotFound,
    UnknownTask,
)
from arap_service.domain.reviewers import RequestFacts
from arap_service.domain.visible import visible
from arap_service.protocol.arap import parse_instant
from arap_service.records import Part, task_seal, tuple_of
from arap_service.requests.decisions import find_part, step_up_fault
from arap_service.requests.endings import record
from arap_service.requests.grounds import grounds_of
from arap_service.requests.standing_makers import Maker, missing_maker
from arap_service.requests.standing_voices import opened, widest
from arap_service.requests.telling import effect_sentence, names_of_marks
from arap_service.requests.voters import Decider, barred, barred_from_likes, board_of, decider_of, may_see
from arap_service.sealed import RowSeal
from arap_service.store import rules, tasks, votes
from arap_service.store.database import WriteSession
from arap_service.store.rule_tables import StandingRule
from arap_service.views import Page

CHAIN: Final = "standing_rules"
SAME: Final = "same_person"
State = Literal["proposed", "active", "expired", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleView:
    """One standing rule; `effect` is the sentence of the request that it was made of.

    `status` is proposed, active, expired or ended; `why_not` the code of the rule by which the reader may not confirm.
    `suspended` says for whom an active one is silent: its proposer or confirmer, who may not do that any more.
    """

    id: str
    status: State
    suspended: Maker | None
    template_id: str
    template_title: str
    effect: str
    subject: str
    resource: str
    action: str
    client_id: str
    agent: str | None
    may_vary: tuple[str, ...]
    days: int
    request_id: str
    proposed_by: str
    proposed_at: datetime
    confirmed_by: str | None
    confirmed_at: datetime | None
    expires_at: datetime | None
    ended_by: str | None
    ended_at: datetime | None
    uses: int
    last_used_at: datetime | None
    may_confirm: bool
    why_not: str | None
    may_end: bool


async def propose_rule(
    ctx: Context,
    caller: Caller,
    task_id: str,
    *,
    item: int | None = None,
    may_vary: Sequence[str] = (),
    days: int | None = None,
) -> RuleView:
    """Propose that requests like this one be approved at once; nothing is in force by that.

    Raises:
        UnknownTask: There is no such request for this caller.
        Forbidden, IneligibleApprover: He has no part in deciding it, or it serves himself.
        StepUpRequired: He may, after a fresh log-in.
        InvalidTaskState: It was not approved, or that was taken back.
        InvalidRequest, InputInvalid: Its template has no standing rules, or not such wide or long ones.
    """
    rule_id = ctx.new_id("rule")

    def work(session: WriteSession) -> ArapError | None:
        task = tasks.find_task(session, task_id)
        decider = decider_of(session, caller, grounds_of(ctx))
        if task is None or ctx.clock() >= task.expires_at or not may_see(caller, board_of(session, task), decider):
            return UnknownTask()
        if not caller.may(Scope.APPROVAL_RESOLVE):
            return Forbidden(scope=Scope.APPROVAL_RESOLVE)
        part = find_part(session, task, item)
        if part is None:
            return InvalidRequest("The item is to be named: one of this request, counted from 1.", pointer="/item")
        approval = votes.approval_of(session, task.id, item=part.item)
        if part.own.status != "approved" or approval is None or approval.status == "revoked":
            return InvalidTaskState("Only what was approved can be a rule.", current=part.own.status)
        code = barred_from_likes(board_of(session, task).of(part.item), decider)
        if code is not None:
            return IneligibleApprover(code=code)
        if fault := step_up_fault(caller, decider, part.own.template.get("step_up"), now=ctx.clock()):
            return fault
        wide = (approval.scope or {}).get("may_vary", ())
        return _propose(ctx, session, part, decider, _Wish(rule_id, tuple(may_vary), days, tuple(wide)))

    fault = await ctx.database.write(work)
    if fault is not None:
        raise fault
    ctx.log.info("standing_rule_proposed", rule_id=rule_id, task_id=task_id)
    return await _viewed(ctx, caller, rule_id)


async def confirm_rule(ctx: Context, caller: Caller, rule_id: str) -> RuleView:
    """Put a proposed rule into force, as an administrator who neither proposed it nor is served by it.

    Raises:
        Forbidden, IneligibleApprover: The caller may not.
        StepUpRequired: He may, after a fresh log-in.
        NotFound: There is no such rule.
        InvalidTaskState: It is in force or ended already, or its template has no standing rules any more.
    """
    caller.require(Scope.ADMIN)

    def work(session: WriteSession) -> ArapError | None:
        rule, decider, now = (
            rules.find_rule(session, rule_id),
            decider_of(session, caller, grounds_of(ctx)),
            ctx.clock(),
        )
        if rule is None:
            return NotFound()
        code = _why_not(ctx, rule, decider)
        if code is not None:
            _note(session, rule, "rule_refused", decider.actor, {"code": code}, now=now)
            return IneligibleApprover(code=code)
        template = ctx.policy.current().templates.get(rule.template_id)
        cap = 0 if template is None else template.standing_days
        if not cap:
            return InvalidTaskState("The rules file allows no standing rules of this kind any more.")
        if fault := step_up_fault(caller, decider, None if template is None else template.step_up, now=now):
            return fault
        days = min(rule.days, cap)
        if not rules.confirm_rule(session, rule, by=decider.actor, via=caller.channel, at=now, days=days):
            return InvalidTaskState("The rule is no proposal any more.", current=rule.status)
        _note(session, rule, "rule_confirmed", decider.actor, {"days": days}, now=now)
        return None

    fault = await ctx.database.write(work)
    if fault is not None:
        raise fault
    ctx.log.info("standing_rule_confirmed", rule_id=rule_id)
    return await _viewed(ctx, caller, rule_id)


async def end_rule(ctx: Context, caller: Caller, rule_id: str) -> RuleView:
    """End a rule or proposal at once: an administrator may, and whoever proposed or confirmed it.

    Raises:
        NotFound: There is no such rule, or none that the caller may end.
        InvalidTaskState: It has ended already.
    """

    def work(session: WriteSession) -> ArapError | None:
        rule, decider, now = (
            rules.find_rule(session, rule_id),
            decider_of(session, caller, grounds_of(ctx)),
            ctx.clock(),
        )
        if rule is None or not _may_end(caller, decider, rule):
            return NotFound()
        if not rules.end_rule(session, rule_id, by=decider.actor, at=now):
            return InvalidTaskState("The rule has ended already.", current=rule.status)
        _note(session, rule, "rule_ended", decider.actor, {"uses": rule.uses}, now=now)
        return None

    fault = await ctx.database.write(work)
    if fault is not None:
        raise fault
    ctx.log.info("standing_rule_ended", rule_id=rule_id)
    return await _viewed(ctx, caller, rule_id)


async def list_rules(
    ctx: Context, caller: Caller, *, status: State | None = None, after: str | None = None, limit: int = 50
) -> Page[RuleView]:
    """Rules and proposals, the newest first.

    Raises:
        Forbidden: The caller may not read requests.
        InvalidRequest: The cursor is not one of this list.
    """
    if not caller.may(Scope.ADMIN):
        caller.require(Scope.APPROVAL_READ)
    place: tuple[datetime, str] | None = None
    if after is not None:
        at, rule_id = read_cursor(after, "rules", str, str)
        try:
            place = (parse_instant(str(at)), str(rule_id))
        except ValueError:
            raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor") from None

    def read(session: Session) -> Page[RuleView]:
        found = rules.rules_page(session, status=status, now=ctx.clock(), after=place, limit=limit + 1)
        shown = found[:limit]
        more = cursor("rules", shown[-1].proposed_at.isoformat(), shown[-1].id) if len(found) > limit else None
        decider = decider_of(session, caller, grounds_of(ctx))
        return Page(tuple(_view(ctx, session, caller, decider, rule) for rule in shown), more)

    return await ctx.database.read(read)


@dataclass(frozen=True, slots=True)
class _Wish:
    rule_id: str
    may_vary: tuple[str, ...]
    days: int | None
    allowed: tuple[str, ...]  # what whoever approved has left wide


def _propose(ctx: Context, session: WriteSession, part: Part, decider: Decider, wish: _Wish) -> ArapError | None:
    own, task, now = part.own, part.task, ctx.clock()
    template = ctx.policy.current().templates.get(own.template_id)
    if template is None or not template.standing_days or own.template.get("emergency"):
        return InvalidRequest("Requests of this kind are decided one by one.")
    errors = [
        {"pointer": f"/may_vary/{index}", "code": "not_allowed"}
        for index, pointer in enumerate(wish.may_vary)
        if pointer not in widest(template) or pointer not in wish.allowed
    ]
    days = template.standing_days if wish.days is None else wish.days
    if not 1 <= days <= template.standing_days:
        errors.append({"pointer": "/days", "code": "range"})
    if errors:
        return InputInvalid("Such a rule is not allowed.", errors=errors)
    seal, kept = RowSeal.new(ctx.ring, table="standing_rule", row_id=wish.rule_id), task_seal(task, ctx.ring)
    about = {
        "about": tuple_of(part, kept)._asdict(),
        "members": list(own.binding_members),
        "agent": task.agent,
        "actors": task.actors,
        "submitter": task.submitter,
        "effect": effect_sentence(part, kept),
    }
    rule = StandingRule(
        id=wish.rule_id,
        template_id=own.template_id,
        subject_type=task.subject_type,
        subject_id=task.subject_id,
        resource_type=own.resource_type,
        resource_id=own.resource_id,
        action_name=own.action_name,
        client_id=task.client_id,
        task_id=task.id,
        may_vary=[*wish.may_vary] or None,
        days=days,
        proposed_by=decider.actor,
        proposed_at=now,
        data_key=seal.wrapped,
        about_sealed=seal.seal("about_sealed", about),
    )
    session.add(rule)
    detail: dict[str, JsonValue] = {"days": days, "may_vary": [*wish.may_vary], "binding_hash": own.binding_hash}
    _note(session, rule, "rule_proposed", decider.actor, detail, now=now)
    record(session, part, "rule_proposed", decider.actor, {"rule": rule.id}, now=now)
    return None


def _why_not(ctx: Context, rule: StandingRule, decider: Decider) -> str | None:
    if decider.actor == rule.proposed_by:
        return SAME
    about = opened(ctx, rule)
    chain = {subject if issuer is None else f"{issuer}|{subject}" for issuer, subject in about["actors"]}
    facts = RequestFacts(
        subject_ids=frozenset({rule.subject_id}),
        submitter=about["submitter"],
        agents=frozenset(chain | ({about["agent"]} if about["agent"] else set())),
        client=rule.client_id,
    )
    return barred(facts, decider.person)


def _may_end(caller: Caller, decider: Decider, rule: StandingRule) -> bool:
    return caller.may(Scope.ADMIN) or (
        caller.may(Scope.APPROVAL_RESOLVE) and decider.actor in {rule.proposed_by, rule.confirmed_by}
    )


def _note(
    session: WriteSession, rule: StandingRule, kind: str, actor: str, detail: dict[str, JsonValue], *, now: datetime
) -> None:
    told: dict[str, JsonValue] = {"rule": rule.id, "template": rule.template_id, "request": rule.task_id, **detail}
    audit.append(session, CHAIN, kind=kind, actor=actor, detail=told, now=now)


async def _viewed(ctx: Context, caller: Caller, rule_id: str) -> RuleView:
    def read(session: Session) -> RuleView:
        rule = rules.find_rule(session, rule_id)
        if rule is None:
            raise NotFound
        return _view(ctx, session, caller, decider_of(session, caller, grounds_of(ctx)), rule)

    return await ctx.database.read(read)


def _view(ctx: Context, session: Session, caller: Caller, decider: Decider, rule: StandingRule) -> RuleView:
    about = opened(ctx, rule)
    marks = {mark for mark in (rule.proposed_by, rule.confirmed_by, rule.ended_by) if mark is not None}
    names = {mark: visible(name) for mark, name in names_of_marks(session, marks).items()}
    template = ctx.policy.current().templates.get(rule.template_id)
    is_over = rule.status == "active" and rule.expires_at is not None and rule.expires_at <= ctx.clock()
    status: Any = "expired" if is_over else rule.status
    why_not = _why_not(ctx, rule, decider) if caller.may(Scope.ADMIN) else "missing_scope"
    return RuleView(
        id=rule.id,
        status=status,
        suspended=None if status != "active" or template is None else missing_maker(ctx, session, rule, template),
        template_id=rule.template_id,
        template_title=rule.template_id if template is None else template.title,
        effect=about["effect"],
        subject=visible(rule.subject_id),
        resource=visible(rule.resource_id),
        action=visible(rule.action_name),
        client_id=visible(rule.client_id),
        agent=None if about["agent"] is None else visible(about["agent"]),
        may_vary=rule.varying,
        days=rule.days,
        request_id=rule.task_id,
        proposed_by=names[rule.proposed_by],
        proposed_at=rule.proposed_at,
        confirmed_by=None if rule.confirmed_by is None else names[rule.confirmed_by],
        confirmed_at=rule.confirmed_at,
        expires_at=rule.expires_at,
        ended_by=None if rule.ended_by is None else names[rule.ended_by],
        ended_at=rule.ended_at,
        uses=rule.uses,
        last_used_at=rule.last_used_at,
        may_confirm=status == "proposed" and why_not is None,
        why_not=why_not if status == "proposed" else None,
        may_end=status in {"proposed", "active"} and _may_end(caller, decider, rule),
    )
