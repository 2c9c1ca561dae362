"""What rules say where a case in YAML would not show it (`tests/test_policy_check.py` runs those)."""

from pathlib import Path

import pytest

from arap_service.domain.policy import Question, effect_of, is_provisioned
from arap_service.domain.policy_load import load_policy

FOLDER = Path(__file__).parents[1] / "vectors" / "policy"


def test_a_condition_on_provisioning_that_errs_holds_the_grant_back() -> None:
    text = (FOLDER / "rules" / "treasury.yaml").read_text(encoding="utf-8")
    policy = load_policy(text.replace("payroll_run: {granted: true}", "payroll_run: {}"))
    question = Question({"type": "user", "id": "a"}, {"type": "tool", "id": "payroll_run"}, {"name": "x"}, {})
    assert is_provisioned(policy, policy.templates["payroll"], question) is False


@pytest.mark.parametrize("effect", ["call.arguments", '""', "call.arguments.to", "1 / 0"])
def test_an_effect_that_is_no_sentence_is_left_out(effect: str) -> None:
    text = (FOLDER / "rules" / "treasury.yaml").read_text(encoding="utf-8")
    start = text.index("effect: ")
    policy = load_policy(text[:start] + f"effect: '{effect}'" + text[text.index("\n", start) :])
    context = {"urn:x-arap:tool_call": {"arguments": {"to": 5}}}
    question = Question({"type": "user", "id": "a"}, {"type": "tool", "id": "t"}, {"name": "x"}, context)
    assert effect_of(policy, policy.templates["wire"], question) is None
