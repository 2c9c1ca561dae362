"""Migrations: they build exactly the tables that the code believes in, on both engines, together and with rows."""

import re
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlmodel import select

from alembic import command
from arap_service.domain.names import MOST_BYTES
from arap_service.domain.searching import wanted_words
from arap_service.requests.creation import searched_words
from arap_service.store import migrate, queueing
from arap_service.store.database import Database, StoreUnavailable, WriteSession, parse_url
from arap_service.store.search_tables import TaskSearch
from arap_service.store.tables import Row, StepState, Task
from tests.clock import FakeClock
from tests.store.rows import a_step, a_task, a_voice

_ALL = select(TaskSearch)


@pytest.fixture
def connected(engine_url: str) -> Iterator[Engine]:
    """An engine on the test's own database, without any rule about transactions."""
    engine = create_engine(parse_url(engine_url))
    yield engine
    engine.dispose()


def shape(connection: Connection) -> dict[str, Any]:
    """Everything that `alembic check` may overlook, in a form that two databases can be compared by."""
    inspector = inspect(connection)
    tables: dict[str, Any] = {}
    for table in sorted(Row.metadata.tables):
        tables[table] = {
            "columns": sorted(
                (column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(table)
            ),
            "key": inspector.get_pk_constraint(table)["constrained_columns"],
            "checks": sorted(
                (check["name"] or "", check["sqltext"]) for check in inspector.get_check_constraints(table)
            ),
            "children": sorted(
                (key["name"] or "", tuple(key["constrained_columns"]), key["referred_table"], str(key["options"]))
                for key in inspector.get_foreign_keys(table)
            ),
        }
    # What SQLite keeps its full text in is no table of ours; test_searching.py shows that it is there.
    names = sorted(name for name in inspector.get_table_names() if not name.startswith("task_words"))
    return tables | {"indexes": indexes(connection), "tables": names}


def indexes(connection: Connection) -> list[str]:
    """The definition of every index, predicate included."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
    else:
        found = connection.execute(text("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'"))
    return sorted(" ".join(definition.split()) for (definition,) in found if migrate.VERSION_TABLE not in definition)


def test_migrated_tables_are_the_tables_of_the_code(engine_url: str, connected: Engine) -> None:
    """Notes on building: `alembic check` is blind to index predicates and, on PostgreSQL, to CHECKs."""
    migrate.upgrade(engine_url)
    with connected.begin() as connection:
        migrated = shape(connection)
        connection.execute(text(f"DROP TABLE {migrate.VERSION_TABLE}"))
        Row.metadata.drop_all(connection)
        Row.metadata.create_all(connection)
        created = shape(connection)
    assert created.pop("tables") == sorted(Row.metadata.tables)
    assert migrated.pop("tables") == sorted([*Row.metadata.tables, migrate.VERSION_TABLE])
    assert migrated == created
    assert len(migrated["indexes"]) >= 20
    assert sum("WHERE" in index for index in migrated["indexes"]) >= 5


def test_check_accepts_what_upgrade_made_and_nothing_else(engine_url: str, connected: Engine) -> None:
    """`alembic check` is clean; a missing and a changed schema are told apart from it."""
    with pytest.raises(migrate.SchemaOutdated, match="arap migrate"):
        migrate.check(engine_url)
    migrate.upgrade(engine_url)
    migrate.check(engine_url)
    with connected.begin() as connection:
        connection.execute(text("ALTER TABLE person DROP COLUMN email"))
    with pytest.raises(migrate.SchemaOutdated, match="changed by hand"):
        migrate.check(engine_url)


def test_upgrade_of_a_current_database_with_child_rows_keeps_them(engine_url: str, clock: FakeClock) -> None:
    """Notes on building: recreating a table under foreign keys silently drops the rows of its children."""
    migrate.upgrade(engine_url)
    with_rows = Database.open(engine_url)
    with_rows.write_now(lambda session: session.add(a_task(now=clock())))
    with_rows.write_now(lambda session: session.add_all([a_step(), a_step(step_id="board", position=1)]))
    with_rows.write_now(lambda session: session.add(a_voice(name="treasury")))
    with_rows.close()

    migrate.upgrade(engine_url)
    recreate_task_table(engine_url)

    again = Database.open(engine_url)
    steps = again.read_now(lambda session: len(session.exec(select(StepState)).all()))
    tasks = again.read_now(lambda session: len(session.exec(select(Task)).all()))
    again.close()
    assert (tasks, steps) == (1, 2)
    migrate.check(engine_url)


def recreate_task_table(url: str) -> None:
    """What the next migration may do: rebuild a table that has children, through the project's own runner."""
    with migrate.migrating(url, busy_seconds=5) as connection:
        operations = Operations(MigrationContext.configure(connection, opts={"render_as_batch": True}))
        with operations.batch_alter_table(
            "task", recreate="always" if connection.dialect.name == "sqlite" else "never"
        ) as batch:
            batch.alter_column("reason", nullable=False)


def test_upgrade_that_would_leave_orphans_is_refused_whole(
    engine_url: str, connected: Engine, clock: FakeClock
) -> None:
    """On SQLite foreign keys are off while migrating, so the runner checks them itself before it commits."""
    migrate.upgrade(engine_url)
    if connected.dialect.name != "sqlite":
        with pytest.raises(Exception, match="foreign key"), connected.begin() as connection:
            connection.execute(text("INSERT INTO delivery_attempt VALUES ('absent', 1, now(), 'delivered', 200, NULL)"))
        return
    with connected.begin() as connection:
        connection.execute(
            text("INSERT INTO delivery_attempt VALUES ('absent', 1, '2026-04-30 20:00:00', 'delivered', 200, NULL)")
        )
    with pytest.raises(migrate.SchemaOutdated, match="nothing was changed"):
        migrate.upgrade(engine_url)
    with connected.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM delivery_attempt")).scalar_one() == 1


def test_a_filled_database_of_an_older_release_is_upgraded_with_its_words(engine_url: str, clock: FakeClock) -> None:
    """Names may be as long as an index of PostgreSQL holds of one; what was stored before is found like all else."""
    migrate.upgrade(engine_url)
    subject, resource = secrets.token_hex(MOST_BYTES // 2), secrets.token_hex(MOST_BYTES // 2)
    ended = {"status": "approved", "ended_at": clock()}
    before = [
        a_task("task_Ab-1", now=clock(), subject_id=subject, resource_id=resource, **ended),
        a_task("task_2", now=clock(), subject_id="Müller-Lüdenscheidt", agent="планировщик", server=None),
    ]
    wanted = {task.id: " ".join(sorted(searched_words(task))) for task in before}
    _write(engine_url, lambda session: session.add_all(before))
    with migrate.migrating(engine_url, busy_seconds=5) as connection:
        command.downgrade(migrate.config(connection), "service_0017")

    migrate.upgrade(engine_url)

    migrate.check(engine_url)
    opened = Database.open(engine_url)
    found = opened.read_now(
        lambda session: (
            {row.task_id: " ".join(sorted(re.findall(r"[0-9a-z]+", row.words))) for row in session.exec(_ALL)},
            queueing.few_with_words(session, wanted_words("müll план")),
        )
    )
    opened.close()
    assert found == (wanted, ["task_2"])


def _write(url: str, work: Callable[[WriteSession], None]) -> None:
    opened = Database.open(url)
    try:
        opened.write_now(work)
    finally:
        opened.close()


def test_four_upgrades_at_once_make_one_schema(engine_url: str) -> None:
    """Four instances that start together: the first one works, the others wait, nobody fails."""
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def run() -> None:
        start.wait(5)
        try:
            migrate.upgrade(engine_url)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    migrate.check(engine_url)


def test_downgrade_leaves_nothing_behind(engine_url: str, connected: Engine) -> None:
    """The way back is written and works."""
    migrate.upgrade(engine_url)
    with migrate.migrating(engine_url, busy_seconds=5) as connection:
        command.downgrade(migrate.config(connection), "base")
    with connected.connect() as connection:
        assert inspect(connection).get_table_names() == [migrate.VERSION_TABLE]


def test_service_and_gate_may_share_a_database(engine_url: str, connected: Engine) -> None:
    """A table of the other side is neither dropped nor taken for a change by hand."""
    with connected.begin() as connection:
        connection.execute(text("CREATE TABLE gate_task (id VARCHAR PRIMARY KEY)"))
    migrate.upgrade(engine_url)
    migrate.check(engine_url)
    with connected.connect() as connection:
        assert "gate_task" in inspect(connection).get_table_names()


def test_there_is_one_line_of_versions(tmp_path: Any) -> None:
    """Two heads would make `upgrade` ambiguous."""
    with migrate.migrating(f"sqlite:///{tmp_path}/arap.db", busy_seconds=1) as connection:
        assert len(ScriptDirectory.from_config(migrate.config(connection)).get_heads()) == 1


def test_missing_folder_is_named_when_migrating(tmp_path: Any) -> None:
    """One clear line instead of a traceback."""
    with pytest.raises(StoreUnavailable, match="does not exist"):
        migrate.upgrade(f"sqlite:///{tmp_path}/absent/arap.db")
