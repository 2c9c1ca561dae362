"""Who may decide a request: eligibility and separation of duties, judged per person at the moment of deciding.

Decides eligibility only; authentication and the `approval:resolve` right are the caller's duty, and the same rules bind
automated resolvers (ARS-117). Every comparison errs towards ineligible: two spellings that may be one person are one
person here. Access Request and Approval Profile, "Approver Eligibility and Separation of Duties".
"""

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from arap_service.domain.policy import Step
from arap_service.domain.visible import is_hidden

NOT_ACTIVE: Final = "not_active"
IS_SUBJECT: Final = "is_subject"
IS_SUBMITTER: Final = "is_submitter"
IS_ACTOR: Final = "is_actor"
NOT_ASSIGNED: Final = "not_assigned"
ALREADY_DECIDED: Final = "already_decided"
NOT_OPEN: Final = "step_not_open"
ABSENT_MAY_NOT: Final = "absent_may_not"
COUNTED_ELSEWHERE: Final = "counted_in_another_step"
OPEN_TO_DEPUTIES: Final = frozenset({NOT_ASSIGNED, NOT_OPEN, ALREADY_DECIDED, COUNTED_ELSEWHERE})
"""Why somebody may not speak for himself though he perhaps may in another's place; the rest excludes him altogether."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The identities of a request, each as `iss|sub` where the issuer is known and bare otherwise.

    `subject_ids` are the names of the evaluated subject; `agents` the agent and every verified actor of the chain;
    `client` the submitting client.
    """

    subject_ids: frozenset[str]
    submitter: str
    agents: frozenset[str] = frozenset()
    client: str | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who decides: a human with all his identities, or a resolver client (`client_id` set).

    `bonds` are the relations that he bears under the rules in force (`appointing.py`). `is_by_groups_only` is for
    somebody whose place is taken as a member of his groups, and in nothing else.
    """

    id: str
    active: bool
    identities: frozenset[str]
    groups: frozenset[str] = frozenset()
    client_id: str | None = None
    bonds: frozenset[str] = frozenset()
    is_by_groups_only: bool = False


@dataclass(frozen=True, slots=True)
class Eligible:
    """The person may decide in this step; `exception` names the rule that policy waived, to be recorded.

    `in_place_of` is the person whose seat he takes, by which `delegation`.
    """

    step_id: str
    exception: str | None = None
    in_place_of: str | None = None
    delegation: str | None = None


@dataclass(frozen=True, slots=True)
class Ineligible:
    """The person may not decide in this step, by the rule of this code."""

    reason: str


def may_decide(
    facts: RequestFacts, person: Person, *, step: Step, counted_in: Collection[str] = (), is_named: bool = False
) -> Eligible | Ineligible:
    """Whether `person` may decide in `step`, having already counted in the steps `counted_in` of this request.

    `is_named` says that the expression of the step names him.
    """
    if not person.active:
        return Ineligible(NOT_ACTIVE)
    if _is_one_of(person, facts.subject_ids):  # ARS-116, GOV-12: holding a right does not help
        return Ineligible(IS_SUBJECT)
    if _is_one_of(person, {facts.submitter} | ({facts.client} if facts.client else set())):
        return Ineligible(IS_SUBMITTER)
    if _is_one_of(person, facts.agents):
        return Ineligible(IS_ACTOR)
    if not (is_named or is_assigned(person, step)):
        return Ineligible(NOT_ASSIGNED)
    if step.id in counted_in:
        return Ineligible(ALREADY_DECIDED)
    if counted_in and not step.repeat:
        return Ineligible(COUNTED_ELSEWHERE)
    return Eligible(step.id, COUNTED_ELSEWHERE if counted_in else None)


def is_assigned(person: Person, step: Step) -> bool:
    """Whether the step names the person by himself, by a group or by a relation."""
    if person.client_id is not None:
        return person.client_id in step.resolvers
    in_group = not step.groups.isdisjoint(person.groups)
    if person.is_by_groups_only:
        return in_group
    return in_group or person.id in step.people or not step.bonds.isdisjoint(person.bonds)


def voices_of(person: Person) -> Mapping[str, Collection[str]]:
    """By what the person may be named in a step, as kind of voice and names; expressions aside."""
    if person.is_by_groups_only:
        return {"group": person.groups}
    return {"group": person.groups, "person": (person.id,), "relation": person.bonds}


def may_decide_for(
    facts: RequestFacts,
    deputy: Person,
    absent: Person,
    *,
    step: Step,
    counted_in: Collection[str] = (),
    absent_counted_in: Collection[str] = (),
    is_named: bool = False,
) -> Eligible | Ineligible:
    """Whether `deputy` may decide in the place of `absent`; each has counted in steps of this request already.

    There is one seat: what excludes either of them excludes the deputy. `is_named` is about the absent.
    """
    own = may_decide(facts, deputy, step=step, counted_in=counted_in, is_named=True)
    if isinstance(own, Ineligible):
        return own
    both = {*counted_in, *absent_counted_in}
    found = may_decide(facts, absent, step=step, counted_in=both, is_named=is_named)
    if isinstance(found, Ineligible) and found.reason != NOT_ASSIGNED:
        return Ineligible(ABSENT_MAY_NOT)
    return found


def _is_one_of(person: Person, marks: Collection[str]) -> bool:
    own = {_fold(name) for name in (*person.identities, person.id, *((person.client_id,) if person.client_id else ()))}
    own_bare = {_bare(name) for name in own}
    folded = {_fold(mark) for mark in marks}
    # A full name matches itself, a bare one matches whoever bears it at any issuer.
    return not (own.isdisjoint(folded) and own_bare.isdisjoint(folded) and own.isdisjoint({_bare(m) for m in folded}))


def _fold(name: str) -> str:
    # What looks alike or is often written either way is one name: case, composition, width, blanks, hidden characters.
    if name.isascii() and name.isprintable():  # nothing of that is in it but case and blanks
        return name.casefold().replace(" ", "")
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(char for char in plain if not (char.isspace() or is_hidden(char)))


def _bare(name: str) -> str:
    _, _, subject = name.partition("|")
    return subject or name
