"""Who may decide: separation of duties, one person with several names, and resolvers under the same rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.policy import Step
from arap_service.domain.reviewers import (
    ALREADY_DECIDED,
    COUNTED_ELSEWHERE,
    IS_ACTOR,
    IS_SUBJECT,
    IS_SUBMITTER,
    NOT_ACTIVE,
    NOT_ASSIGNED,
    Eligible,
    Ineligible,
    Person,
    RequestFacts,
    may_decide,
)

IDP = "https://idp.example"
STEP = Step(
    "manager",
    "Manager",
    groups=frozenset({"managers"}),
    people=frozenset({"p-dan"}),
    resolvers=frozenset({"risk-engine"}),
)
FACTS = RequestFacts(
    subject_ids=frozenset({"alice@example.com"}),
    submitter=f"{IDP}|gate-service",
    agents=frozenset({"agent-A", "https://agents.example|planner"}),
    client="gate-1",
)


def person(*identities: str, name: str = "p-rita", active: bool = True, groups: frozenset[str] | None = None) -> Person:
    return Person(name, active, frozenset(identities), frozenset({"managers"}) if groups is None else groups)


@pytest.mark.parametrize(
    "who",
    [
        person(f"{IDP}|rita"),
        person(f"{IDP}|dan", name="p-dan", groups=frozenset()),
        Person("c-risk", True, frozenset({f"{IDP}|risk"}), client_id="risk-engine"),
    ],
    ids=["by group", "by name", "resolver"],
)
def test_whom_the_step_names_may_decide(who: Person) -> None:
    assert may_decide(FACTS, who, step=STEP) == Eligible("manager")


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ("alice@example.com", IS_SUBJECT),
        (f"{IDP}|alice@example.com", IS_SUBJECT),
        (f"{IDP}|ALICE@Example.com", IS_SUBJECT),
        (f"{IDP}|gate-service", IS_SUBMITTER),
        ("gate-service", IS_SUBMITTER),
        ("gate-1", IS_SUBMITTER),
        (f"{IDP}|gate-1", IS_SUBMITTER),
        ("agent-A", IS_ACTOR),
        (f"{IDP}|agent-A", IS_ACTOR),
        ("https://agents.example|planner", IS_ACTOR),
        ("planner", IS_ACTOR),
    ],
)
@pytest.mark.requirement("ARS-115", "ARS-116", "GOV-12")
def test_who_takes_part_in_a_request_may_not_decide_it(identity: str, reason: str) -> None:
    """The second identity makes no other person of him: eligibility is judged per person."""
    assert may_decide(FACTS, person(f"{IDP}|rita", identity), step=STEP) == Ineligible(reason)


@pytest.mark.requirement("ARS-116")
def test_a_person_whose_id_is_the_subject_may_not_decide() -> None:
    assert may_decide(FACTS, person(name="Alice@example.com"), step=STEP) == Ineligible(IS_SUBJECT)


@pytest.mark.requirement("ARS-100")
def test_the_same_name_at_another_issuer_is_somebody_else() -> None:
    assert may_decide(FACTS, person("https://other.example|planner"), step=STEP) == Eligible("manager")


def test_a_subject_name_that_contains_a_bar_is_compared_whole() -> None:
    facts = RequestFacts(frozenset({"auth0|123"}), f"{IDP}|gate-service")
    assert may_decide(facts, person(f"{IDP}|auth0|123"), step=STEP) == Ineligible(IS_SUBJECT)


@pytest.mark.requirement("ARS-117")
def test_a_resolver_that_is_the_acting_agent_may_not_decide() -> None:
    facts = RequestFacts(FACTS.subject_ids, FACTS.submitter, frozenset({"risk-engine"}), FACTS.client)
    resolver = Person("c-risk", True, frozenset({f"{IDP}|risk"}), client_id="risk-engine")
    assert may_decide(facts, resolver, step=STEP) == Ineligible(IS_ACTOR)


@pytest.mark.requirement("ARS-117")
def test_a_resolver_that_submitted_the_request_may_not_decide() -> None:
    facts = RequestFacts(FACTS.subject_ids, f"{IDP}|risk", client="risk-engine")
    resolver = Person("c-risk", True, frozenset({f"{IDP}|risk"}), client_id="risk-engine")
    assert may_decide(facts, resolver, step=STEP) == Ineligible(IS_SUBMITTER)


@pytest.mark.parametrize(
    "who",
    [
        person(f"{IDP}|rita", groups=frozenset({"others"})),
        person(f"{IDP}|rita", name="risk-engine", groups=frozenset()),
        Person("p-dan", True, frozenset(), frozenset({"managers"}), client_id="other-engine"),
    ],
    ids=["other group", "a resolver's name", "a resolver in a group"],
)
def test_whom_the_step_does_not_name_may_not_decide(who: Person) -> None:
    assert may_decide(FACTS, who, step=STEP) == Ineligible(NOT_ASSIGNED)


def test_an_inactive_person_may_not_decide() -> None:
    assert may_decide(FACTS, person(f"{IDP}|rita", active=False), step=STEP) == Ineligible(NOT_ACTIVE)


def test_nobody_decides_a_step_twice() -> None:
    assert may_decide(FACTS, person(f"{IDP}|rita"), step=STEP, counted_in={"manager"}) == Ineligible(ALREADY_DECIDED)


@pytest.mark.requirement("ARS-116")
def test_who_has_counted_in_another_step_may_not_decide_this_one() -> None:
    assert may_decide(FACTS, person(f"{IDP}|rita"), step=STEP, counted_in={"security"}) == Ineligible(COUNTED_ELSEWHERE)


@pytest.mark.requirement("ARS-115")
def test_an_exception_that_policy_allows_is_named_so_that_it_can_be_recorded() -> None:
    step = Step("manager", "Manager", groups=frozenset({"managers"}), repeat=True)
    assert may_decide(FACTS, person(f"{IDP}|rita"), step=step, counted_in={"security"}) == Eligible(
        "manager", COUNTED_ELSEWHERE
    )
    assert may_decide(FACTS, person(f"{IDP}|rita"), step=step, counted_in={"manager", "security"}) == Ineligible(
        ALREADY_DECIDED
    )


NAMES = st.sampled_from(["alice", "ALICE", f"{IDP}|alice", "https://other.example|alice", "bob", f"{IDP}|bob"])


@given(st.frozensets(NAMES, min_size=1), NAMES)
@pytest.mark.requirement("ARS-116")
def test_whoever_bears_one_of_the_names_of_the_submitter_is_never_eligible(
    identities: frozenset[str], name: str
) -> None:
    facts = RequestFacts(frozenset(), name)
    outcome = may_decide(facts, person(*identities), step=STEP)
    if name in identities:
        assert outcome == Ineligible(IS_SUBMITTER)
