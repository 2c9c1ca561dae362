"""Every statement about questions, comments and claims. Whoever writes holds the row of the task first."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from arap_service.store.conversation_tables import Claim, Comment, Question
from arap_service.store.database import WriteSession, connection_of

_ASKED: Final = (  # made once, since making it takes longer than running it
    select(col(Question.id)).where(col(Question.task_id) == bindparam("task_id"), col(Question.answered_at).is_(None))
)


def questions_of(session: Session, task_id: str) -> Sequence[Question]:
    """The questions of a request, in the order in which they were asked."""
    return session.exec(select(Question).where(Question.task_id == task_id).order_by(col(Question.number))).all()


def open_question(session: Session, task_id: str) -> Question | None:
    """The question that waits for its answer."""
    return session.exec(
        select(Question).where(Question.task_id == task_id, col(Question.answered_at).is_(None))
    ).one_or_none()


def is_asked(session: Session, task_id: str) -> bool:
    """Whether a question that has been flushed waits for its answer; every poll asks."""
    return connection_of(session).execute(_ASKED, {"task_id": task_id}).first() is not None


def answer_question(session: WriteSession, question_id: str, *, by: str, at: datetime, sealed: bytes) -> None:
    """Open → answered."""
    session.execute(
        update(Question)
        .where(col(Question.id) == question_id, col(Question.answered_at).is_(None))
        .values(answered_by=by, answered_at=at, answer_sealed=sealed)
    )


def comments_of(session: Session, task_id: str) -> Sequence[Comment]:
    """The comments on a request, the oldest first."""
    return session.exec(
        select(Comment).where(Comment.task_id == task_id).order_by(col(Comment.at), col(Comment.id))
    ).all()


def claim_of(session: Session, task_id: str) -> Claim | None:
    """Who works on a request now."""
    return session.exec(select(Claim).where(Claim.task_id == task_id, col(Claim.released_at).is_(None))).one_or_none()


def release_claim(session: WriteSession, claim_id: str, *, at: datetime) -> None:
    """Held → released."""
    session.execute(update(Claim).where(col(Claim.id) == claim_id).values(released_at=at))
