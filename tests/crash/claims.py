"""What a gate's database says, once its gates are dead, of the tasks that each call became.

At most once is a promise about a task (SEP-2848, "At-most-once and deduplication"). An agent that got no answer and
calls anew joins the open task of its call; after the end of that task the same call is a new one, approved anew.
"""

from collections.abc import Sequence

from sqlalchemy import create_engine, func, select

from mcp_gate.tables import task


def claimed_by_call(url: str) -> list[int]:
    """How many tasks of each call were claimed, so that their tool may have run; the index forbids two open at once."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return list(connection.scalars(select(func.count(task.c.worker)).group_by(task.c.digest)))
    finally:
        engine.dispose()


def ran_too_often(executions: Sequence[int], calls: Sequence[int]) -> str | None:
    """What is wrong with how often each call had its effect, if so many claimed tasks of each cannot explain it."""
    claimed = sorted(calls, reverse=True) + [0] * (len(executions) - len(calls))
    for ran, most in zip(sorted(executions, reverse=True), claimed, strict=False):
        if ran > most:
            return f"{ran} executions of one call, of which {most} tasks were claimed"
    return None
