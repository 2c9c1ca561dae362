"""Looking at an emergency after it was used: the review opens with the use and is closed by somebody without a part.

The first use (a permit that relies on the approval, or a report that something ran) opens it; owners are told. Closing
judges the closer as deciding does: not the subject, the submitter or an actor, and nobody who approved (ARS-119).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from sqlmodel import Session

from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.emergencies import OUTCOMES, Review, may_review
from arap_service.domain.errors import (
    ArapError,
    IneligibleApprover,
    InvalidRequest,
    InvalidTaskState,
    NotFound,
)
from arap_service.domain.notices import NoticeKind
from arap_service.domain.reviewers import Ineligible
from arap_service.domain.visible import is_blank, visible
from arap_service.protocol.arap import parse_instant
from arap_service.records import Part, task_seal
from arap_service.requests.announcing import announce
from arap_service.requests.endings import REQUESTS, record, task_topic
from arap_service.requests.telling import effect_sentence, names_of_marks
from arap_service.requests.voters import Board, Decider, board_of, decider_of, facts_of
from arap_service.store import items, reviews, tasks
from arap_service.store.database import WriteSession
from arap_service.store.review_tables import EmergencyReview
from arap_service.store.tables import Task
from arap_service.views import Page

MAX_NOTE: Final = 4000
_BATCH: Final = 100
State = Literal["open", "overdue", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """One emergency that was used; `why_not` is the code of the rule by which the reader may not close it."""

    approval_id: str
    request_id: str
    item: int
    effect: str
    subject: str
    approved_by: tuple[str, ...]
    opened_at: datetime
    due_at: datetime
    is_overdue: bool
    closed_at: datetime | None
    closed_by: str | None
    outcome: str | None
    note: str | None
    may_close: bool
    why_not: str | None


def note_use(ctx: Context, session: WriteSession, part: Part, approval_id: str, *, now: datetime) -> None:
    """Open the review of an emergency's approval that has just been used; of any other this does nothing."""
    rule = part.own.template.get("emergency")
    if rule is None:
        return
    due_at = now + timedelta(seconds=int(rule["review_seconds"]))
    is_new = reviews.open_review(
        session, approval_id=approval_id, task_id=part.task.id, item=part.item, now=now, due_at=due_at
    )
    if is_new:
        record(session, part, "emergency_used", "system", {"approval_id": approval_id}, now=now)
        announce(
            ctx,
            session,
            NoticeKind.REVIEW_DUE,
            part.task,
            now=now,
            about=approval_id,
            item=part.item,
            groups=rule["owners"],
        )
        session.on_commit(task_topic(part.task.id))
        session.on_commit(REQUESTS)


async def remind_of_overdue(ctx: Context) -> int:
    """Have the owners of overdue reviews told once more, once for each day that one is late; how many were."""

    def work(session: WriteSession) -> int:
        now, told = ctx.clock(), 0
        for review, task in reviews.overdue(session, now=now, limit=_BATCH):
            part, days = _part(session, review, task), (now - review.due_at).days
            told += announce(
                ctx,
                session,
                NoticeKind.REVIEW_DUE,
                task,
                now=now,
                about=f"{review.approval_id}:late:{days}",
                item=review.item,
                groups=part.own.template["emergency"]["owners"],
            )
        return told

    return await ctx.database.write(work)


async def list_reviews(
    ctx: Context, caller: Caller, *, state: State | None = None, after: str | None = None, limit: int = 50
) -> Page[ReviewView]:
    """Reviews, the one that is due first before the others.

    Raises:
        Forbidden: The caller may not read requests.
        InvalidRequest: The cursor is not one of this list.
    """
    if not caller.may(Scope.ADMIN):
        caller.require(Scope.APPROVAL_READ)
    place: tuple[datetime, str] | None = None
    if after is not None:
        at, approval_id = read_cursor(after, "reviews", str, str)
        try:
            place = (parse_instant(str(at)), str(approval_id))
        except ValueError:
            raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor") from None

    def read(session: Session) -> Page[ReviewView]:
        now = ctx.clock()
        found = reviews.reviews_page(
            session,
            is_open=None if state is None else state != "closed",
            due_before=now if state == "overdue" else None,
            after=place,
            limit=limit + 1,
        )
        shown = found[:limit]
        last = shown[-1][0] if len(found) > limit else None
        more = None if last is None else cursor("reviews", last.due_at.isoformat(), last.approval_id)
        return Page(tuple(_view(ctx, session, caller, review, task) for review, task in shown), more)

    return await ctx.database.read(read)


async def close_review(ctx: Context, caller: Caller, approval_id: str, *, outcome: str, note: str) -> ReviewView:
    """Close a review with what was found; the review as it stands then.

    Raises:
        NotFound: There is no such review for this caller.
        IneligibleApprover: The caller had a part in it, or is neither owner nor administrator.
        InvalidRequest: There is no outcome of ours, or no note.
        InvalidTaskState: Somebody has closed it already.
    """
    text = note.strip()
    if outcome not in OUTCOMES:
        raise InvalidRequest("The outcome is either justified or unjustified.", pointer="/outcome")
    if is_blank(text) or len(text) > MAX_NOTE or any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidRequest(f"A note of 1 to {MAX_NOTE} characters is required.", pointer="/note")
    fault = await ctx.database.write(
        lambda session: _close(ctx, session, caller, approval_id, outcome=outcome, note=text)
    )
    if fault is not None:
        raise fault
    ctx.log.info("emergency_reviewed", approval_id=approval_id, outcome=outcome)

    def read(session: Session) -> ReviewView:
        found = reviews.find_review(session, approval_id)
        if found is None:
            raise NotFound
        return _view(ctx, session, caller, *found)

    return await ctx.database.read(read)


def _close(
    ctx: Context, session: WriteSession, caller: Caller, approval_id: str, *, outcome: str, note: str
) -> ArapError | None:
    found = reviews.find_review(session, approval_id)
    decider = decider_of(session, caller)
    if found is None:
        return NotFound()
    review, task = found
    part, now = _part(session, review, task), ctx.clock()
    fault = _why_not(caller, decider, part, board_of(session, task))
    if fault is not None:
        if not caller.may(Scope.APPROVAL_READ) and not caller.may(Scope.ADMIN):
            return NotFound()
        record(session, part, "review_refused", decider.actor, {"approval_id": approval_id, "code": fault}, now=now)
        return IneligibleApprover(code=fault)
    sealed = task_seal(task, ctx.ring).seal_at(f"review:{approval_id}:note_sealed", note)
    if not reviews.close_review(session, approval_id, at=now, by=decider.actor, outcome=outcome, note=sealed):
        return InvalidTaskState("The review is closed already.", current=task.status, version=task.version)
    tasks.bump_task(session, task.id)
    detail = {"approval_id": approval_id, "outcome": outcome, "channel": caller.channel}
    record(session, part, "emergency_reviewed", decider.actor, detail, now=now)
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)
    return None


def _part(session: Session, review: EmergencyReview, task: Task) -> Part:
    return Part(task, items.find_item(session, task.id, review.item) if review.item else None)


def _why_not(caller: Caller, decider: Decider, part: Part, board: Board) -> str | None:
    judged = Review(
        facts=facts_of(part.task),
        owners=frozenset(part.own.template["emergency"]["owners"]),
        has_counted=bool(board.of(part.item).counted_in(decider.voter)),
    )
    found = may_review(judged, decider.person, is_administrator=caller.may(Scope.ADMIN))
    return found.reason if isinstance(found, Ineligible) else None


def _view(ctx: Context, session: Session, caller: Caller, review: EmergencyReview, task: Task) -> ReviewView:
    part, board, seal = _part(session, review, task), board_of(session, task), task_seal(task, ctx.ring)
    why_not = _why_not(caller, decider_of(session, caller), part, board)
    approvers = [f"{vote.voter_kind}:{vote.voter}" for vote in board.of(part.item).votes if vote.decision == "approve"]
    names = names_of_marks(session, {*approvers, *([review.closed_by] if review.closed_by else [])})
    note = None
    if review.note_sealed is not None:
        note = visible(seal.open_at(f"review:{review.approval_id}:note_sealed", review.note_sealed))
    return ReviewView(
        approval_id=review.approval_id,
        request_id=task.id,
        item=review.item,
        effect=effect_sentence(part, seal),
        subject=visible(task.subject_id),
        approved_by=tuple(visible(names[mark]) for mark in approvers),
        opened_at=review.opened_at,
        due_at=review.due_at,
        is_overdue=review.closed_at is None and review.due_at < ctx.clock(),
        closed_at=review.closed_at,
        closed_by=None if review.closed_by is None else visible(names[review.closed_by]),
        outcome=review.outcome,
        note=note,
        may_close=review.closed_at is None and why_not is None,
        why_not=None if review.closed_at is not None else why_not,
    )
