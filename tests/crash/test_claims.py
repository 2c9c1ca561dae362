"""Whether the tasks of a gate explain how often each call had its effect."""

import pytest

from tests.crash.claims import ran_too_often


@pytest.mark.parametrize(
    ("executions", "claimed"),
    [([1, 0], [1, 0]), ([0, 2], [2]), ([1], [2]), ([1, 2], [2, 1]), ([0], []), ([], [1])],
)
def test_what_the_tasks_explain_is_held(executions: list[int], claimed: list[int]) -> None:
    assert ran_too_often(executions, claimed) is None


@pytest.mark.parametrize(
    ("executions", "claimed", "said"),
    [
        ([2], [1], "2 executions of one call, of which 1 tasks were claimed"),
        ([1, 1], [2], "1 executions of one call, of which 0 tasks were claimed"),
        ([2, 2], [3, 1], "2 executions of one call, of which 1 tasks were claimed"),
        ([1], [], "1 executions of one call, of which 0 tasks were claimed"),
    ],
)
def test_what_they_do_not_explain_is_told(executions: list[int], claimed: list[int], said: str) -> None:
    assert ran_too_often(executions, claimed) == said
