"""What operators see of notices to people, and do about them: look, and have one sent again.

The right is that of deliveries. Nothing here sends: the notifier does, and judges once more whom it concerns. A notice
holds names, codes and moments; what was asked for is not in it. See design.md section 7.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sqlmodel import Session

from arap_service import audit
from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import ArapError, InvalidRequest, InvalidTaskState, NotFound
from arap_service.domain.visible import visible
from arap_service.protocol.arap import parse_instant
from arap_service.requests.announcing import NOTICES
from arap_service.store import notices, people
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement, Notice
from arap_service.store.tasks import is_storable
from arap_service.views import Page

Status = Literal["pending", "sent", "dead", "dropped"]
CHAIN: Final = "configuration"
_KIND: Final = "notices"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """One notice; `person` is empty for the room behind a channel, `next_at` is the next attempt of a pending one."""

    id: str
    kind: str
    request_id: str | None
    person: str
    channel: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None
    finished_at: datetime | None
    last_error: str | None


async def page(
    ctx: Context, caller: Caller, *, status: Status | None, after: str | None, limit: int
) -> Page[NoticeView]:
    """A page of notices, the newest first.

    Raises:
        Forbidden: The caller is no operator.
        InvalidRequest: The cursor is none.
    """
    _require_operator(caller)
    place = None if after is None else _place(after)

    def look(session: Session) -> Page[NoticeView]:
        found = notices.notices_page(session, status=status, after=place, limit=limit + 1)
        shown = found[:limit]
        names = people.names_of(session, {notice.person_id for notice, _ in shown if notice.person_id})
        more = cursor(_KIND, shown[-1][0].created_at.isoformat(), shown[-1][0].id) if len(found) > limit else None
        return Page(tuple(_view(notice, about, names) for notice, about in shown), more)

    return await ctx.database.read(look)


async def send_again(ctx: Context, caller: Caller, notice_id: str) -> None:
    """Have a notice sent again, whatever became of it.

    Raises:
        Forbidden: The caller is no operator.
        NotFound: There is no such notice.
        InvalidTaskState: It is being sent at this moment.
    """
    _require_operator(caller)
    now = ctx.clock()

    def work(session: WriteSession) -> ArapError | None:
        found = notices.find_notice(session, notice_id) if is_storable(notice_id) else None
        if found is None:
            return NotFound()
        was = found[0].status
        if notices.restart_notice(session, notice_id, now=now) is None:
            return InvalidTaskState("The notice is being sent just now.")
        detail = {"notice": notice_id, "was": was}
        audit.append(session, CHAIN, kind="notice_restarted", actor=caller.principal, detail=detail, now=now)
        session.on_commit(NOTICES)
        return None

    fault = await ctx.database.write(work)
    if fault is not None:
        raise fault
    ctx.log.info("notice_restarted", notice_id=notice_id)


def _require_operator(caller: Caller) -> None:
    if not caller.may(Scope.ADMIN):
        caller.require(Scope.OPERATE)


def _place(text: str) -> tuple[datetime, str]:
    at, notice_id = read_cursor(text, _KIND, str, str)
    try:
        if is_storable(str(notice_id)):
            return parse_instant(str(at)), str(notice_id)
    except ValueError:
        pass
    raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")


def _view(notice: Notice, about: Announcement, names: dict[str, str]) -> NoticeView:
    return NoticeView(
        id=notice.id,
        kind=about.kind,
        request_id=about.task_id,
        person=visible(names.get(notice.person_id, notice.person_id)),
        channel=notice.channel,
        status=notice.status,
        attempts=notice.attempts,
        created_at=notice.created_at,
        next_at=notice.next_at if notice.status == "pending" else None,
        finished_at=notice.finished_at,
        last_error=notice.last_error,
    )
