"""What a reason must look like."""

import pytest

from arap_service.domain.policy_load import PolicyInvalid, load_policy
from arap_service.domain.reasons import ReasonRule, is_usable, reason_fault

TICKET = {"pattern": r"\bINC-[0-9]{4,}\b", "hint": "Name the ticket."}
TEMPLATE = {"reason_required": ["deny"], "reasons": {"deny": TICKET}}


@pytest.mark.parametrize(
    ("decision", "reason", "fault"),
    [
        ("deny", "INC-0815: not now", None),
        ("deny", "see INC-0815", None),
        ("deny", "INC-08", "pattern"),
        ("deny", None, "required"),
        ("approve", "anything", None),
        ("approve", None, None),
    ],
)
def test_reason_is_judged_by_the_rule_of_its_decision(decision: str, reason: str | None, fault: str | None) -> None:
    assert reason_fault(TEMPLATE, decision, reason) == fault


def test_template_from_before_patterns_wants_none() -> None:
    assert reason_fault({"reason_required": []}, "deny", "whatever") is None


@pytest.mark.parametrize("pattern", ["(", r"(?=a)b", r"(a)\1", "(a{1000}){1000}"])
def test_pattern_that_could_hang_or_makes_no_sense_is_unusable(pattern: str) -> None:
    assert not is_usable(pattern)


def test_pattern_that_other_engines_choke_on_is_tried_in_linear_time() -> None:
    """With backtracking this would take longer than anybody waits; the limit of the test run is two minutes."""
    assert not ReasonRule("^(a+)+$", "").fits("a" * 4000 + "!")


def test_unusable_pattern_is_refused_with_its_line() -> None:
    text = """version: 1
rules: []
templates:
  t:
    title: T
    explanation: E
    steps: [{id: s, title: S, groups: [g]}]
    reasons:
      approve: {pattern: 'INC-[0-9]+', hint: fine}
      deny: {pattern: '(?=x)', hint: odd}
"""
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(text)
    [problem] = refused.value.problems
    assert problem.line == 10
    assert "linear time" in str(problem)
    template = load_policy(text.replace("(?=x)", "x")).templates["t"]
    assert template.reason_required == {"approve", "deny"}
    assert template.reasons["approve"] == ReasonRule("INC-[0-9]+", "fine")
