"""Whether the tasks of a gate explain how often each call had its effect."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.crash.claims import CallTask, ran_too_often

START = datetime(2026, 4, 30, tzinfo=UTC)


def made(begins: float, ends: float | None, *, claimed: bool = True) -> CallTask:
    end = None if ends is None else START + timedelta(seconds=ends)
    return CallTask(START + timedelta(seconds=begins), end, was_claimed=claimed)


@pytest.mark.parametrize(
    ("executions", "calls"),
    [
        ([1, 0], [[made(0, 1)], [made(0, None, claimed=False)]]),
        ([0, 2], [[made(0, 1), made(1, 2)]]),  # called anew after its end, and approved anew
        ([1], [[made(0, 1, claimed=False), made(2, 3)]]),
        ([0], []),
    ],
)
def test_what_the_tasks_explain_is_held(executions: list[int], calls: list[list[CallTask]]) -> None:
    assert ran_too_often(executions, calls) is None


@pytest.mark.parametrize(
    ("executions", "calls", "said"),
    [
        ([2], [[made(0, 1)]], "2 executions of one call, of which 1 tasks were claimed"),
        ([2], [[made(0, 1, claimed=False), made(2, 3)]], "2 executions of one call, of which 1 tasks were claimed"),
        ([1, 1], [[made(0, 1), made(2, 3)]], "1 executions of one call, of which 0 tasks were claimed"),
        ([1], [[made(0, None), made(1, 2)]], "two tasks of one call were open at once"),
        ([1], [[made(0, 1.5), made(1, 2)]], "two tasks of one call were open at once"),
    ],
)
def test_what_they_do_not_explain_is_told(executions: list[int], calls: list[list[CallTask]], said: str) -> None:
    assert ran_too_often(executions, calls) == said
