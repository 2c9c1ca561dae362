"""The voices of standing rules in a request that is being made.

Whether a rule covers it is judged like the scope of an approval, and its bound by the rules file of the moment. Who
proposed or confirmed one is not served by it, whoever he has turned out to be since; while one of them could not do so
again it is silent (`standing_makers.py`). A voice says yes and is weighed like that of an evaluator, so that whatever
denies or holds wins. See `standing_rules.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from arap_service.context import Context
from arap_service.domain.policy import Policy, Question, Template, is_within
from arap_service.domain.scopes import same_but
from arap_service.domain.workflow import Evaluation
from arap_service.protocol.canonical import Tuple4
from arap_service.records import Part
from arap_service.requests.standing_makers import Use, missing_maker
from arap_service.requests.voters import facts_of, is_served
from arap_service.sealed import RowSeal
from arap_service.store import rules
from arap_service.store.database import WriteSession
from arap_service.store.rule_tables import StandingRule


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is being made, as standing rules look at it."""

    policy: Policy
    template: Template
    question: Question
    about: Tuple4


def standing_voices(
    ctx: Context, session: WriteSession, part: Part, asked: Asked, heard: Sequence[Evaluation], *, now: datetime
) -> tuple[Evaluation, ...]:
    """What standing rules say to a request that is being made: a voice among those of its template, at most one.

    Its use counts where the rules of the file leave the decision to it. Nothing stands for an emergency.
    """
    template = asked.template
    if template.emergency is not None or not template.standing_days:
        return ()
    task = part.task
    found = rules.rules_for(
        session,
        template_id=template.id,
        subject=(task.subject_type, task.subject_id),
        client_id=task.client_id,
        now=now,
    )
    is_left = all(voice.decision == "approve" for voice in heard)
    for rule in found:
        if _is_capped(rule, template, now=now) or _is_for_its_makers(session, rule, part):
            continue
        if missing_maker(ctx, session, rule, template, Use(part, asked.question)) is not None:
            continue
        if _covers(ctx, rule, part, asked):
            if is_left and not rules.use_rule(session, rule.id, now=now):
                continue
            return (Evaluation(rule.id, "approve", "a standing rule"),)
    return ()


def _is_for_its_makers(session: WriteSession, rule: StandingRule, part: Part) -> bool:
    facts = facts_of(part.task)
    return any(is_served(session, mark, facts) for mark in (rule.proposed_by, rule.confirmed_by) if mark is not None)


def _covers(ctx: Context, rule: StandingRule, part: Part, asked: Asked) -> bool:
    about = opened(ctx, rule)
    varying = tuple(pointer for pointer in rule.varying if pointer in widest(asked.template))
    if about["agent"] != part.task.agent or about["actors"] != part.task.actors:
        return False
    members = {*about["members"], *part.own.binding_members}
    if not same_but(Tuple4(**about["about"]), asked.about, members, may_vary=varying):
        return False
    within = None if asked.template.scope is None else asked.template.scope.within
    return not varying or within is None or is_within(asked.policy, within, asked.question)


def widest(template: Template) -> tuple[str, ...]:
    """The members that a rule of this template may let vary."""
    return () if template.scope is None else template.scope.may_vary


def _is_capped(rule: StandingRule, template: Template, *, now: datetime) -> bool:
    # A file that allows less by now counts for rules that were confirmed before.
    return rule.confirmed_at is None or now >= rule.confirmed_at + timedelta(days=template.standing_days)


def opened(ctx: Context, rule: StandingRule) -> dict[str, Any]:
    """What a rule is about: the tuple that it was made of, and whose it was."""
    seal = RowSeal(ctx.ring, rule.data_key, table="standing_rule", row_id=rule.id)
    about: dict[str, Any] = seal.open("about_sealed", rule.about_sealed)
    return about
