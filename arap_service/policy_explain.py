"""Explains what a rules file says to one question: which rules were tried, what their conditions gave, who may decide.

For whoever writes rules. The decision is that of `domain/policy.py`, taken by the same functions; here it is only taken
apart. An approval in the context is set aside, because it says nothing about the rules. Nothing is stored or sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from arap_service.domain.policy import (
    Deny,
    Judgement,
    Permit,
    Policy,
    Question,
    Requestable,
    Template,
    effect_of,
    facts_of,
    hear_evaluators,
    is_provisioned,
    judge,
    may_submit,
)
from arap_service.domain.policy_load import load_policy
from arap_service.domain.policy_text import read_text
from arap_service.domain.tool_calls import flaw_of
from arap_service.domain.visible import visible
from arap_service.policy_people import related
from arap_service.protocol.expressions import ExpressionError

NOT_REACHED: Final = "not reached"
_MARKS: Final = {"true": "yes", "false": "no"}


@dataclass(frozen=True, slots=True)
class Rules:
    """A rules file: the policy that it makes, and its text as values, where the expressions still are."""

    policy: Policy
    file: Mapping[str, Any]


def read_rules(text: str) -> Rules:
    """The rules in `text`.

    Raises:
        PolicyInvalid: Anything at all is wrong with them.
    """
    return Rules(load_policy(text), read_text(text).value)


def explain(rules: Rules, question: Question) -> dict[str, Any]:
    """What the rules say to `question` and why, as JSON."""
    policy = rules.policy
    judgement = judge(policy, question)
    return {
        "policy": policy.version,
        "client": question.client_id,
        **_decision(judgement),
        "refused_before_rules": flaw_of(question.context),
        "rules": _tried(rules, question),
        "upstream": _upstream(policy),
        "may_request": None if question.client_id is None else may_submit(policy, question.client_id, question),
        "template": _template(rules, judgement.template, question) if isinstance(judgement, Requestable) else None,
    }


def question_of(request: Mapping[str, Any], *, client_id: str | None) -> Question:
    """The question in an evaluation request whose four parts are objects, without an approval."""
    context = {name: value for name, value in request.get("context", {}).items() if name != "approval"}
    return Question(request["subject"], request["resource"], request["action"], context, client_id)


def told(found: Mapping[str, Any]) -> Iterator[str]:
    """The explanation as lines for a terminal; what the request says cannot move its cursor or begin a line."""
    yield f"rules {found['policy'][:12]}"
    if found["refused_before_rules"]:
        yield f"refused before any rule: {found['refused_before_rules']}"
    width = max((len(rule["id"]) for rule in found["rules"]), default=0)
    for rule in found["rules"]:
        yield f"  {_MARKS.get(rule['gave'], rule['gave']):<11} {rule['id']:<{width}}  {_line(rule['when'])}"
    by = f" by rule {found['rule']}" if found["rule"] else " because no rule decides"
    because = "" if found["reason"] is None else f", reason {found['reason']}"
    yield f"decision: {found['decision']}{by}{because}"
    if found["upstream"] is not None:
        reasons = [*found["upstream"]["convertible"], *(["none at all"] if found["upstream"]["unexplained"] else [])]
        yield "  unless a rule denies, the decision point upstream decides; it is not asked here"
        yield f"  reasons for which its denial may be requested: {', '.join(reasons) or 'not one'}"
    if found["template"] is not None:
        yield from _told_template(found["template"])
        if found["may_request"] is not None:
            yield f"client {_line(visible(found['client']))} {'may' if found['may_request'] else 'may not'} request it"


def _told_template(template: Mapping[str, Any]) -> Iterator[str]:
    yield f"template {template['id']}: {template['title']}"
    if template["effect"] is not None:
        yield f"  what approving does: {_line(visible(template['effect']))}"
    for evaluator in template["evaluators"]:
        said = f"says {evaluator['said']}" if evaluator["said"] else "is silent"
        yield f"  evaluator {evaluator['id']} {said}  {_line(evaluator['when'])}"
    if template["provisioned"] is not None:
        gave = _MARKS[str(template["provisioned"]["gave"]).lower()]
        yield f"  provisioned: {gave}  {_line(template['provisioned']['when'])}"
    for step in template["steps"]:
        who = [f"{kind} {', '.join(step[kind])}" for kind in ("groups", "people", "resolvers") if step[kind]]
        who += [_told_relation(each) for each in step["relations"]]
        who += [f"whoever this names: {_line(step['who'])}"] if step["who"] else []
        who += [f"opens after {', '.join(step['after'])}"] if step["after"] else []
        counts = f"{step['quorum']} to approve, {step['veto']} to deny"
        yield f"  step {step['id']} ({step['title']}): {counts}; {'; '.join(who)}"


def _told_relation(relation: Mapping[str, Any]) -> str:
    named = ", ".join(visible(name) for name in relation["named"]) or "nobody now"
    return f"{relation['is']} of the {relation['of']} ({named})"


def _line(expression: str) -> str:
    return " ".join(expression.split())


def _upstream(policy: Policy) -> dict[str, Any] | None:
    found = policy.upstream
    return None if found is None else {"convertible": sorted(found.reasons), "unexplained": found.unexplained}


def _decision(judgement: Judgement) -> dict[str, Any]:
    match judgement:
        case Permit(rule_id=rule_id):
            return {"decision": "permit", "rule": rule_id, "reason": None}
        case Deny(rule_id=rule_id, reason=reason):
            return {"decision": "deny", "rule": rule_id, "reason": reason}
        case Requestable(rule_id=rule_id, reason=reason):
            return {"decision": "request", "rule": rule_id, "reason": reason}


def _tried(rules: Rules, question: Question) -> list[dict[str, str]]:
    """Every rule in order with what its condition gave; those behind the deciding one, or a flaw, were not reached."""
    is_over = flaw_of(question.context) is not None
    tried: list[dict[str, str]] = []
    for rule, written in zip(rules.policy.rules, rules.file["rules"], strict=True):
        gave = NOT_REACHED
        if not is_over:
            try:
                gave = str(rule.when.holds(facts_of(rules.policy, question))).lower()
            except ExpressionError as error:
                gave = f"error: {error.code}"
            is_over = gave != "false"
        tried.append({"id": rule.id, "when": written["when"], "gave": gave})
    return tried


def _template(rules: Rules, template: Template, question: Question) -> dict[str, Any]:
    written = rules.file["templates"][template.id]
    said = {voice.evaluator_id: voice.decision for voice in hear_evaluators(rules.policy, template, question)}
    return {
        "id": template.id,
        "title": template.title,
        "effect": effect_of(rules.policy, template, question),
        "evaluators": [
            {"id": each["id"], "when": each["when"], "said": said.get(each["id"])} for each in _listed(written)
        ],
        "provisioned": None
        if template.provisioned is None
        else {"when": written["provisioned"], "gave": is_provisioned(rules.policy, template, question)},
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "quorum": step.quorum,
                "veto": step.veto,
                "groups": sorted(step.groups),
                "people": sorted(step.people),
                "resolvers": sorted(step.resolvers),
                "relations": [
                    {"of": each.of, "is": each.relation, "named": [*related(rules.policy, each, question)]}
                    for each in sorted(step.relations, key=lambda each: (each.of, each.relation))
                ],
                "who": step.who,
                "after": sorted(step.after),
            }
            for step in template.steps
        ],
    }


def _listed(written: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    evaluators: Sequence[Mapping[str, Any]] = written.get("evaluators", ())
    return evaluators
