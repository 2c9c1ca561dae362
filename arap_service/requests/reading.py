"""The queue: which requests a reviewer or resolver sees, in which order, page by page.

Decides nothing about a request. `mine` asks the database for what may concern the caller and the rules for what he may
decide, so that a page holds exactly what he can act on. See design.md sections 6 and 7.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, or_
from sqlmodel import Session, col

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import Forbidden, InvalidRequest
from arap_service.domain.searching import fits, wanted_words
from arap_service.domain.visible import visible
from arap_service.protocol.arap import TaskStatus, format_instant, parse_instant
from arap_service.protocol.canonical import strict_loads
from arap_service.records import Part, task_seal
from arap_service.requests.concerning import concerning
from arap_service.requests.creation import searched_words
from arap_service.requests.details import RISKS, visible_items, why_not
from arap_service.requests.grounds import grounds_of
from arap_service.requests.telling import bundle_sentence, effect_sentence
from arap_service.requests.voters import Board, Decider, boards_of, decider_of, may_see
from arap_service.store import items, queueing, tasks
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import Task
from arap_service.views import Page, QueueFilter, QueueRow

MAX_LIMIT: Final = 200
MAX_TEXT: Final = 200
_MOST_LOOKS: Final = 20
_LOOK: Final = 500

Place = tuple[datetime, str]


async def queue(ctx: Context, caller: Caller, wanted: QueueFilter) -> Page[QueueRow]:
    """The requests that the caller may see and that `wanted` selects.

    Pending ones come by their deadline, the nearest first; other selections by age, the newest first.

    Raises:
        Forbidden: The caller may neither read nor decide requests.
        InvalidRequest: A part of the selection is malformed.
    """
    if not (caller.may(Scope.APPROVAL_READ) or caller.may(Scope.APPROVAL_RESOLVE)):
        raise Forbidden(scope=Scope.APPROVAL_READ)
    _check(wanted)
    after = None if wanted.cursor is None else _read_cursor(wanted.cursor, by_deadline=_by_deadline(wanted))
    return await ctx.database.read(lambda session: _page(ctx, session, caller, wanted, after))


def _check(wanted: QueueFilter) -> None:
    if wanted.status is not None and wanted.status not in set(TaskStatus):
        raise InvalidRequest("There is no such status.", pointer="/status")
    if not 1 <= wanted.limit <= MAX_LIMIT:
        raise InvalidRequest(f"The limit is a number from 1 to {MAX_LIMIT}.", pointer="/limit")
    if wanted.risk is not None and wanted.risk not in RISKS:
        raise InvalidRequest("There is no such risk.", pointer="/risk")
    for name in ("q", "subject", "template", "step"):
        text = getattr(wanted, name)
        if text is not None and (len(text) > MAX_TEXT or not tasks.is_storable(text)):
            raise InvalidRequest(f"The text may have {MAX_TEXT} characters.", pointer=f"/{name}")


def _by_deadline(wanted: QueueFilter) -> bool:
    return wanted.mine or wanted.status == TaskStatus.PENDING


def _page(ctx: Context, session: Session, caller: Caller, wanted: QueueFilter, after: Place | None) -> Page[QueueRow]:
    now = ctx.clock()
    decider = decider_of(session, caller, grounds_of(ctx))
    words = None if wanted.q is None else wanted_words(wanted.q)
    if words is not None and not words:
        return Page((), None)
    few = None if words is None else queueing.few_with_words(session, words)
    conditions = [*_conditions(session, caller, wanted, decider, now=now), *_named(few)]
    by_deadline = _by_deadline(wanted)
    reader, rows = _Reader(caller, decider, wanted.mine, wanted.risk, words), list[QueueRow]()
    most = wanted.limit
    for _ in range(_MOST_LOOKS):
        found = tasks.queue_page(
            session,
            conditions=conditions,
            oldest_deadline_first=by_deadline,
            after=after,
            limit=most + 1,
        )
        boards = boards_of(session, found)
        rows_of = items_by_task(session, found)
        for task in found[:most]:
            after = _place(task, by_deadline=by_deadline)
            row = _row(ctx, _Line(task, rows_of.get(task.id, ()), boards[task.id]), reader, now=now)
            if row is None:
                continue
            rows.append(row)
            if len(rows) == wanted.limit:
                break
        more, most = len(found) > most, max(most, _LOOK)  # after many misses there may be more
        if not more or len(rows) == wanted.limit:
            is_last = not more and (not found or after == _place(found[-1], by_deadline=by_deadline))
            return Page(tuple(rows), None if is_last or after is None else _cursor(after, by_deadline=by_deadline))
    return Page(tuple(rows), None if after is None else _cursor(after, by_deadline=by_deadline))


def items_by_task(session: Session, found: Sequence[Task]) -> dict[str, list[TaskItem]]:
    """The items of those tasks that are bundles."""
    bundles: dict[str, list[TaskItem]] = {task.id: [] for task in found if task.item_count}
    for row in items.items_of(session, bundles):
        bundles[row.task_id].append(row)
    return bundles


@dataclass(frozen=True, slots=True)
class _Reader:
    caller: Caller
    decider: Decider
    is_mine: bool  # whether he wants only what he may decide
    risk: str | None = None  # whether he wants only what has this risk
    words: Sequence[str] | None = None  # what he searches for; what is looked up may be more than that


@dataclass(frozen=True, slots=True)
class _Line:
    """A task with its items, if it is a bundle, and its workflow."""

    task: Task
    rows: Sequence[TaskItem]
    board: Board

    def parts(self, reader: _Reader) -> list[Part]:
        """What the reader sees of it: the items of a bundle, else itself."""
        if not self.task.item_count:
            return [Part(self.task)]
        return visible_items(self.task, self.rows, self.board, reader.caller, reader.decider)


def _named(ids: Sequence[str] | None) -> Sequence[ColumnElement[bool]]:
    return () if ids is None else (col(Task.id).in_(ids),)


def _conditions(
    session: Session, caller: Caller, wanted: QueueFilter, decider: Decider, *, now: datetime
) -> Sequence[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [col(Task.expires_at) > now]
    if wanted.mine:
        conditions += [col(Task.status) == TaskStatus.PENDING, col(Task.pending_until) > now]
    if wanted.mine or not caller.may(Scope.APPROVAL_READ):
        conditions.append(concerning(session, decider, wanted, now=now))
    if wanted.status is not None:
        conditions.append(col(Task.status) == wanted.status)
    if wanted.template is not None:
        conditions.append(or_(col(Task.template_id) == wanted.template, items.has_item_of(wanted.template)))
    if wanted.subject is not None:
        conditions.append(col(Task.subject_id) == wanted.subject)
    if wanted.risk is not None:
        conditions.append(tasks.may_have_risk(wanted.risk))
    if wanted.step is not None:
        conditions.append(tasks.has_open_step(wanted.step))
    if wanted.due_before is not None:
        conditions.append(col(Task.pending_until) <= wanted.due_before)
    return conditions


def _row(ctx: Context, line: _Line, reader: _Reader, *, now: datetime) -> QueueRow | None:
    """The line of a request, None when it is not for the reader: what the database cannot tell alone."""
    task, parts = line.task, line.parts(reader)
    if reader.words is not None and not fits(searched_words(task, line.rows), reader.words):
        return None
    if not may_see(reader.caller, line.board, reader.decider):
        return None
    refusals = [why_not(reader.caller, part, line.board.of(part.item), reader.decider, now=now) for part in parts]
    # Whoever may decide one of several things has something to do here.
    refusal = None if None in refusals else next((code for code in refusals if code != "ended"), "ended")
    if reader.is_mine and refusal is not None:
        return None
    own = parts[0].own
    risk = max((str(part.own.template["risk"]) for part in parts), key=RISKS.index)
    if reader.risk is not None and risk != reader.risk:  # of a bundle it is the highest of what he sees
        return None
    seal = task_seal(task, ctx.ring)
    return QueueRow(
        id=task.id,
        status=task.status,
        version=task.version,
        template_id=own.template_id,
        template_title=own.template["title"],
        effect=bundle_sentence(task, len(parts)) if task.item_count else effect_sentence(parts[0], seal),
        risk=risk,
        subject={"type": visible(task.subject_type), "id": visible(task.subject_id)},
        resource={"type": visible(own.resource_type), "id": visible(own.resource_id)},
        action={"name": visible(own.action_name)},
        submitter=visible(task.submitter),
        client_id=visible(task.client_id),
        agent=None if task.agent is None else visible(task.agent),
        server=None if task.server is None else visible(task.server),
        tool=None if task.tool is None else visible(task.tool),
        created_at=task.created_at,
        deadline=task.pending_until,
        expires_at=task.expires_at,
        may_decide=refusal is None,
        why_not=None if refusal == "ended" else refusal,
        item_count=task.item_count,
    )


def _place(task: Task, *, by_deadline: bool) -> Place:
    return (task.pending_until if by_deadline else task.created_at, task.id)


def _cursor(place: Place, *, by_deadline: bool) -> str:
    value = json.dumps(["d" if by_deadline else "c", format_instant(place[0]), place[1]])
    return base64.urlsafe_b64encode(value.encode()).rstrip(b"=").decode()


def _read_cursor(text: str, *, by_deadline: bool) -> Place:
    # Strictly, like every text of a caller: what comes out goes into a statement.
    try:
        match strict_loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))):
            case [order, str() as at, str() as task_id] if order == ("d" if by_deadline else "c"):
                if tasks.is_storable(task_id):
                    return parse_instant(at), task_id
    except ValueError:  # also InvalidJson
        pass
    raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")
