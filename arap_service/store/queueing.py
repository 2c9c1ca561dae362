"""Every statement by which the queue finds its requests without looking through all that are stored.

What selects few is looked up first and named; what selects many is tested on the way along the list. Which of both it
is shows by looking at `MOST` at most. Nothing is decided here.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, exists, false, literal_column, or_, select, text
from sqlmodel import Session, col

from arap_service.store.database import WriteSession
from arap_service.store.rows import add_rows
from arap_service.store.search_tables import TaskSearch
from arap_service.store.tables import StepState, StepVoice, Task, Vote

MOST: Final = 1000
Voices = Mapping[str, Sequence[str]]
_WAITING: Final[ColumnElement[str]] = literal_column("'waiting'")
_PENDING: Final[ColumnElement[str]] = literal_column("'pending'")
_FULL_TEXT: Final = text(
    "SELECT task_search.task_id FROM task_words JOIN task_search ON task_search.number = task_words.rowid "
    "WHERE task_words MATCH :wanted ORDER BY task_words.rowid DESC LIMIT :most"
)
_VECTOR: Final = text("SELECT task_id FROM task_search WHERE words @@ CAST(:wanted AS tsquery) LIMIT :most")


def add_words(session: WriteSession, task_id: str, words: Sequence[str]) -> None:
    """Let a request be found by these words."""
    add_rows(session, TaskSearch, [{"task_id": task_id, "words": " ".join(words)}])


def few_with_words(session: Session, wanted: Sequence[str]) -> Sequence[str] | None:
    """Some requests among which are all that have a word beginning with each of `wanted`; None when they are many.

    A word that very many have is not looked up at all, since that alone would take as long as there are requests.
    """
    rare = [word for word in wanted if _found(session, [word], is_whole=True) is not None]
    return _found(session, rare, is_whole=False) if rare else None


def _found(session: Session, words: Sequence[str], *, is_whole: bool) -> Sequence[str] | None:
    """The requests with these words, or with words that begin so; None when they are many."""
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    quote, further = ('"', "*") if is_sqlite else ("'", ":*")
    terms = [f"{quote}{word}{quote}{'' if is_whole else further}" for word in words]
    asked = {"wanted": (" " if is_sqlite else " & ").join(terms), "most": MOST + 1}
    found = session.execute(_FULL_TEXT if is_sqlite else _VECTOR, asked).scalars().all()
    return None if len(found) > MOST else found


def few_voiced(session: Session, voices: Voices) -> Sequence[str] | None:
    """The requests, ended ones too, in which one of `voices` may speak; None when they are many."""
    found = session.execute(select(col(StepVoice.task_id)).where(_speaks(voices)).limit(MOST + 1)).scalars().all()
    return None if len(found) > MOST else sorted(set(found))


def is_voiced(voices: Voices, *, in_open_steps: bool = False, unless_voted: str | None = None) -> ColumnElement[bool]:
    """A condition: one of `voices` may speak in a step, which may have to be open and without a vote of this voter."""
    own = col(StepVoice.task_id) == col(Task.id)
    if not in_open_steps:
        return exists().where(own, _speaks(voices))
    same = [col(getattr(StepState, name)) == col(getattr(StepVoice, name)) for name in ("task_id", "item", "step_id")]
    is_open = (col(StepState.status) == _WAITING, col(StepState.opened_at).is_not(None))
    found = exists().where(own, _speaks(voices), *same, *is_open)
    if unless_voted is not None:
        voted = [col(getattr(Vote, name)) == col(getattr(StepVoice, name)) for name in ("task_id", "item", "step_id")]
        found = found.where(~exists().where(*voted, col(Vote.voter) == unless_voted))
    return found


def is_not_of(names: Collection[str]) -> ColumnElement[bool]:
    """A condition: none of these names is exactly that of the subject or of the submitter."""
    return and_(col(Task.subject_id).not_in(tuple(names)), col(Task.submitter).not_in(tuple(names)))


def waiting_expressions(session: Session, *, now: datetime, in_open_steps: bool) -> Sequence[tuple[str, int, str, str]]:
    """Request, item, expression and template of every waiting step that has one, of requests that wait."""
    wanted = (
        select(col(StepState.task_id), col(StepState.item), col(StepState.who), col(Task.template_id))
        .join(Task, col(Task.id) == col(StepState.task_id))
        .where(
            col(StepState.status) == _WAITING,
            col(StepState.who).is_not(None),
            col(Task.status) == _PENDING,
            col(Task.pending_until) > now,
        )
    )
    if in_open_steps:
        wanted = wanted.where(col(StepState.opened_at).is_not(None))
    return [(task_id, item, who, template) for task_id, item, who, template in session.execute(wanted)]


def _speaks(voices: Voices) -> ColumnElement[bool]:
    kinds: list[Any] = [
        and_(col(StepVoice.kind) == kind, col(StepVoice.name).in_(tuple(names)))
        for kind, names in voices.items()
        if names
    ]
    return or_(false(), *kinds)
