"""The approvals in force: who may do what until when, and whether it has been used.

Shows what the caller may see as a request, and nothing more; taking one back is `decisions.revoke`. Whether an approval
still holds at the decision point is judged there. See design.md section 7, "Elsewhere".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, or_
from sqlmodel import Session, col

from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import Forbidden, InvalidRequest
from arap_service.domain.visible import visible
from arap_service.protocol.arap import parse_instant
from arap_service.records import Part, task_seal
from arap_service.requests.grounds import grounds_of
from arap_service.requests.reading import MAX_TEXT, items_by_task
from arap_service.requests.telling import effect_sentence
from arap_service.requests.voters import boards_of, decider_of, may_see
from arap_service.store import approvals, items, queueing, tasks
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import Approval, Task
from arap_service.views import Page

Use = Literal["all", "unused", "used"]
_MOST_LOOKS: Final = 20
_KIND: Final = "in-force"
SEARCHED: Final = (Task.subject_id, Task.resource_id, Task.tool, Task.server, Task.agent, Task.client_id, Task.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class InForceFilter:
    """Which approvals to list."""

    use: Use = "all"
    q: str | None = None
    cursor: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class InForceRow:
    """One approval; `may_vary` says how it is wider than what was asked, `reported` what was last said of its use."""

    approval_id: str
    request_id: str
    item: int
    effect: str
    template_title: str
    risk: str
    subject: Mapping[str, Any]
    agent: str | None
    server: str | None
    tool: str | None
    approved_at: datetime
    approved_until: datetime
    may_vary: tuple[str, ...]
    is_used: bool
    reported: str | None


async def in_force(ctx: Context, caller: Caller, wanted: InForceFilter) -> Page[InForceRow]:
    """The approvals in force that the caller may see and that `wanted` selects, the one that runs out next first.

    Raises:
        Forbidden: The caller may neither read nor decide requests.
        InvalidRequest: A part of the selection is malformed.
    """
    if not (caller.may(Scope.APPROVAL_READ) or caller.may(Scope.APPROVAL_RESOLVE)):
        raise Forbidden(scope=Scope.APPROVAL_READ)
    if wanted.q is not None and (len(wanted.q) > MAX_TEXT or not tasks.is_storable(wanted.q)):
        raise InvalidRequest(f"The text may have {MAX_TEXT} characters.", pointer="/q")
    after = None if wanted.cursor is None else _place(wanted.cursor)
    return await ctx.database.read(lambda session: _page(ctx, session, caller, wanted, after))


def _place(text: str) -> approvals.Place:
    at, approval_id = read_cursor(text, _KIND, str, str)
    try:
        if tasks.is_storable(str(approval_id)):
            return parse_instant(str(at)), str(approval_id)
    except ValueError:
        pass
    raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")


def _page(
    ctx: Context, session: Session, caller: Caller, wanted: InForceFilter, after: approvals.Place | None
) -> Page[InForceRow]:
    decider, now = decider_of(session, caller, grounds_of(ctx)), ctx.clock()
    conditions = _conditions(wanted)
    if not caller.may(Scope.APPROVAL_READ):
        conditions.append(queueing.is_voiced(decider.voices))
    rows: list[InForceRow] = []
    for _ in range(_MOST_LOOKS):
        found = approvals.approvals_in_force(
            session, now=now, conditions=conditions, after=after, limit=wanted.limit + 1
        )
        taken = found[: wanted.limit - len(rows)]
        boards = boards_of(session, [task for _, task in taken])
        seen = [pair for pair in taken if may_see(caller, boards[pair[1].id].of(pair[0].item), decider)]
        rows += _rows(ctx, session, seen)
        after = (taken[-1][0].approved_until, taken[-1][0].id) if taken else after
        if len(found) == len(taken):
            return Page(tuple(rows), None)
        if len(rows) == wanted.limit:
            break
    return Page(tuple(rows), None if after is None else cursor(_KIND, after[0].isoformat(), after[1]))


def _conditions(wanted: InForceFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.use != "all":
        used = approvals.was_used()
        conditions.append(used if wanted.use == "used" else ~used)
    if wanted.q:
        named = (col(column).icontains(wanted.q, autoescape=True) for column in SEARCHED)
        conditions.append(or_(*named, items.has_item_named(wanted.q)))
    return conditions


def _rows(ctx: Context, session: Session, found: Sequence[tuple[Approval, Task]]) -> Sequence[InForceRow]:
    listed = items_by_task(session, [task for _, task in found])
    reports: dict[str | None, list[str]] = {}
    for report in approvals.reports_on(session, [approval for approval, _ in found]):
        reports.setdefault(report.approval_id, []).append(report.disposition)
    return [
        _row(ctx, approval, Part(task, _item(listed.get(task.id, ()), approval.item)), reports.get(approval.id, ()))
        for approval, task in found
    ]


def _item(rows: Sequence[TaskItem], item: int) -> TaskItem | None:
    return next((row for row in rows if row.item == item), None)


def _row(ctx: Context, approval: Approval, part: Part, reported: Sequence[str]) -> InForceRow:
    task, own = part.task, part.own
    uses = [disposition for disposition in reported if disposition in approvals.USES]
    return InForceRow(
        approval_id=approval.id,
        request_id=task.id,
        item=approval.item,
        effect=effect_sentence(part, task_seal(task, ctx.ring)),
        template_title=own.template["title"],
        risk=own.template["risk"],
        subject={"type": visible(task.subject_type), "id": visible(task.subject_id)},
        agent=None if task.agent is None else visible(task.agent),
        server=None if task.server is None else visible(task.server),
        tool=None if task.tool is None else visible(task.tool),
        approved_at=approval.approved_at,
        approved_until=approval.approved_until,
        may_vary=tuple((approval.scope or {}).get("may_vary", ())),
        is_used=bool(uses),
        reported=uses[0] if uses else reported[-1] if reported else None,
    )
