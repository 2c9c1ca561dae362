"""The fixtures that other tests build on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.databases import Databases, Kind


def _run(url: str, *statements: str) -> list[tuple[object, ...]]:
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            for statement in statements[:-1]:
                connection.exec_driver_sql(statement)
            return [tuple(row) for row in connection.exec_driver_sql(statements[-1])]
    finally:
        engine.dispose()


@pytest.fixture
def copies(engine_kind: Kind, databases: Databases) -> Iterator[tuple[str, str]]:
    def prepare(url: str) -> None:
        _run(url, "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (1) RETURNING n")

    pair = (databases.copy_of(engine_kind, "fixture", prepare), databases.copy_of(engine_kind, "fixture", prepare))
    yield pair
    for url in pair:
        databases.drop(url)


def test_an_empty_database_takes_a_table(engine_url: str) -> None:
    assert _run(engine_url, "CREATE TABLE t (n INTEGER)", "INSERT INTO t VALUES (7)", "SELECT n FROM t") == [(7,)]


def test_copies_of_a_prepared_database_do_not_see_each_other(copies: tuple[str, str]) -> None:
    first, second = copies
    _run(first, "INSERT INTO t VALUES (2)", "SELECT n FROM t")
    assert _run(first, "SELECT n FROM t ORDER BY n") == [(1,), (2,)]
    assert _run(second, "SELECT n FROM t") == [(1,)]


def test_a_dropped_database_is_gone_although_somebody_is_connected(engine_kind: Kind, databases: Databases) -> None:
    url = databases.empty(engine_kind)
    engine = sa.create_engine(url, poolclass=sa.StaticPool)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE t (n INTEGER)")
        databases.drop(url)
    finally:
        engine.dispose()
    if engine_kind == "postgres":
        with pytest.raises(sa.exc.OperationalError):
            _run(url, "SELECT n FROM t")
    else:
        assert not Path(url.removeprefix("sqlite:///")).exists()
