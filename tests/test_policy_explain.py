"""An explanation is the decision taken apart: the same answer, and every condition with what it gave."""

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from arap_service.policy_explain import explain, question_of, read_rules, told
from tests.peers import question
from tests.test_cli import failure, run

RULES = """
version: 1
groups: {treasurers: Those who move money}
clients: [{client: gate, may: 'subject.id != "mallory"'}]
rules:
  - {id: readers, when: 'action.name == "read"', permit: true}
  - {id: broken, when: 'context.limit > 5', deny: too_much}
  - {id: transfers, when: 'resource.id == "wire_transfer"', request: transfer}
  - {id: never, when: 'true', deny: closed}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    effect: '"Sends " + string(call.arguments.amount)'
    provisioned: 'subject.id == "bob"'
    evaluators:
      - {id: small, when: 'call.arguments.amount < 10', decision: approve, reason: small}
      - {id: large, when: 'call.arguments.amount > 1000', decision: hold, reason: large}
    steps: [{id: check, title: Second look, groups: [treasurers], people: [carol], resolvers: [risk], quorum: 2}]
"""


def explained(asked: dict[str, Any], *, client: str | None = "gate") -> dict[str, Any]:
    return explain(read_rules(RULES), question_of(asked, client_id=client))


def test_a_requestable_denial_is_explained_down_to_who_may_decide() -> None:
    asked = question()
    asked["context"]["limit"] = 1
    found = explained(asked)
    assert [(rule["id"], rule["gave"]) for rule in found["rules"]] == [
        ("readers", "false"),
        ("broken", "false"),
        ("transfers", "true"),
        ("never", "not reached"),
    ]
    assert (found["decision"], found["rule"], found["reason"]) == ("request", "transfers", "approval_required")
    assert found["may_request"] is True
    assert [(each["id"], each["said"]) for each in found["template"]["evaluators"]] == [
        ("small", None),
        ("large", "hold"),
    ]
    assert found["template"]["provisioned"]["gave"] is False
    assert list(told(found))[1:] == snapshot(
        [
            '  no          readers    action.name == "read"',
            "  no          broken     context.limit > 5",
            '  yes         transfers  resource.id == "wire_transfer"',
            "  not reached never      true",
            "decision: request by rule transfers, reason approval_required",
            "template transfer: Wire transfer",
            "  what approving does: Sends 50000",
            "  evaluator small is silent  call.arguments.amount < 10",
            "  evaluator large says hold  call.arguments.amount > 1000",
            '  provisioned: no  subject.id == "bob"',
            "  step check (Second look): 2 to approve, 1 to deny; groups treasurers; people carol; resolvers risk",
            "client gate may request it",
        ]
    )


def test_a_condition_that_cannot_be_evaluated_decides_and_is_shown_as_the_one() -> None:
    """An expression error denies; no later rule is tried."""
    found = explained(question())
    assert [(rule["id"], rule["gave"]) for rule in found["rules"]] == [
        ("readers", "false"),
        ("broken", "error: failed"),
        ("transfers", "not reached"),
        ("never", "not reached"),
    ]
    assert (found["decision"], found["rule"], found["reason"]) == ("deny", "broken", "policy_error")
    assert found["template"] is None


def test_a_call_that_contradicts_its_hash_is_refused_before_any_rule() -> None:
    asked = question()
    asked["context"]["arguments_hash"] = "sha256:" + "0" * 64
    found = explained(asked)
    assert found["refused_before_rules"] == "arguments_hash_mismatch"
    assert {rule["gave"] for rule in found["rules"]} == {"not reached"}
    assert (found["decision"], found["rule"]) == ("deny", None)


def test_an_approval_in_the_context_changes_nothing() -> None:
    asked = question()
    asked["context"] |= {"limit": 1}
    plain = explained(asked)
    asked["context"]["approval"] = {"id": "apr_1", "state": "x"}
    assert explained(asked) == plain


def test_a_client_that_may_not_request_is_named() -> None:
    asked = question(subject="mallory")
    asked["context"]["limit"] = 1
    assert list(told(explained(asked)))[-1] == "client gate may not request it"
    assert explained(asked, client=None)["may_request"] is None


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rules, request = tmp_path / "rules.yaml", tmp_path / "request.json"
    rules.write_text(RULES, encoding="utf-8")
    request.write_text(json.dumps(question() | {"action": {"name": "read"}}), encoding="utf-8")
    return rules, request


def test_the_command_explains_to_people_and_to_programs(files: tuple[Path, Path]) -> None:
    rules, request = files
    finished = run("policy", "explain", str(request), "--rules", str(rules))
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "decision: permit by rule readers"
    as_json = run("policy", "explain", str(request), "--rules", str(rules), "--client", "gate", "--json")
    assert json.loads(as_json.stdout)["decision"] == "permit"


def test_what_a_request_says_writes_nothing_else_on_the_terminal() -> None:
    """Nor a line of its own that looks like one of the explanation's."""
    effect = "effect: '\"Sends \" + string(call.arguments.amount)'"
    rules = read_rules(RULES.replace(effect, "effect: 'resource.properties.to'", 1))
    asked = question()
    asked["context"]["limit"] = 1
    asked["resource"]["properties"] = {"to": "\x1b[2J\u202ex\x9b31m\ndecision: permit by rule readers"}
    lines = list(told(explain(rules, question_of(asked, client_id="gate\nno\x1b[m"))))
    assert not any(char in line for line in lines for char in "\x1b\u202e\x9b\n")
    assert not any(line.startswith("decision: permit") for line in lines)
    assert sum("decision: permit" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("text", "says"), [("{", "is not valid JSON"), ("[]", "is not a JSON object"), ('{"subject": 1}', "/subject")]
)
def test_a_request_that_is_none_is_one_line(files: tuple[Path, Path], text: str, says: str) -> None:
    rules, request = files
    request.write_text(text, encoding="utf-8")
    said = failure("policy", "explain", str(request), "--rules", str(rules))
    assert says in said
    assert said.count("\n") == 0


def test_rules_that_stand_behind_another_decision_point_say_so() -> None:
    text = RULES.replace("groups:", "upstream: {convertible: [over_limit], unexplained: true}\ngroups:", 1)
    found = explain(read_rules(text), question_of(question(), client_id="gate"))
    assert found["upstream"] == {"convertible": ["over_limit"], "unexplained": True}
    assert "  reasons for which its denial may be requested: over_limit, none at all" in told(found)
    assert explained(question())["upstream"] is None


def test_relations_expressions_and_the_order_of_steps_are_told_with_whom_they_name_now() -> None:
    text = """
version: 1
entities: {user: {alice: {manager: [mia, max]}}}
rules: [{id: ask, when: 'true', request: wire}]
templates:
  wire:
    title: Wire
    explanation: Somebody agrees.
    steps:
      - {id: first, title: First, relations: [{of: subject, is: manager}, {of: resource, is: owner}]}
      - {id: second, title: Second, who: 'person.id in ["a", "b"]', after: [first]}
"""
    asked = {
        "subject": {"type": "user", "id": "alice"},
        "resource": {"type": "host", "id": "db"},
        "action": {"name": "login"},
    }
    found = explain(read_rules(text), question_of(asked, client_id=None))
    assert [line.split("; ") for line in list(told(found))[-2:]] == [
        [
            "  step first (First): 1 to approve, 1 to deny",
            "owner of the resource (nobody now)",
            "manager of the subject (mia, max)",
        ],
        [
            "  step second (Second): 1 to approve, 1 to deny",
            'whoever this names: person.id in ["a", "b"]',
            "opens after first",
        ],
    ]
