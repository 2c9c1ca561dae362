"""What nearly every submission asks and is answered with "nothing": each question is one statement, made once.

Making such a statement takes longer than running it. What was found is read row by row, by `tasks` and `items`; nothing
is decided here.
"""

from typing import Final

from sqlalchemy import ColumnElement, String, bindparam, exists, literal_column, or_, select
from sqlmodel import Session

from arap_service.store.database import connection_of
from arap_service.store.item_tables import TaskItem
from arap_service.store.rows import table_of
from arap_service.store.tables import Denial, IdempotencyKey, JtiUse, Task
from arap_service.store.tasks import is_storable

_KEYS, _TOKENS, _DENIALS = table_of(IdempotencyKey).c, table_of(JtiUse).c, table_of(Denial).c
_TASKS, _ITEMS = table_of(Task).c, table_of(TaskItem).c
# Written out: at what is bound SQLite looks anew each time, to see whether a partial index fits, and that costs more
# than the rest of the statement.
_PENDING: Final[ColumnElement[str]] = literal_column("'pending'")
_ISSUER: Final = bindparam("issuer", type_=String())
_OURS: Final = (_TASKS.submitter == bindparam("submitter"), _TASKS.client_id == bindparam("client_id"))

_BEFORE: Final = select(
    or_(
        exists().where(_KEYS.caller == bindparam("key_owner"), _KEYS.key == bindparam("key")),
        exists().where(_TOKENS.iss == _ISSUER, _TOKENS.jti == bindparam("jti")),
        exists().where(
            _TASKS.evaluation_id == bindparam("evaluation_id"),
            _TASKS.binding_iss.is_not_distinct_from(_ISSUER),
            _TASKS.status == _PENDING,
            *_OURS,
        ),
        exists().where(
            _ITEMS.evaluation_id == bindparam("evaluation_id"),
            _ITEMS.binding_iss.is_not_distinct_from(_ISSUER),
            _ITEMS.status == _PENDING,
            _ITEMS.task_id == _TASKS.id,
            *_OURS,
        ),
    )
)
_GROUNDS: Final = select(_DENIALS.rule_id, _DENIALS.reason).where(_DENIALS.evaluation_id == bindparam("evaluation_id"))


def is_first(
    session: Session,
    *,
    key_owner: str,
    key: str | None,
    token: tuple[str, str] | None,
    evaluation_id: str | None,
    submitter: str,
    client_id: str,
) -> bool:
    """Whether neither this key nor this token was used, and this requester has nothing open about this evaluation.

    Exactly when `find_key`, `find_jti` and both `find_open_task` find nothing (ARS-36, ARS-37, ARS-39).
    """
    issuer, jti = token or (None, None)
    asked = {
        "key_owner": key_owner,
        "key": key,
        "issuer": issuer,
        "jti": jti,
        "evaluation_id": evaluation_id,
        "submitter": submitter,
        "client_id": client_id,
    }
    return not connection_of(session).execute(_BEFORE, asked).scalar_one()


def grounds_of(session: Session, evaluation_id: str) -> tuple[str, str] | None:
    """Rule and reason of the requestable denial that was recorded under this evaluation id."""
    if not is_storable(evaluation_id):
        return None
    found = connection_of(session).execute(_GROUNDS, {"evaluation_id": evaluation_id}).one_or_none()
    return None if found is None else (found.rule_id, found.reason)
