"""Emergency access: who decides when nobody can wait, for how long, and who looks at it afterwards (ARS-119).

That a request is urgent is a signal of the requester and approves nothing by itself. A template may answer it with an
approver on call and a shorter life; without such a rule it is a request like any other. Access Request and Approval
Profile, "Policy and Approver Hygiene".
"""

from dataclasses import dataclass, replace
from typing import Final

from arap_service.domain.policy import Step, Template
from arap_service.domain.reviewers import Eligible, Ineligible, Person, RequestFacts, may_decide

STEP: Final = "emergency"
OUTCOMES: Final = frozenset({"justified", "unjustified"})


@dataclass(frozen=True, slots=True)
class Review:
    """Who owns what was requested, and whether the one who is judged has had a part in deciding it."""

    facts: RequestFacts
    owners: frozenset[str]
    has_counted: bool


def as_asked(template: Template, *, is_emergency: bool) -> Template:
    """The workflow of a request under `template`: that of an emergency, if it is one and the template has a rule.

    One of those on call decides. Rules may still deny or hand over, and never approve; nothing is widened.
    """
    rule = template.emergency
    if rule is None or not is_emergency:
        return replace(template, emergency=None) if rule is not None else template
    step = Step(STEP, rule.title, groups=rule.groups, people=rule.people)
    return replace(
        template,
        steps=(step,),
        evaluators=tuple(voice for voice in template.evaluators if voice.decision != "approve"),
        approval_seconds=min(template.approval_seconds, rule.approval_seconds),
        pending_seconds=min(template.pending_seconds, rule.pending_seconds or template.pending_seconds),
        scope=None,
    )


def may_review(review: Review, person: Person, *, is_administrator: bool) -> Eligible | Ineligible:
    """Whether `person` may close the review: an owner or administrator who had no part in it (GOV-12, ARS-116)."""
    others = frozenset({person.id}) if is_administrator else frozenset[str]()
    step = Step("review", "Review", groups=review.owners, people=others, resolvers=others)
    return may_decide(review.facts, person, step=step, counted_in={STEP} if review.has_counted else ())
