"""The rules file: what it says becomes objects, and anything wrong refuses it whole, with lines."""

import hashlib
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from arap_service.domain.policy import DEFAULT_MASK, Convertible, Permit, Requestable, Step
from arap_service.domain.policy_load import PolicyInvalid, load_policy, policy_schema, refuse_to_fetch
from arap_service.domain.policy_text import PolicyProblem
from arap_service.domain.reasons import ReasonRule

TREASURY = Path(__file__).parents[1] / "vectors" / "policy" / "rules" / "treasury.yaml"
FULL = """
version: 1
rules:
  - {id: ask, when: 'true', request: everything}
templates:
  everything:
    title: All of it
    explanation: Every member is set.
    caution: Careful
    effect: '"It happens"'
    risk: low
    denial_seconds: 60
    pending_seconds: 61
    approval_seconds: 62
    retention_seconds: 90000
    request_schema:
      type: object
      properties:
        context: {type: object, required: [justification]}
        requested_access: {type: object}
    reveal: [/to, /a~1b]
    reveal_reason: false
    mask: [pin]
    evaluators: [{id: small, when: 'true', decision: hold, reason: People look}]
    steps:
      - {id: one, title: One, groups: [g], people: [p], resolvers: [r], quorum: 2, veto: 3, repeat: true}
    provisioned: 'true'
    provisioned_retry_seconds: 9
    reason_required: [approve, revoke]
    reasons: {revoke: {pattern: INC, hint: The ticket}}
    notify: sentence
    standing_days: 7
    step_up: 120
"""


def problems(text: str) -> tuple[PolicyProblem, ...]:
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(text)
    return refused.value.problems


def rules(*lines: str, templates: str = "{}") -> str:
    return "\n".join(["version: 1", "rules:", *(f"  - {line}" for line in lines), f"templates: {templates}"])


def template(**members: str) -> str:
    steps = members.pop("steps", "[{id: s, title: S, groups: [g]}]")
    listed = ", ".join(f"{name}: {value}" for name, value in members.items())
    return rules(templates=f"{{t: {{title: T, explanation: E, steps: {steps}, {listed}}}}}").replace(
        "rules:\n", "rules: []\n"
    )


def test_every_member_of_a_template_arrives() -> None:
    policy = load_policy(FULL)
    judgement = policy.rules[0].judgement
    assert isinstance(judgement, Requestable)
    everything = judgement.template
    plain = {
        name: getattr(everything, name)
        for name in everything.__dataclass_fields__
        if name
        not in {"effect", "evaluators", "provisioned", "emergency", "scope"}  # the last two have tests of their own
    }
    assert plain == {
        "id": "everything",
        "title": "All of it",
        "explanation": "Every member is set.",
        "caution": "Careful",
        "risk": "low",
        "denial_seconds": 60,
        "pending_seconds": 61,
        "approval_seconds": 62,
        "retention_seconds": 90000,
        "request_schema": {
            "type": "object",
            "properties": {
                "context": {"type": "object", "required": ["justification"]},
                "requested_access": {"type": "object"},
            },
        },
        "catalogs": {},
        "form": False,
        "script": (),
        "reveal": ("/to", "/a~1b"),
        "reveal_reason": False,
        "mask": ("pin",),
        "steps": (
            Step("one", "One", frozenset({"g"}), frozenset({"p"}), frozenset({"r"}), quorum=2, veto=3, repeat=True),
        ),
        "provisioned_retry_seconds": 9,
        "reason_required": frozenset({"approve", "revoke"}),
        "reasons": {"revoke": ReasonRule("INC", "The ticket")},
        "notify": "sentence",
        "standing_days": 7,
        "step_up": 120,
    }
    assert everything.effect is not None
    assert everything.effect.evaluate({}) == "It happens"
    assert [(each.id, each.decision, each.reason) for each in everything.evaluators] == [
        ("small", "hold", "People look")
    ]
    assert everything.provisioned is not None
    assert everything.provisioned.holds({})


def test_what_a_template_leaves_out_is_the_cautious_default() -> None:
    policy = load_policy(template(risk="high"))
    plain = policy.templates["t"]
    assert (plain.denial_seconds, plain.approval_seconds, plain.reveal, plain.mask) == (300, 900, "whole", DEFAULT_MASK)
    assert (plain.steps[0].quorum, plain.steps[0].veto, plain.steps[0].repeat) == (1, 1, False)
    assert plain.reason_required == {"deny"}


def test_the_version_of_a_policy_is_the_digest_of_its_text() -> None:
    text = TREASURY.read_text(encoding="utf-8")
    assert load_policy(text).version == hashlib.sha256(text.encode()).hexdigest()


def test_the_smallest_policy_denies_everything() -> None:
    policy = load_policy("version: 1\nrules: []\n")
    assert (policy.rules, policy.templates, policy.groups, policy.entities, policy.clients) == ((), {}, {}, {}, {})
    assert policy.actions == {}


def test_the_actions_of_a_type_arrive_and_a_repeated_one_is_a_fault() -> None:
    text = "version: 1\nrules: []\nactions:\n  file: [read, write]\n  page: {}\n"
    assert load_policy(text.format("[turn]")).actions == {"file": ("read", "write"), "page": ("turn",)}
    for wrong in ("[turn, turn]", "turn", '[""]', "[1]"):
        assert [problem.line for problem in problems(text.format(wrong))] == [5]


def test_a_client_can_have_several_entries() -> None:
    policy = load_policy(
        "version: 1\nrules: []\nclients:\n  - {client: g, may: 'false'}\n  - {client: g, may: 'true'}\n"
    )
    assert [expression.holds({}) for expression in policy.clients["g"]] == [False, True]


def test_rules_keep_their_order() -> None:
    policy = load_policy(rules("{id: b, when: 'true', permit: true}", "{id: a, when: 'true', deny: never}"))
    assert [rule.id for rule in policy.rules] == ["b", "a"]
    assert policy.rules[0].judgement == Permit("b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", PolicyProblem(1, "", "the file is empty")),
        ("version: 1\nrules: []\nversion: 1\n", PolicyProblem(3, "/version", "the key stands here twice")),
        ("version: 1\n", PolicyProblem(1, "", '"rules" is a required property')),
        (
            rules("{id: a, when: 'true'}"),
            PolicyProblem(3, "/rules/0", "a rule gives exactly one of permit, deny and request"),
        ),
        (
            rules("{id: a, when: 'true', permit: true, deny: no_way}"),
            PolicyProblem(3, "/rules/0", "a rule gives exactly one of permit, deny and request"),
        ),
        (rules("{id: a, when: 'true', permit: false}"), PolicyProblem(3, "/rules/0/permit", "true was expected")),
        (
            rules("{id: a, when: 'true', permit: true}", "{id: a, when: 'true', deny: never}"),
            PolicyProblem(4, "/rules/1/id", "the id is used twice"),
        ),
        (
            rules("{id: a, when: 'true', request: t}"),
            PolicyProblem(3, "/rules/0/request", "no template has this name"),
        ),
        (
            rules("{id: a, when: 'nobody', permit: true}"),
            PolicyProblem(
                3, "/rules/0/when", "not a usable condition: undeclared reference to 'nobody' (in container '')"
            ),
        ),
        (
            template(steps="[{id: s, title: S}]"),
            PolicyProblem(3, "/templates/t/steps/0", "a step names groups, people, resolvers, relations or who"),
        ),
        (template(steps="[]"), PolicyProblem(3, "/templates/t/steps", "[] has less than 1 item")),
        (
            template(steps="[{id: s, title: S, groups: [g]}, {id: s, title: S, groups: [g]}]"),
            PolicyProblem(3, "/templates/t/steps/1/id", "the id is used twice"),
        ),
        (
            template(steps="[{id: s, title: S, people: [a], resolvers: [b], quorum: 3}]"),
            PolicyProblem(3, "/templates/t/steps/0/quorum", "the step names fewer deciders than its quorum"),
        ),
        (
            template(steps="[{id: s, title: S, groups: [h]}]") + "\ngroups: {g: G}",
            PolicyProblem(3, "/templates/t/steps/0/groups/0", "no group has this name"),
        ),
        (
            template(effect='"1 +"'),
            PolicyProblem(3, "/templates/t/effect", "not a usable expression: Syntax error: mismatched input"),
        ),
        (
            template(request_schema="{type: object, properties: {context: {$ref: 'https://x.example/s'}}}"),
            PolicyProblem(3, "/templates/t/request_schema", "not a JSON Schema 2020-12 that stands by itself"),
        ),
        (
            template(request_schema="{type: object, properties: {context: {type: thing}}}"),
            PolicyProblem(3, "/templates/t/request_schema", "not a JSON Schema 2020-12 that stands by itself"),
        ),
        (
            template(request_schema="{type: object, properties: {justification: {type: string}}}"),
            PolicyProblem(
                3,
                "/templates/t/request_schema/properties",
                "Additional properties are not allowed ('justification' was unexpected)",
            ),
        ),
    ],
)
@pytest.mark.requirement("ARS-106")
def test_a_fault_is_reported_with_line_and_pointer(text: str, expected: PolicyProblem) -> None:
    found = problems(text)
    assert len(found) == 1
    assert (found[0].line, found[0].pointer) == (expected.line, expected.pointer)
    assert found[0].message.startswith(expected.message)


@pytest.mark.parametrize("reason", ["policy_denied", "approval_unverifiable", "grant_pending"])
def test_a_requestable_denial_cannot_bear_a_reason_that_means_not_requestable(reason: str) -> None:
    text = f"version: 1\nrules:\n  - {{id: a, when: 'true', request: everything, reason: {reason}}}\n"
    assert [
        (each.line, each.pointer)
        for each in problems(text + FULL.partition("permit: true}\n")[0].partition("request: everything}\n")[2])
    ] == [(3, "/rules/0/reason")]


@pytest.mark.parametrize("reason", ["approval_unverifiable", "grant_pending"])
def test_a_final_denial_cannot_bear_a_reason_that_means_it_is_not(reason: str) -> None:
    [problem] = problems(rules(f"{{id: a, when: 'true', deny: {reason}}}"))
    assert (problem.line, problem.pointer) == (3, "/rules/0/deny")
    load_policy(rules("{id: a, when: 'true', deny: policy_denied}"))


@pytest.mark.parametrize(
    ("expression", "call"),
    [
        ('subject.id.matches("(")', 'matches("(")'),
        ('matches(subject.id, "[")', 'matches("[")'),
        ('true || subject.id.matches(r"\\d+(")', 'matches(r"\\d+(")'),
        ('[subject.id].exists(id, id.matches("a{1001}"))', 'matches("a{1001}")'),
        ('timestamp("2026-13-45T00:00:00Z") < timestamp("2026-01-01T00:00:00Z")', 'timestamp("2026-13-45T00:00:00Z")'),
        ('duration("soon") < duration("1h")', 'duration("soon")'),
        ('int("ten") == 10', 'int("ten")'),
        ('double("ten") == 10.0', 'double("ten")'),
        ('bool("maybe")', 'bool("maybe")'),
    ],
)
def test_an_expression_that_could_only_fail_is_refused_wherever_it_stands(expression: str, call: str) -> None:
    """In force, each would answer every question with an error, and that only when somebody asks."""
    quoted = "'" + expression + "'"
    inside = template(evaluators=f"[{{id: e, when: {quoted}, decision: hold, reason: R}}]", provisioned=quoted)
    for text, pointers in (
        (rules(f"{{id: a, when: {quoted}, permit: true}}"), ["/rules/0/when"]),
        (inside, ["/templates/t/evaluators/0/when", "/templates/t/provisioned"]),
        (template(effect=quoted), ["/templates/t/effect"]),
        (f"version: 1\nrules: []\nclients: [{{client: c, may: {quoted}}}]\n", ["/clients/0/may"]),
    ):
        found = problems(text)
        assert [problem.pointer for problem in found] == pointers
        assert {problem.message for problem in found} == {f"{call} cannot succeed, whatever the question is"}


@pytest.mark.parametrize(
    "expression",
    [
        'subject.id.matches("^a.*z$")',
        "subject.id.matches(resource.id)",
        'subject.id == "x.matches(\\"(\\")"',
        'subject.id == r"\\d(" && resource.id.matches("a")',
        'subject.id.matches("[" + "a]")',
        'timestamp("2026-01-01T00:00:00Z") < timestamp("2027-01-01T00:00:00Z")',
        'int("10") == 10 // as in matches("(")',
    ],
)
def test_an_expression_that_can_succeed_is_accepted(expression: str) -> None:
    [rule] = load_policy(rules(f"{{id: a, when: '{expression}', permit: true}}")).rules
    assert rule.judgement == Permit("a")


@pytest.mark.parametrize(
    ("value", "is_held"),
    [
        ("9223372036854775807", True),
        ("-9223372036854775808", True),
        ("9223372036854775808", False),
        ("[{deep: -9223372036854775809}]", False),
    ],
)
def test_a_fact_that_no_expression_can_hold_is_refused(value: str, *, is_held: bool) -> None:
    """In force, every question about that entity would be answered with an error."""
    text = f"version: 1\nrules: []\nentities:\n  user:\n    bob: {{n: 1}}\n    ann: {{n: {value}}}\n"
    if is_held:
        assert load_policy(text).entities["user"]["bob"] == {"n": 1}
    else:
        [problem] = problems(text)
        assert (problem.line, problem.pointer) == (6, "/entities/user/ann")
        assert problem.message == "a number is beyond 64 bits"


def test_all_faults_are_reported_together_in_the_order_of_the_file() -> None:
    text = rules("{id: a, when: 'x', permit: true}", "{id: a, when: 'y', request: t}")
    assert [each.pointer for each in problems(text)] == [
        "/rules/0/when",
        "/rules/1/id",
        "/rules/1/when",
        "/rules/1/request",
    ]


def test_an_editors_schema_check_accepts_what_the_loader_accepts() -> None:
    schema: dict[str, Any] = policy_schema()
    assert jsonschema_rs.meta.is_valid(schema)
    assert schema["$schema"].endswith("2020-12/schema")


def test_no_schema_is_ever_fetched() -> None:
    with pytest.raises(ValueError, match="itself"):
        refuse_to_fetch("https://x.example/s")


def test_what_may_be_requested_of_upstream_is_listed_or_nothing_is() -> None:
    alone = rules("{id: a, when: 'true', permit: true}")
    assert load_policy(alone).upstream is None
    assert load_policy(alone + "\nupstream: {}").upstream == Convertible()
    listed = load_policy(alone + "\nupstream: {convertible: [over_limit], unexplained: true}").upstream
    assert listed == Convertible(frozenset({"over_limit"}), unexplained=True)
    (problem,) = problems(alone + "\nupstream: {identifier: 'https://pdp.example'}")
    assert problem.pointer == "/upstream"
