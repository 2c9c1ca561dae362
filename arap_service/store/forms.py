"""Every statement about what requesters filled in for denials."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.form_tables import FilledForm


def find_form(session: Session, evaluation_id: str) -> FilledForm | None:
    """What was filled in for this denial, used or not."""
    return session.get(FilledForm, evaluation_id)


def unused_form(
    session: Session,
    evaluation_id: str,
    *,
    caller: str,
    client_id: str,
    template_id: str,
    binding_hash: str,
    now: datetime,
) -> FilledForm | None:
    """What waits for a request about this denial: filled in for it, else last for an equal one of the same caller."""
    statement = select(FilledForm).where(
        FilledForm.binding_hash == binding_hash,
        FilledForm.client_id == client_id,
        FilledForm.caller == caller,
        FilledForm.template_id == template_id,
        col(FilledForm.used_at).is_(None),
        col(FilledForm.expires_at) > now,
    )
    newest = (col(FilledForm.evaluation_id) == evaluation_id).desc(), col(FilledForm.filled_at).desc()
    return session.exec(statement.order_by(*newest).limit(1)).first()


def use_form(
    session: WriteSession, evaluation_id: str, *, task_id: str, item: int, at: datetime, sealed: bytes
) -> bool:
    """Unused → used by this request, which keeps what it took over; whether nobody was faster."""
    return bool(
        session.execute(
            update(FilledForm)
            .where(col(FilledForm.evaluation_id) == evaluation_id, col(FilledForm.used_at).is_(None))
            .values(used_at=at, task_id=task_id, item=item, values_sealed=sealed)
            .returning(col(FilledForm.evaluation_id))
        ).all()
    )


def forms_of(session: Session, task_id: str) -> Sequence[FilledForm]:
    """What a request, or each of its items, took over."""
    return session.exec(select(FilledForm).where(FilledForm.task_id == task_id)).all()
