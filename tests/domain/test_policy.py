"""What the rules say: one YAML file for each case (`tests/vectors/policy/README.md`)."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from arap_service.domain.policy import (
    Deny,
    Judgement,
    Permit,
    Question,
    Requestable,
    effect_of,
    hear_evaluators,
    is_provisioned,
    judge,
    may_submit,
)
from arap_service.domain.policy_load import load_policy, refuse_to_fetch
from arap_service.domain.policy_text import read_text
from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable, arguments_hash

FOLDER = Path(__file__).parents[1] / "vectors" / "policy"
CASES = sorted((FOLDER / "cases").glob("*.yaml"))


def case_of(path: Path) -> dict[str, Any]:
    text = read_text(path.read_text(encoding="utf-8"))
    assert text.problems == []
    schema = json.loads((FOLDER / "case.schema.json").read_text(encoding="utf-8"))
    jsonschema_rs.Draft202012Validator(schema, retriever=refuse_to_fetch).validate(text.value)
    case: dict[str, Any] = text.value
    return case


def completed(context: dict[str, Any]) -> dict[str, Any]:
    """The context with what an enforcement point adds to a tool call, as far as the case leaves it out."""
    call = context.get(TOOL_CALL)
    if not isinstance(call, dict):
        return context
    whole = {"server": "bank", "tool": "any", **call}
    try:
        bound = {"arguments_hash": arguments_hash(whole.get("arguments", {}))}
    except Unrepresentable:
        bound = {}
    return {**bound, **context, TOOL_CALL: whole}


def summary(judgement: Judgement) -> dict[str, Any]:
    match judgement:
        case Permit(rule_id):
            return {"permit": rule_id}
        case Deny(_, reason):
            return {"deny": reason}
        case Requestable(_, reason, template):
            return {"request": template.id, "reason": reason}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.requirement("PDP-05", "ARS-02")
def test_policy_case(path: Path) -> None:
    case = case_of(path)
    policy = load_policy((FOLDER / "rules" / f"{case['rules']}.yaml").read_text(encoding="utf-8"))
    asked = case["question"]
    context = completed(asked.get("context", {}))
    question = Question(asked["subject"], asked["resource"], asked["action"], context, case.get("client"))
    judgement = judge(policy, question)
    outcome = summary(judgement)
    if isinstance(judgement, Requestable):
        template = judgement.template
        outcome["effect"] = effect_of(policy, template, question)
        outcome["evaluators"] = {
            voice.evaluator_id: voice.decision for voice in hear_evaluators(policy, template, question)
        }
        outcome["provisioned"] = is_provisioned(policy, template, question)
    assert {name: outcome.get(name) for name in case["expect"]} == case["expect"]
    if "may_submit" in case:
        assert may_submit(policy, case["client"], question) == case["may_submit"]


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
