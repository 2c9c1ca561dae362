"""Quorum, veto and evaluators: when a request is approved, denied, or still waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.policy import Step
from arap_service.domain.workflow import Completed, Ended, Evaluation, Vote, Waiting, progress

MANAGER = Step("manager", "Manager", groups=frozenset({"managers"}))
SECURITY = Step("security", "Security", groups=frozenset({"security"}), quorum=2, veto=2)
STEPS = (MANAGER, SECURITY)


def approve(step: Step, person: str) -> Vote:
    return Vote(step.id, person, "approve")


def deny(step: Step, person: str) -> Vote:
    return Vote(step.id, person, "deny")


def test_without_votes_every_step_waits() -> None:
    assert progress(STEPS, ()) == Waiting(("manager", "security"))


@pytest.mark.requirement("ARS-114")
def test_one_approval_of_a_two_step_flow_leaves_it_waiting() -> None:
    assert progress(STEPS, [approve(MANAGER, "ann")]) == Waiting(("security",))


@pytest.mark.requirement("ARS-114")
def test_the_request_completes_when_every_step_has_its_quorum() -> None:
    votes = [approve(SECURITY, "bea"), approve(MANAGER, "ann"), approve(SECURITY, "cid")]
    assert progress(STEPS, votes) == Completed(automatic=False)


def test_one_person_fills_one_place_of_a_quorum() -> None:
    votes = [approve(MANAGER, "ann"), approve(SECURITY, "bea"), approve(SECURITY, "bea")]
    assert progress(STEPS, votes) == Waiting(("security",))


def test_a_single_denial_ends_a_step_with_veto_one() -> None:
    assert progress(STEPS, [deny(MANAGER, "ann")]) == Ended("veto", "manager")


def test_a_denial_below_the_veto_does_not_end_the_request() -> None:
    assert progress(STEPS, [deny(SECURITY, "bea"), approve(MANAGER, "ann")]) == Waiting(("security",))


def test_a_denial_outranks_a_full_quorum() -> None:
    votes = [approve(MANAGER, "ann"), approve(SECURITY, "b"), approve(SECURITY, "c"), deny(MANAGER, "dan")]
    assert progress(STEPS, votes) == Ended("veto", "manager")


def test_who_has_denied_does_not_count_as_approving() -> None:
    votes = [approve(SECURITY, "b"), deny(SECURITY, "b"), approve(SECURITY, "c"), approve(MANAGER, "ann")]
    assert progress(STEPS, votes) == Waiting(("security",))


def test_a_vote_in_a_step_that_does_not_exist_counts_nowhere() -> None:
    assert progress((MANAGER,), [Vote("gone", "ann", "approve")]) == Waiting(("manager",))


@pytest.mark.requirement("ARS-114")
def test_a_workflow_without_steps_never_completes_by_itself() -> None:
    assert progress((), [Vote("gone", "ann", "approve")]) == Waiting(())


def test_an_evaluator_can_approve_when_no_other_objects() -> None:
    voices = [Evaluation("small", "approve", "small amount"), Evaluation("known", "approve", "known payee")]
    assert progress(STEPS, (), evaluations=voices) == Completed(automatic=True)


def test_a_holding_evaluator_leaves_the_request_to_people() -> None:
    voices = [Evaluation("small", "approve", "small amount"), Evaluation("new", "hold", "new payee")]
    assert progress(STEPS, (), evaluations=voices) == Waiting(("manager", "security"))
    votes = [approve(MANAGER, "ann"), approve(SECURITY, "b"), approve(SECURITY, "c")]
    assert progress(STEPS, votes, evaluations=voices) == Completed(automatic=False)


def test_a_denying_evaluator_ends_the_request_whatever_people_say() -> None:
    voices = [Evaluation("small", "approve", "small amount"), Evaluation("sanctions", "deny", "listed")]
    votes = [approve(MANAGER, "ann"), approve(SECURITY, "b"), approve(SECURITY, "c")]
    assert progress(STEPS, votes, evaluations=voices) == Ended("evaluator", "sanctions")


LEGAL = Step("legal", "Legal", groups=frozenset({"legal"}))
BOARD = Step("board", "Board", groups=frozenset({"board"}), after=frozenset({"legal", "manager"}))
SEAL = Step("seal", "Seal", groups=frozenset({"seal"}), after=frozenset({"board"}))
SEQUENCE = (SEAL, BOARD, LEGAL, MANAGER)


def test_a_step_opens_when_all_that_it_waits_for_are_complete() -> None:
    assert progress(SEQUENCE, ()) == Waiting(("legal", "manager"), later=("seal", "board"))
    votes = [approve(LEGAL, "lea")]
    assert progress(SEQUENCE, votes) == Waiting(("manager",), later=("seal", "board"))
    votes += [approve(MANAGER, "ann")]
    assert progress(SEQUENCE, votes) == Waiting(("board",), later=("seal",))
    votes += [approve(BOARD, "bea")]
    assert progress(SEQUENCE, votes) == Waiting(("seal",))
    assert progress(SEQUENCE, [*votes, approve(SEAL, "sam")]) == Completed(automatic=False)


@pytest.mark.requirement("ARS-114")
def test_what_was_said_in_a_step_that_is_not_open_counts_for_nothing() -> None:
    assert progress(SEQUENCE, [approve(SEAL, "sam"), deny(BOARD, "bea")]) == Waiting(
        ("legal", "manager"), later=("seal", "board")
    )


VOTES = st.builds(
    Vote,
    st.sampled_from(["manager", "security", "gone"]),
    st.sampled_from(["ann", "bea", "cid"]),
    st.sampled_from(["approve", "deny"]),
)


@given(st.lists(VOTES, max_size=12))
@pytest.mark.requirement("ARS-114")
def test_completion_always_has_the_quorum_of_distinct_people_and_no_veto(votes: list[Vote]) -> None:
    if isinstance(progress(STEPS, votes), Completed):
        for step in STEPS:
            approvers = {vote.person_id for vote in votes if vote.step_id == step.id and vote.decision == "approve"}
            deniers = {vote.person_id for vote in votes if vote.step_id == step.id and vote.decision == "deny"}
            assert len(approvers - deniers) >= step.quorum
            assert len(deniers) < step.veto


@given(st.lists(VOTES, max_size=6).flatmap(lambda votes: st.tuples(st.just(votes), st.permutations(votes))))
def test_the_order_of_votes_changes_nothing(orders: tuple[list[Vote], list[Vote]]) -> None:
    assert progress(STEPS, orders[0]) == progress(STEPS, orders[1])
