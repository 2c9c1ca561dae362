"""The gate's migrations. Provenance: design section 8; notes on Alembic: what `alembic check` doesn't see."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, insert, inspect, text

from mcp_gate import migrate, tables
from mcp_gate.database import StoreUnavailable
from tests.clock import START


def described(engine: Engine) -> dict[str, Any]:
    """Everything that the two ways of making the tables could disagree about."""
    looked = inspect(engine)
    found: dict[str, Any] = {}
    for table in sorted(tables.metadata.tables):
        found[table] = {
            "columns": [(c["name"], str(c["type"]), c["nullable"]) for c in looked.get_columns(table)],
            "checks": sorted((c["name"], c["sqltext"]) for c in looked.get_check_constraints(table)),
            "indexes": sorted(
                (str(i["name"]), tuple(i["column_names"]), bool(i["unique"]), _predicate(i))
                for i in looked.get_indexes(table)
            ),
            "keys": looked.get_pk_constraint(table),
            "foreign": [(f["name"], f["referred_table"], f["options"]) for f in looked.get_foreign_keys(table)],
        }
    return found


def _predicate(index: Any) -> str:
    options = index.get("dialect_options", {})
    return str(options.get("sqlite_where", options.get("postgresql_where", "")))


@pytest.fixture
def engine(engine_url: str) -> Iterator[Engine]:
    """An engine on the test's own database, without any rule about transactions."""
    made = create_engine(engine_url)
    yield made
    made.dispose()


def test_migrated_and_created_tables_are_the_same(engine_url: str, engine: Engine) -> None:
    migrate.upgrade(engine_url)
    migrate.check(engine_url)
    by_migration = described(engine)
    with engine.begin() as connection:
        tables.metadata.drop_all(connection)
        tables.metadata.create_all(connection)
    assert described(engine) == by_migration
    predicates = [index[3] for table in by_migration.values() for index in table["indexes"] if index[3]]
    assert len(predicates) == 4


def test_an_upgrade_keeps_what_is_there(engine_url: str, engine: Engine) -> None:
    migrate.upgrade(engine_url)
    with engine.begin() as connection:
        connection.execute(insert(tables.task).values(row()))
        connection.execute(insert(tables.outcome).values(task_id="tsk_1", result=b"x", stored_at=START))
    migrate.upgrade(engine_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM gate_outcome")).scalar() == 1


def row(**changes: Any) -> dict[str, Any]:
    plain = {
        "id": "tsk_1",
        "version": 1,
        "phase": "pending",
        "generation": 1,
        "announced": True,
        "attempts": 0,
        "digest": "d",
        "fingerprint": "f",
        "server": "s",
        "tool": "t",
        "iss": "i",
        "sub": "s",
        "data_key": b"k",
        "binding": b"b",
        "created_at": START,
        "updated_at": START,
        "ttl_ms": 1,
        "pending_deadline": START,
    }
    return plain | changes


def test_four_first_upgrades_at_once_all_succeed(engine_url: str) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        try:
            migrate.upgrade(engine_url)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    migrate.check(engine_url)


def test_a_database_of_another_release_is_not_served(engine_url: str) -> None:
    with pytest.raises(migrate.SchemaOutdated, match="mcp-gate migrate"):
        migrate.check(engine_url)


def test_a_database_that_was_changed_by_hand_is_not_served(engine_url: str, engine: Engine) -> None:
    migrate.upgrade(engine_url)
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX ux_gate_task_open_digest"))
    with pytest.raises(migrate.SchemaOutdated, match="by hand"):
        migrate.check(engine_url)


def test_rows_without_their_task_stop_a_migration(databases: Any) -> None:
    url = databases.empty("sqlite")
    migrate.upgrade(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(insert(tables.outcome).values(task_id="lost", result=b"x", stored_at=START))
    engine.dispose()
    with pytest.raises(migrate.SchemaOutdated, match="rows refer"):
        migrate.upgrade(url)


def test_without_migrations_nothing_is_upgraded(databases: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(migrate, "__file__", str(tmp_path / "mcp_gate" / "migrate.py"))
    with pytest.raises(StoreUnavailable, match="carries no migrations"):
        migrate.upgrade(databases.empty("sqlite"))
