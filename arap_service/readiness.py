"""How the parts of a running service are: database, tables, keys, rules, courier, notices; each with its state.

Looks and judges; who is told is decided in `api/health.py`. Bounds on what counts as a backlog stand here.
"""

from datetime import timedelta
from enum import StrEnum
from typing import Final

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import OperationalError, ProgrammingError

from arap_service.context import Context
from arap_service.keys import Use
from arap_service.store import migrate, notices, operation
from arap_service.store.database import ReadSession, StoreUnavailable
from arap_service.store.notices import NoticeBacklog
from arap_service.store.operation import Backlog

MOST_SECONDS: Final = 5.0
"""A database that has not answered by then counts as away."""
LATE: Final = timedelta(minutes=5)
"""A delivery that has waited longer than this is a backlog: the first retries are over by then."""
_NEEDED: Final = (Use.BINDING, Use.APPROVAL)


class State(StrEnum):
    """How one part is."""

    OK = "ok"
    DEGRADED = "degraded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Part(BaseModel):
    """One part: its state, why it is not in order (a code), and its figures."""

    model_config = ConfigDict(frozen=True)

    state: State
    reason: str | None = Field(default=None, description="A code, absent when the part is in order")
    version: str | None = None
    waiting: int | None = None
    dead: int | None = None
    oldest_seconds: int | None = None


class Readiness(BaseModel):
    """All parts; `status` is that of the worst of them."""

    model_config = ConfigDict(frozen=True)

    status: str = Field(description="ok, degraded or unavailable")
    reason: str | None = Field(default=None, description="The first part that has failed and why: part_code")
    policy: str = Field(description="Version of the rules in force")
    simulator: bool | None = Field(default=None, description="True for a simulator, otherwise absent")
    parts: dict[str, Part]


async def readiness(ctx: Context) -> Readiness:
    """Look at every part now."""
    policy = ctx.policy.current()
    refused = ctx.policy.is_newer_refused
    rules = Part(
        state=State.DEGRADED if refused else State.OK,
        reason="newer_file_refused" if refused else None,
        version=policy.version,
    )
    parts = {**await _stored(ctx), "policy": rules}
    failed = next(((name, part) for name, part in parts.items() if part.state is State.FAILED), None)
    worst = "degraded" if any(part.state is State.DEGRADED for part in parts.values()) else "ok"
    return Readiness(
        status=worst if failed is None else "unavailable",
        reason=None if failed is None else f"{failed[0]}_{failed[1].reason}",
        policy=policy.version,
        simulator=None if ctx.rehearsal is None else True,
        parts=parts,
    )


async def _stored(ctx: Context) -> dict[str, Part]:
    now = ctx.clock()
    head = await anyio.to_thread.run_sync(migrate.head)

    def work(session: ReadSession) -> tuple[str | None, frozenset[str], Backlog, NoticeBacklog]:
        found, uses = operation.revision(session), operation.signing_uses(session, now=now)
        return found, uses, operation.backlog(session), notices.notice_backlog(session)

    try:
        revision, uses, backlog, told = await ctx.database.look(work, seconds=MOST_SECONDS)
    except StoreUnavailable as error:
        return _without_database(error.reason)
    except (OperationalError, ProgrammingError):  # of a missing table SQLite says the one, PostgreSQL the other
        return {**_without_database("tables"), "database": Part(state=State.OK), "migrations": _failed("missing")}
    keyless = [use.value for use in _NEEDED if use not in uses]
    return {
        "database": Part(state=State.OK),
        "migrations": Part(state=State.OK, version=revision) if revision == head else _failed("other_release"),
        "keys": _failed("none_signs_" + "_".join(keyless)) if keyless else Part(state=State.OK),
        "courier": _courier(backlog, seconds=_age(ctx, backlog)),
        "notices": _notices(told),
    }


def _courier(backlog: Backlog, *, seconds: int) -> Part:
    reason = "late" if seconds > LATE.total_seconds() else None
    return Part(
        state=State.OK if reason is None else State.DEGRADED,
        reason=reason,
        waiting=backlog.waiting,
        dead=backlog.dead,
        oldest_seconds=seconds,
    )


def _notices(told: NoticeBacklog) -> Part:
    return Part(
        state=State.DEGRADED if told.failing else State.OK,
        reason="failing" if told.failing else None,
        waiting=told.waiting,
        dead=told.dead,
    )


def _age(ctx: Context, backlog: Backlog) -> int:
    return 0 if backlog.oldest is None else max(0, int((ctx.clock() - backlog.oldest).total_seconds()))


def _failed(reason: str) -> Part:
    return Part(state=State.FAILED, reason=reason)


def _without_database(reason: str) -> dict[str, Part]:
    unknown = Part(state=State.UNKNOWN)
    return {"database": _failed(reason), "migrations": unknown, "keys": unknown, "courier": unknown, "notices": unknown}
