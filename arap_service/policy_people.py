"""Who may decide what the rules make requestable, for people who are described and not looked up.

For whoever writes rules: the same judgement as for a real request (`domain/reviewers.py`), before there is one. Steps
are taken as if each were open. Nothing is stored.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from arap_service.domain.actors import agent_of, subject_chain
from arap_service.domain.appointing import Relation, bonds_of
from arap_service.domain.policy import Policy, Question, Step, Template, is_named_by
from arap_service.domain.reviewers import NOT_ASSIGNED, Eligible, Person, RequestFacts, may_decide


def why_not(policy: Policy, template: Template, question: Question, person: Person) -> str | None:
    """The rule that keeps the person from every step of the template; None when he may decide in one."""
    reason = NOT_ASSIGNED
    for step in template.steps:
        found = may_decide(
            _facts(question), person, step=_bound(step, question), is_named=_is_named(policy, step, question, person)
        )
        if isinstance(found, Eligible):
            return None
        reason = found.reason if reason == NOT_ASSIGNED else reason
    return reason


def described(policy: Policy, person_id: str, told: Mapping[str, Any]) -> Person:
    """A person as a case describes him: `groups`, `identities` (iss|sub) and whether `active`."""
    identities = frozenset(told.get("identities", ()))
    appointing = policy.appointing
    return Person(
        id=person_id,
        active=told.get("active", True),
        identities=identities,
        groups=frozenset(told.get("groups", ())),
        bonds=frozenset() if appointing is None else appointing.borne_by(identities | {person_id}),
    )


def related(policy: Policy, relation: Relation, question: Question) -> tuple[str, ...]:
    """Whom the entities name as this of the subject or resource of `question`."""
    thing = question.subject if relation.of == "subject" else question.resource
    value = policy.entities.get(thing["type"], {}).get(thing["id"], {}).get(relation.relation)
    return tuple(each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def _facts(question: Question) -> RequestFacts:
    chain = {sub if iss is None else f"{iss}|{sub}" for iss, sub in subject_chain(question.subject)}
    agent, client = agent_of(question.context), question.client_id or ""
    return RequestFacts(
        subject_ids=frozenset({question.subject["id"]}),
        submitter=client,
        agents=frozenset(chain | ({agent} if agent else set())),
        client=client or None,
    )


def _bound(step: Step, question: Question) -> Step:
    things = {
        "subject": (question.subject["type"], question.subject["id"]),
        "resource": (question.resource["type"], question.resource["id"]),
    }
    return replace(step, bonds=bonds_of(step.relations, things))


def _is_named(policy: Policy, step: Step, question: Question, person: Person) -> bool:
    told = {"id": person.id, "groups": sorted(person.groups), "identities": sorted(person.identities)}
    return step.who is not None and is_named_by(policy, step.who, question, told)
