"""What a gate's database says, once its gates are dead, of the tasks that each call became.

At most once is a promise about a task (SEP-2848, "At-most-once and deduplication"). An agent that got no answer and
calls anew joins the open task of its call; after the end of that task the same call is a new one, approved anew.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from sqlalchemy import create_engine, select

from mcp_gate.tables import task


@dataclass(frozen=True, slots=True)
class CallTask:
    """One task of a call; `was_claimed` if its tool may have run."""

    created_at: datetime
    ended_at: datetime | None
    was_claimed: bool


def tasks_by_call(url: str) -> list[list[CallTask]]:
    """The tasks of each call, in the order in which they were made."""
    engine = create_engine(url)
    rows = select(task.c.digest, task.c.created_at, task.c.terminalized_at, task.c.worker).order_by(task.c.created_at)
    found: dict[str, list[CallTask]] = defaultdict(list)
    try:
        with engine.connect() as connection:
            for digest, created_at, ended_at, worker in connection.execute(rows):
                found[digest].append(CallTask(created_at, ended_at, worker is not None))
    finally:
        engine.dispose()
    return list(found.values())


def ran_too_often(executions: Sequence[int], calls: Sequence[Sequence[CallTask]]) -> str | None:
    """What is wrong with how often each call had its effect, if the gate's tasks cannot explain it."""
    for tasks in calls:
        for earlier, later in pairwise(tasks):
            if earlier.ended_at is None or earlier.ended_at > later.created_at:
                return "two tasks of one call were open at once"
    claimed = sorted((sum(each.was_claimed for each in tasks) for tasks in calls), reverse=True)
    claimed += [0] * (len(executions) - len(claimed))
    for ran, most in zip(sorted(executions, reverse=True), claimed, strict=False):
        if ran > most:
            return f"{ran} executions of one call, of which {most} tasks were claimed"
    return None
