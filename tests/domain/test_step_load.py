"""The steps of a template: what the file may say about them, and what is refused with its line."""

from datetime import UTC, datetime
from typing import Any

import pytest

from arap_service.domain.policy import Step
from arap_service.domain.policy_load import PolicyInvalid, load_policy
from arap_service.domain.timing import Escalation, Timing, dues, timing_as_json, timing_of


def steps_of(*steps: str) -> tuple[Step, ...]:
    return load_policy(file_with(*steps)).templates["t"].steps


def file_with(*steps: str) -> str:
    listed = "\n".join(f"      - {step}" for step in steps)
    return f"version: 1\nrules: []\ntemplates:\n  t:\n    title: T\n    explanation: E\n    steps:\n{listed}\n"


def problems_of(text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(text)
    return [(each.line, each.pointer, each.message) for each in refused.value.problems]


def test_steps_may_wait_for_others() -> None:
    found = steps_of("{id: a, title: A, groups: [g]}", "{id: b, title: B, groups: [g], after: [a]}")
    assert [step.after for step in found] == [frozenset(), frozenset({"a"})]


def test_a_step_says_when_it_reminds_escalates_and_ends() -> None:
    found = steps_of(
        "{id: a, title: A, groups: [g], remind_seconds: [20, 10], escalate: {after_seconds: 30, people: [p]},"
        " deadline_seconds: 40, on_deadline: deny}"
    )[0]
    assert found.timing == Timing((10, 20), Escalation(30, frozenset(), frozenset({"p"})), 40, "deny")
    opened = datetime(2026, 4, 30, 20, tzinfo=UTC)
    assert [(due.kind, due.number, (due.at - opened).total_seconds()) for due in dues(found.timing, opened)] == [
        ("remind", 1, 10),
        ("remind", 2, 20),
        ("escalate", 1, 30),
        ("deadline", 1, 40),
    ]
    assert timing_of(timing_as_json(found.timing)) == found.timing
    assert timing_of(timing_as_json(Timing())) == Timing()


@pytest.mark.parametrize(
    ("members", "pointer", "message"),
    [
        ("on_deadline: deny", "on_deadline", "there is no deadline_seconds"),
        ("deadline_seconds: 9, on_deadline: escalate", "on_deadline", "escalate says to whom"),
        ("escalate: {groups: [g]}", "escalate", "after_seconds says when"),
        (
            "remind_seconds: [9], deadline_seconds: 9",
            "deadline_seconds",
            "the step is over before it reminds or escalates",
        ),
        (
            "escalate: {after_seconds: 10, groups: [g]}, deadline_seconds: 9",
            "deadline_seconds",
            "the step is over before it reminds or escalates",
        ),
    ],
)
def test_times_that_contradict_each_other_are_refused_with_their_line(members: str, pointer: str, message: str) -> None:
    found = problems_of(file_with("{id: a, title: A, groups: [g], " + members + "}"))
    assert found == [(8, f"/templates/t/steps/0/{pointer}", message)]


def test_a_group_that_is_escalated_to_must_be_known() -> None:
    text = file_with("{id: a, title: A, groups: [g], escalate: {after_seconds: 9, groups: [h]}}") + "groups: {g: G}\n"
    assert problems_of(text) == [(8, "/templates/t/steps/0/escalate/groups/0", "no group has this name")]


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ("person", "not a usable condition: the expression isn't known to be true or false"),
        ("nobody.id == 1", "not a usable condition: undeclared reference to 'nobody.id'"),
        ("int('x') == 1", "int('x') cannot succeed"),
    ],
)
def test_an_expression_that_cannot_name_anybody_is_refused_with_its_line(who: str, message: str) -> None:
    (line, pointer, said), *others = problems_of(file_with('{id: a, title: A, who: "' + who + '"}'))
    assert (line, pointer, others) == (8, "/templates/t/steps/0/who", [])
    assert said.replace('"', "'").startswith(message)


CANNOT_OPEN = "the step can never open: steps wait for each other"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            ["{id: a, title: A, groups: [g]}", "{id: b, title: B, groups: [g], after: [a, c]}"],
            [(9, "/templates/t/steps/1/after/1", "no step has this id")],
        ),
        (["{id: a, title: A, groups: [g], after: [a]}"], [(8, "/templates/t/steps/0/after", CANNOT_OPEN)]),
        (
            [
                "{id: a, title: A, groups: [g], after: [c]}",
                "{id: free, title: F, groups: [g]}",
                "{id: b, title: B, groups: [g], after: [a, free]}",
                "{id: c, title: C, groups: [g], after: [b]}",
            ],
            [
                (8, "/templates/t/steps/0/after", CANNOT_OPEN),
                (10, "/templates/t/steps/2/after", CANNOT_OPEN),
                (11, "/templates/t/steps/3/after", CANNOT_OPEN),
            ],
        ),
    ],
    ids=["unknown", "itself", "circle"],
)
def test_a_step_that_can_never_open_is_refused_with_its_line(steps: list[str], expected: list[Any]) -> None:
    assert problems_of(file_with(*steps)) == expected
