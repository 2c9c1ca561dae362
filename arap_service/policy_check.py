"""Runs policy cases: questions with the answers that a rules file must give, written by people who need not program.

Reads and compares; the answers come from `domain/policy.py`. A case is YAML in the shape of `policy_case.schema.json`.
What an enforcement point adds to a tool call (server, tool, hash) is added where the case leaves it out.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema_rs

from arap_service.domain.policy import (
    Deny,
    Judgement,
    Permit,
    Policy,
    Question,
    Requestable,
    effect_of,
    hear_evaluators,
    is_provisioned,
    judge,
    may_submit,
)
from arap_service.domain.policy_load import PolicyInvalid, refuse_to_fetch
from arap_service.domain.policy_text import read_text
from arap_service.policy_people import described, why_not
from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable, arguments_hash


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case went: `differences` is empty when the rules answered as expected."""

    path: Path
    says: str
    differences: tuple[str, ...]


def case_files(paths: Iterable[Path]) -> list[Path]:
    """The case files among `paths`; of a folder all its YAML files, in order."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return found


def read_case(text: str) -> dict[str, Any]:
    """The case that `text` describes.

    Raises:
        PolicyInvalid: It is not one; the problems have lines.
    """
    source = read_text(text)
    if not source.problems:
        validator = jsonschema_rs.Draft202012Validator(case_schema(), retriever=refuse_to_fetch)
        for error in validator.iter_errors(source.value):
            source.report(error.message, *error.instance_path)
    if source.problems:
        raise PolicyInvalid(source.problems)
    case: dict[str, Any] = source.value
    return case


def case_schema() -> dict[str, Any]:
    """The JSON Schema of a case, for editors and for the check itself."""
    text = resources.files("arap_service").joinpath("policy_case.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def run_case(policy: Policy, path: Path) -> CaseResult:
    """Put the case at `path` to `policy`.

    Raises:
        PolicyInvalid: The file is no case.
        OSError: It cannot be read.
    """
    case = read_case(path.read_text(encoding="utf-8"))
    asked = case["question"]
    context = _completed(asked.get("context", {}))
    question = Question(asked["subject"], asked["resource"], asked["action"], context, case.get("client"))
    outcome = _outcome(policy, question)
    differences = [
        f"expected {name} {_shown(value)}, found {_found(outcome, name)}"
        for name, value in case["expect"].items()
        if name not in outcome or outcome[name] != value
    ]
    expected = case.get("may_submit")
    if expected is not None and may_submit(policy, case.get("client", ""), question) != expected:
        differences.append(f"expected may_submit {_shown(expected)}, found {_shown(not expected)}")
    differences += _deciders(policy, question, case)
    return CaseResult(path, case["says"], tuple(differences))


def _outcome(policy: Policy, question: Question) -> dict[str, Any]:
    judgement = judge(policy, question)
    outcome = _summary(judgement)
    if isinstance(judgement, Requestable):
        template = judgement.template
        voices = hear_evaluators(policy, template, question)
        outcome["effect"] = effect_of(policy, template, question)
        outcome["evaluators"] = {voice.evaluator_id: voice.decision for voice in voices}
        outcome["provisioned"] = is_provisioned(policy, template, question)
    return outcome


def _deciders(policy: Policy, question: Question, case: Mapping[str, Any]) -> Iterator[str]:
    expected: dict[str, str | None] = {**dict.fromkeys(case.get("eligible", ())), **case.get("ineligible", {})}
    judgement = judge(policy, question)
    for person_id, wanted in expected.items():
        found: str | None = "nothing to decide"
        if isinstance(judgement, Requestable):
            person = described(policy, person_id, case.get("people", {}).get(person_id, {}))
            found = why_not(policy, judgement.template, question, person)
        if found != wanted:
            yield f"expected {person_id} {wanted or 'eligible'}, found {found or 'eligible'}"


def _summary(judgement: Judgement) -> dict[str, Any]:
    if isinstance(judgement, Permit):
        return {"permit": judgement.rule_id}
    if isinstance(judgement, Deny):
        return {"deny": judgement.reason}
    return {"request": judgement.template.id, "reason": judgement.reason}


def _completed(context: Mapping[str, Any]) -> dict[str, Any]:
    call = context.get(TOOL_CALL)
    if not isinstance(call, dict):
        return dict(context)
    whole = {"server": "any", "tool": "any", **call}
    try:
        bound = {"arguments_hash": arguments_hash(whole.get("arguments", {}))}
    except (Unrepresentable, TypeError, ValueError):  # the case is about arguments that have no hash
        bound = {}
    return {**bound, **context, TOOL_CALL: whole}


def _found(outcome: Mapping[str, Any], name: str) -> str:
    if name in outcome:
        return _shown(outcome[name])
    decision = next(iter(outcome))
    return f"{decision} {_shown(outcome[decision])}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
