"""What holds when the rules say one thing and another decision point another (design section 4, external PDP)."""

import pytest

from arap_service.domain.policy import (
    NO_MATCH,
    POLICY_ERROR,
    Convertible,
    Deny,
    Judgement,
    Permit,
    Requestable,
    Template,
)
from arap_service.domain.reevaluation import Reason
from arap_service.domain.tool_calls import UNBOUND
from arap_service.domain.upstream import (
    UNAVAILABLE,
    UPSTREAM,
    Allowed,
    Answer,
    Refused,
    Silent,
    combine,
    is_mandatory,
    passed_on,
    read_answer,
)

REQUESTABLE = Requestable("r", "needs_approval", Template("t", "Title", "Explanation", ()))
PERMIT = Permit("p")
SUSPENDED = Deny("d", "subject_suspended")
NO_RULE = Deny(None, NO_MATCH, mandatory=False)
UNBOUND_CALL = Deny("r", UNBOUND, mandatory=False)
LISTED = Convertible(frozenset({"over_limit"}))
BOTH = Convertible(frozenset({"over_limit"}), unexplained=True)


@pytest.mark.parametrize(
    ("ours", "theirs", "holds"),
    [
        (REQUESTABLE, Allowed(), Permit(UPSTREAM)),
        (NO_RULE, Allowed(), Permit(UPSTREAM)),
        (UNBOUND_CALL, Allowed(), Permit(UPSTREAM)),
        (PERMIT, Refused("over_limit"), Deny(None, "over_limit")),
        (PERMIT, Refused("closed"), Deny(None, "closed")),
        (NO_RULE, Refused("over_limit"), Deny(None, "over_limit")),
        (REQUESTABLE, Refused("over_limit"), REQUESTABLE),
        (REQUESTABLE, Refused("closed"), Deny(None, "closed")),
        (REQUESTABLE, Refused(None), Deny(None, NO_MATCH)),
        (UNBOUND_CALL, Refused("over_limit"), UNBOUND_CALL),
        (REQUESTABLE, Silent("timeout"), Deny(None, UNAVAILABLE)),
        (PERMIT, Silent("connect"), Deny(None, UNAVAILABLE)),
    ],
)
def test_the_other_decides_and_the_rules_say_which_denials_may_be_requested(
    ours: Judgement, theirs: Answer, holds: Judgement
) -> None:
    assert combine(LISTED, ours, theirs) == holds


@pytest.mark.requirement("PDP-70")
@pytest.mark.parametrize("theirs", [Allowed(), Refused("over_limit"), Refused(None), Silent("timeout")])
@pytest.mark.parametrize("ours", [SUSPENDED, Deny("d", POLICY_ERROR), Deny(None, "arguments_hash_mismatch")])
def test_what_the_rules_deny_in_so_many_words_is_denied_whatever_the_other_says(ours: Deny, theirs: Answer) -> None:
    assert is_mandatory(ours)
    assert combine(BOTH, ours, theirs) == ours


def test_a_denial_without_a_reason_is_requestable_only_where_the_rules_say_so() -> None:
    assert combine(BOTH, REQUESTABLE, Refused(None)) == REQUESTABLE
    assert combine(LISTED, REQUESTABLE, Refused(None)) == Deny(None, NO_MATCH)


@pytest.mark.parametrize("reason", [*Reason, "Two words", "x" * 65, "über"])
def test_a_reason_that_means_something_of_ours_or_is_no_code_is_not_passed_on(reason: str) -> None:
    assert combine(LISTED, REQUESTABLE, Refused(reason)) == Deny(None, NO_MATCH)


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"decision": True}, Allowed({})),
        ({"decision": True, "context": {"mask": ["iban"]}}, Allowed({"mask": ["iban"]})),
        ({"decision": False}, Refused(None, {})),
        ({"decision": False, "context": {"reason": "closed"}}, Refused("closed", {"reason": "closed"})),
        ({"decision": False, "context": {"reason": 7}}, Refused(None, {"reason": 7})),
        ({"decision": 1}, Silent("no_decision")),
        ({"decision": "true"}, Silent("no_decision")),
        ({"decision": None}, Silent("no_decision")),
        ({}, Silent("no_decision")),
        ([], Silent("not_an_object")),
        ({"decision": True, "context": None}, Silent("context")),
    ],
)
def test_only_an_exact_answer_is_one(document: object, answer: Answer) -> None:
    assert read_answer(document) == answer


def test_a_permit_keeps_its_obligations_and_loses_what_would_mean_something_of_ours() -> None:
    said = {
        "mask": ["iban"],
        "evaluation_id": "theirs",
        "approval": {},
        "access_request": {},
        "reason_admin": {"en": "p7"},
    }
    assert passed_on(Allowed(said), Permit(UPSTREAM)) == {"mask": ["iban"]}


@pytest.mark.requirement("PDP-44")
def test_a_denial_keeps_the_words_for_the_user_and_not_those_for_the_administrator() -> None:
    said = {"reason_user": {"en": "No."}, "reason_admin": {"en": "policy 7"}, "mask": ["iban"]}
    assert passed_on(Refused(None, said), Deny(None, NO_MATCH)) == {"reason_user": {"en": "No."}}


def test_nothing_of_the_other_stands_beside_an_offer() -> None:
    assert passed_on(Refused("over_limit", {"reason_user": {"en": "No."}, "mask": []}), REQUESTABLE) == {}
    assert passed_on(Allowed({"mask": []}), SUSPENDED) == {}
    assert passed_on(None, PERMIT) == {}
