"""The table by which requests are found by their words; nothing secret is in it, only what columns say in the open.

SQLite reads it through a full-text index (`task_words`) that triggers keep, PostgreSQL through an index of its own on
the column. `number` grows with the requests, so that the newest are found first. Nothing is decided here.
"""

from typing import Any, Final, cast

from sqlalchemy import DDL, Column, ExecutableDDLElement, Index, Text, event
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlmodel import Field

from arap_service.store.rows import table_of
from arap_service.store.tables import ONLY_ON, Row

FULL_TEXT: Final = (
    """CREATE VIRTUAL TABLE IF NOT EXISTS task_words USING fts5(
    words, content='task_search', content_rowid='number', detail=none, tokenize='ascii')""",
    """CREATE TRIGGER IF NOT EXISTS task_words_add AFTER INSERT ON task_search BEGIN
    INSERT INTO task_words(rowid, words) VALUES (new.number, new.words); END""",
    """CREATE TRIGGER IF NOT EXISTS task_words_remove AFTER DELETE ON task_search BEGIN
    INSERT INTO task_words(task_words, rowid, words) VALUES ('delete', old.number, old.words); END""",
)


class TaskSearch(Row, table=True):
    """The words of one request: names of who asks, for whom, what is called and where, and its reference."""

    __table_args__ = (
        Index("ix_task_search_words", "words", postgresql_using="gin", info={ONLY_ON: "postgresql"}).ddl_if(
            dialect="postgresql"
        ),
    )

    number: int | None = Field(default=None, primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE", unique=True)
    words: Any = Field(sa_column=Column(Text().with_variant(TSVECTOR(), "postgresql"), nullable=False))


for _statement in FULL_TEXT:
    # DDL has no types of its own.
    _made = cast("ExecutableDDLElement", cast("Any", DDL)(_statement))
    event.listen(table_of(TaskSearch), "after_create", _made.execute_if(dialect="sqlite"))
