"""The steps of a template: what the file may say about them, and what is refused with its line."""

from typing import Any

import pytest

from arap_service.domain.policy import Step
from arap_service.domain.policy_load import PolicyInvalid, load_policy


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
