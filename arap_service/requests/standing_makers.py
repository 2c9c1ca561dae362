"""Whether those who made a standing rule still stand behind it: judged at each use, as they are known then.

A rule says what somebody who may decide would say again, and rests on an administrator. So it is suspended while its
proposer is named by no step of the request that it would approve, and while whoever confirmed it could confirm none; it
comes back when they may again. What an issuer of tokens allows somebody is not known here: of a client of such an
issuer, and of an administrator who confirmed with a token, only what is known here is judged. See design.md section 4.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.appointing import bonds_of
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.policy import Question, Step, Template, is_named_by
from arap_service.domain.reviewers import Person, is_assigned
from arap_service.records import Part
from arap_service.requests.grounds import Grounds, grounds_of, told_of
from arap_service.requests.voters import Seat, barred, decider_of, facts_of
from arap_service.store import people
from arap_service.store.rule_tables import StandingRule

Maker = Literal["proposer", "confirmer"]
Names = Callable[[Step, Person], bool]


@dataclass(frozen=True, slots=True)
class Use:
    """The request that a rule would approve, as it is being made."""

    part: Part
    question: Question


def missing_maker(
    ctx: Context, session: Session, rule: StandingRule, template: Template, use: Use | None = None
) -> Maker | None:
    """Whose standing a rule of `template` lacks for `use`, or for whatever it may ever be used for."""
    if not _would_decide(ctx, session, rule.proposed_by, template, use):
        return "proposer"
    if rule.confirmed_by is not None and not _administers(ctx, session, rule.confirmed_by, rule.confirmed_via):
        return "confirmer"
    return None


def _would_decide(ctx: Context, session: Session, mark: str, template: Template, use: Use | None) -> bool:
    kind, _, name = mark.partition(":")
    if kind == "resolver":
        return _has(ctx, name, Scope.APPROVAL_RESOLVE) and any(name in step.resolvers for step in template.steps)
    grounds = grounds_of(ctx)
    seats = [seat for seat in _seats(session, name, grounds) if seat.is_for(template.id)]
    if use is not None:
        facts = facts_of(use.part.task)
        seats = [seat for seat in seats if barred(facts, seat.person) is None]
    names = _perhaps if use is None else _surely(grounds, use)
    return any(names(step, seat.person) for step in template.steps for seat in seats)


def _seats(session: Session, person_id: str, grounds: Grounds) -> Sequence[Seat]:
    """The places from which he decides now: his own, and those of people who let him decide for them; none if gone."""
    stored = people.find_person(session, person_id)
    if stored is None or not stored.active:
        return ()
    caller = Caller(
        iss="urn:x-arap:standing-rules",
        sub=person_id,
        client_id="desk",
        scopes=frozenset(),
        channel="desk",
        person_id=person_id,
    )
    decider = decider_of(session, caller, grounds)
    return (Seat(decider.person, "", frozenset()), *decider.seats)


def _perhaps(step: Step, person: Person) -> bool:
    """Whether a step may name him; whom relations and expressions name shows only with a request."""
    return is_assigned(person, step) or (
        (bool(step.relations) or step.who is not None) and not person.is_by_groups_only
    )


def _surely(grounds: Grounds, use: Use) -> Names:
    task, own = use.part.task, use.part.own
    things = {
        "subject": (task.subject_type, task.subject_id),
        "resource": (own.resource_type, own.resource_id),
    }

    def names(step: Step, person: Person) -> bool:
        if is_assigned(person, step):
            return True
        if person.is_by_groups_only:
            return False
        if not person.bonds.isdisjoint(bonds_of(step.relations, things)):
            return True
        return step.who is not None and is_named_by(grounds.policy, step.who, use.question, told_of(person))

    return names


def _administers(ctx: Context, session: Session, mark: str, channel: str | None) -> bool:
    kind, _, name = mark.partition(":")
    if kind == "resolver":
        return _has(ctx, name, Scope.ADMIN)
    stored = people.find_person(session, name)
    if stored is None or not stored.active:
        return False
    if channel == "api":
        return True
    return not people.groups_of(session, name).isdisjoint(ctx.settings.desk.administrators)


def _has(ctx: Context, client_id: str, scope: Scope) -> bool:
    """Whether a client has a right, as far as that is known here."""
    own = ctx.settings.builtin_issuer
    known = {client.client_id: client.scopes for client in own.clients} if own.enabled else {}
    return scope in known[client_id] if client_id in known else bool(ctx.settings.issuers)
