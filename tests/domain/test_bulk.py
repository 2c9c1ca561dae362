"""The whole follows its items: `bulk-aggregation.json` and the rules behind it."""

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from arap_service.domain.bulk import ENDED, aggregate, decide_item, settle
from arap_service.domain.task import (
    TRANSITIONS,
    Approve,
    Cancel,
    Deny,
    Expire,
    Fail,
    Grant,
    Notify,
    Record,
    Refused,
    TaskState,
    Transition,
)
from arap_service.protocol.arap import TaskStatus

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "bulk-aggregation.json").read_text())
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def item(status: str) -> TaskState:
    return TaskState("task_1", TaskStatus(status), 1, NOW + timedelta(hours=1))


@pytest.mark.requirement("ARS-82", "ARS-83")
@pytest.mark.parametrize("case", VECTORS["aggregate"], ids=lambda case: "-".join(case["items"]))
def test_the_status_of_the_whole_is_that_of_the_vector(case: dict[str, Any]) -> None:
    """bulk-aggregation.json, `aggregate`."""
    assert aggregate(case["items"]) == case["status"]
    transition = settle(case["items"])
    assert (TaskStatus.PENDING if transition is None else transition.to) == case["status"]


@pytest.mark.requirement("ARS-83")
def test_the_whole_is_partial_if_and_only_if_all_have_ended_and_not_alike() -> None:
    statuses = [TaskStatus.PENDING, *sorted(ENDED)]
    for three in product(statuses, repeat=3):
        is_partial = TaskStatus.PENDING not in three and len(set(three)) > 1
        assert (aggregate(three) is TaskStatus.PARTIAL) is is_partial, three


def test_what_is_no_status_of_an_item_has_not_ended() -> None:
    """Fail closed: not even `partial` ends an item, and nothing at all is not a whole that has ended."""
    for strange in (["partial"], ["partial", "partial"], ["approved", "bogus"], []):
        assert aggregate(strange) is TaskStatus.PENDING
        assert settle(strange) is None


@pytest.mark.requirement("ARS-84")
@pytest.mark.parametrize("case", VECTORS["cancel"], ids=lambda case: "-".join(case["items"]))
def test_cancelling_ends_what_is_pending_and_nothing_else(case: dict[str, Any]) -> None:
    """bulk-aggregation.json, `cancel`; 409 when nothing is pending."""
    outcomes = [decide_item(item(status), Cancel(), now=NOW) for status in case["items"]]
    if case["expect"] == 409:
        assert all(
            outcome == Refused("terminal", outcome.current) for outcome in outcomes if isinstance(outcome, Refused)
        )
        assert not any(isinstance(outcome, Transition) for outcome in outcomes)
        return
    after = [outcome.to if isinstance(outcome, Transition) else outcome.current for outcome in outcomes]
    assert [after, aggregate(after)] == case["expect"]


@pytest.mark.requirement("ARS-55")
@pytest.mark.parametrize(
    "event", [Approve(), Deny(), Cancel(), Expire(), Fail()], ids=lambda event: type(event).__name__
)
def test_an_item_moves_as_a_task_does_and_tells_nobody(event: Any) -> None:
    now = NOW + timedelta(hours=2) if isinstance(event, Expire) else NOW
    moved = decide_item(item("pending"), event, now=now)
    assert isinstance(moved, Transition)
    assert moved.to is TRANSITIONS[TaskStatus.PENDING, type(event)]
    grants = [Grant()] if isinstance(event, Approve) else []
    assert list(moved.effects) == [*grants, Record(f"item_{moved.to.value}")]


def test_the_end_of_the_whole_is_recorded_and_told() -> None:
    assert settle(["approved", "denied"]) == Transition(
        TaskStatus.PENDING, TaskStatus.PARTIAL, (Record("task_partial"), Notify(TaskStatus.PARTIAL))
    )
