"""What stands beside a request for whoever decides it: the last one like it, and who else may decide.

The last one is the same subject's newest approved request for the same thing; its values are told only to who may see
that request, and only as far as both templates reveal. Who may still decide is told in names as far as they are few,
with who is away and who stands in. It judges nothing: that is done at the moment of deciding. Design.md section 7.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from sqlmodel import Session

from arap_service.domain.appointing import MANAGER, Entities, bond, directory_bond
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.differing import compare
from arap_service.domain.policy import Policy
from arap_service.domain.reviewers import Eligible, Person
from arap_service.domain.visible import visible
from arap_service.protocol.canonical import Tuple4
from arap_service.protocol.sealing import KeyRing
from arap_service.records import Part, asked_of, task_seal, tuple_of
from arap_service.requests.proposals import call_of
from arap_service.requests.voters import Board, Decider, barred, board_of, eligibility, facts_of, may_see
from arap_service.store import comparing, delegations, people
from arap_service.store.tables import StepState
from arap_service.views import ActorView, CandidateView, DecidersView, DifferenceView, EarlierView

MOST_NAMED: Final = 12
"""How many people of a step are told by name."""


def beside(
    session: Session, part: Part, board: Board, caller: Caller, decider: Decider, *, ring: KeyRing, now: datetime
) -> dict[str, Any]:
    """Members of the view of a request or item."""
    is_open = part.own.status == "pending"
    found = eligibility(part.task, board, decider) if is_open else None
    speaks = found if isinstance(found, Eligible) else None
    # Names of colleagues are for people and for who may read everything, not for a machine that decides one kind.
    knows = decider.kind == "person" or caller.may(Scope.APPROVAL_READ)
    names = people.names_of(session, {speaks.in_place_of} if speaks and speaks.in_place_of else ())
    return {
        "policy_version": part.task.policy_version,
        "actors": tuple(
            ActorView(name=visible(name), issuer=None if issuer is None else visible(issuer))
            for issuer, name in part.task.actors
        ),
        "earlier": _earlier(session, part, caller, decider, ring=ring, now=now),
        "deciders": _deciders(session, board, decider, now=now) if is_open and knows else (),
        "decides_in": None if speaks is None else speaks.step_id,
        "decides_for": next((visible(name) for name in names.values()), None),
    }


def _earlier(
    session: Session, part: Part, caller: Caller, decider: Decider, *, ring: KeyRing, now: datetime
) -> EarlierView | None:
    task, own = part.task, part.own
    found = comparing.last_approved(
        session, task, resource=(own.resource_type, own.resource_id), action=own.action_name, before=own.ended_at or now
    )
    if found is None or found.ended_at is None or now >= found.expires_at:
        return None
    if not may_see(caller, board_of(session, found), decider):
        return EarlierView(id=None, approved_at=found.ended_at)
    own_call, was = _said(part, ring), _said(Part(found), ring)
    templates = (own.template, found.template)
    result = compare(
        was,
        own_call,
        reveals=[template["reveal"] for template in templates],
        mask=[name for template in templates for name in template["mask"]],
    )
    return EarlierView(
        id=found.id,
        approved_at=found.ended_at,
        differences=tuple(DifferenceView(**asdict(each)) for each in result.differences),
        equal=result.equal,
        secrets=result.secrets,
        hidden=result.hidden,
        is_same=found.arguments_hash is not None and found.arguments_hash == task.arguments_hash,
    )


def _said(part: Part, ring: KeyRing) -> Mapping[str, Any]:
    """The arguments of the call, or without one all that was asked."""
    seal = task_seal(part.task, ring)
    call = call_of(part, asked_of(part, seal))
    if call is not None:
        arguments: Mapping[str, Any] = call.get("arguments", {})
        return arguments
    about: Tuple4 = tuple_of(part, seal)
    said = {
        "subject": about.subject.get("properties"),
        "resource": about.resource.get("properties"),
        "action": about.action.get("properties"),
        "context": about.context,
    }
    return {name: value for name, value in said.items() if value}


def _deciders(session: Session, board: Board, decider: Decider, *, now: datetime) -> tuple[DecidersView, ...]:
    waiting = [state for state in board.steps if state.status == "waiting"]
    groups = {voice.name for voice in board.voices if voice.kind == "group"}
    named = {voice.name for voice in board.voices if voice.kind == "person"}
    members = comparing.members_of(session, groups=groups, people=named)
    shown = sorted({person for each in members.values() for person in each})[: MOST_NAMED * 2]
    told = _candidates(session, board, shown, now=now)
    policy = None if decider.grounds is None else decider.grounds.policy
    return tuple(_in_step(board, state, members, told, policy) for state in waiting)


def _in_step(
    board: Board,
    state: StepState,
    members: Mapping[tuple[str, str], Sequence[str]],
    told: Mapping[str, CandidateView],
    policy: Policy | None,
) -> DecidersView:
    titles = {} if policy is None else policy.groups
    entities = {} if policy is None or policy.appointing is None else policy.appointing.entities
    voices = [voice for voice in board.voices if voice.step_id == state.step_id]
    ids = {person for voice in voices for person in members.get((voice.kind, voice.name), ())}
    named = [told[each] for each in sorted(ids) if each in told]
    return DecidersView(
        step_id=state.step_id,
        groups=tuple(visible(titles.get(v.name, v.name)) for v in voices if v.kind == "group"),
        relations=tuple(_relations(board, state, {v.name for v in voices if v.kind == "relation"}, entities)),
        by_expression=any(v.kind == "anybody" for v in voices),
        machines=tuple(visible(v.name) for v in voices if v.kind == "resolver"),
        people=tuple(sorted(named, key=lambda each: (each.standing != "free", each.name))[:MOST_NAMED]),
        more_people=max(0, len(ids) - min(len(named), MOST_NAMED)),
    )


def _relations(board: Board, state: StepState, bonds: set[str], entities: Entities) -> Iterator[str]:
    """Of which things somebody is what, in the order of subject and resource; nothing that the rules forgot."""
    task, own = board.task, board.part(state.item).own
    for kind, name in ((task.subject_type, task.subject_id), (own.resource_type, own.resource_id)):
        known = entities.get(kind, {}).get(name, {})
        for relation in sorted({MANAGER, *known}):
            if not bonds.isdisjoint({bond(relation, kind, name), directory_bond(relation, name)}):
                yield f"{visible(relation)} of {visible(name)}"


def _candidates(session: Session, board: Board, ids: Sequence[str], *, now: datetime) -> Mapping[str, CandidateView]:
    """What is to be known of each, in a fixed number of statements."""
    marks = comparing.marks_of(session, ids)
    away = {each.person_id: each for each in delegations.away(session, ids, now=now)}
    names = people.names_of(session, {*ids, *(each.deputy_id for each in away.values())})
    facts = facts_of(board.task)
    told = {}
    for each in ids:
        code = barred(facts, Person(each, active=True, identities=marks.get(each, frozenset())))
        absence = away.get(each)
        told[each] = CandidateView(
            name=visible(names.get(each, each)),
            standing="decided" if board.counted_in(each) else code or "free",
            deputy=None if absence is None else visible(names.get(absence.deputy_id, absence.deputy_id)),
            away_until=None if absence is None else absence.ends_at,
        )
    return told
