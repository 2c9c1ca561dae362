"""Find requests by their words, and waiting steps with an expression, without looking through all of them."""

import re
import unicodedata

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import TSVECTOR

from alembic import op

revision = "service_0020"
down_revision = "service_0019"
branch_labels = None
depends_on = None

_WHO = sa.text("who IS NOT NULL AND status = 'waiting'")
_NAMES = ("subject_id", "resource_id", "tool", "server", "agent", "client_id")
_FULL_TEXT = (
    """CREATE VIRTUAL TABLE IF NOT EXISTS task_words USING fts5(
    words, content='task_search', content_rowid='number', detail=none, tokenize='ascii')""",
    """CREATE TRIGGER IF NOT EXISTS task_words_add AFTER INSERT ON task_search BEGIN
    INSERT INTO task_words(rowid, words) VALUES (new.number, new.words); END""",
    """CREATE TRIGGER IF NOT EXISTS task_words_remove AFTER DELETE ON task_search BEGIN
    INSERT INTO task_words(task_words, rowid, words) VALUES ('delete', old.number, old.words); END""",
)


def upgrade() -> None:
    """Apply this step."""
    op.create_index("ix_step_state_who", "step_state", ["task_id"], sqlite_where=_WHO, postgresql_where=_WHO)
    op.create_table(
        "task_search",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("words", sa.Text().with_variant(TSVECTOR(), "postgresql"), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_task_search_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_task_search")),
        sa.UniqueConstraint("task_id", name=op.f("uq_task_search_task_id")),
    )
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        for statement in _FULL_TEXT:
            op.execute(statement)
    else:
        op.create_index("ix_task_search_words", "task_search", ["words"], postgresql_using="gin")
    _fill(connection)


def _fill(connection: sa.Connection) -> None:
    task = sa.table("task", sa.column("id"), sa.column("created_at"), *map(sa.column, _NAMES))
    item = sa.table("task_item", sa.column("task_id"), sa.column("resource_id"))
    search = sa.table(
        "task_search",
        sa.column("task_id", sa.String()),
        sa.column("words", sa.Text().with_variant(TSVECTOR(), "postgresql")),
    )
    more: dict[str, list[str]] = {}
    for task_id, resource in connection.execute(sa.select(item.c.task_id, item.c.resource_id)):
        more.setdefault(task_id, []).append(resource)
    wanted = sa.select(task.c.id, *(task.c[name] for name in _NAMES)).order_by(task.c.created_at, task.c.id)
    for rows in connection.execute(wanted).partitions(1000):
        found = [(row[0], [*row[1:], *more.get(row[0], ())]) for row in rows]
        connection.execute(sa.insert(search), [{"task_id": key, "words": _words(key, texts)} for key, texts in found])


def _words(key: str, texts: list[str | None]) -> str:
    reference = "".join(c for c in key.removeprefix("task_").casefold() if c.isascii() and c.isalnum())
    found: dict[str, None] = {}
    for text in filter(None, texts):
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        for word in re.findall(r"[^\W_]+", plain):
            ascii_only = "".join(c if c.isascii() else "x" + c.encode().hex() for c in word)
            found.setdefault(ascii_only[:64])
    return " ".join(["id0" + reference, *list(found)[:200]])


def downgrade() -> None:
    """Undo this step."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TABLE task_words")
    op.drop_table("task_search")
    op.drop_index("ix_step_state_who", "step_state")
