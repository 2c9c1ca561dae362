"""A backup is whole, private, of one moment, and never takes the place of anything."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from arap_service.backup import NotBackedUp, back_up, pg_dump
from arap_service.store import migrate
from arap_service.store.database import Database
from arap_service.store.people_tables import Person
from tests.clock import START
from tests.test_cli import config_of, dev, failure, prepared, run

__all__ = ["dev", "prepared"]  # fixtures


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database of this release with one person in it."""
    made = f"sqlite:///{tmp_path}/live.db"
    migrate.upgrade(made)
    _add(made, "anna")
    return made


def _add(url: str, person_id: str) -> None:
    opened = Database.open(url)
    opened.write_now(lambda session: session.add(Person(id=person_id, name="A", created_at=START)))
    opened.close()


def _people(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as copy:
        return [row[0] for row in copy.execute("SELECT id FROM person ORDER BY id")]


def test_a_copy_of_a_database_in_use_holds_what_was_committed_and_nothing_later(url: str, tmp_path: Path) -> None:
    opened = Database.open(url)  # its write-ahead log holds what the main file does not have yet
    opened.write_now(lambda session: session.add(Person(id="bert", name="B", created_at=START)))
    made = back_up(url, tmp_path / "copy.db")
    opened.write_now(lambda session: session.add(Person(id="carl", name="C", created_at=START)))
    opened.close()
    assert made.revision == migrate.head()
    assert made.size == (tmp_path / "copy.db").stat().st_size
    assert _people(made.path) == ["anna", "bert"]
    migrate.check(f"sqlite:///{made.path}")


def test_the_copy_is_its_owners_alone_and_one_file(url: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    made = back_up(url, tmp_path / "kept" / "copy.db")
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["copy.db"]


def test_a_file_that_exists_is_left_alone(url: str, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(NotBackedUp, match="name a new file"):
        back_up(url, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


def _damage(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    for place in range(4096 * 2, len(content), 4096):
        content[place : place + 64] = b"\xff" * 64
    path.write_bytes(content)


def _orphan(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("INSERT INTO membership (person_id, group_name, source) VALUES ('nobody', 'x', 'local')")
        database.commit()


def _empty(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE other (x)")


def _nothing(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(_damage, "damaged|DISK|CORRUPT"), (_orphan, "damaged"), (_empty, "no tables"), (_nothing, "no database")],
)
def test_what_is_not_whole_leaves_no_file_behind(
    url: str, tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    spoil(tmp_path / "live.db")
    (tmp_path / "kept").mkdir()
    with pytest.raises(NotBackedUp, match=says):
        back_up(url, tmp_path / "kept" / "copy.db")
    assert list((tmp_path / "kept").iterdir()) == []


def test_postgresql_is_told_the_command_without_the_password(tmp_path: Path) -> None:
    url = "postgresql://arap:hush%20now@db.example:5433/ar%20ap"
    command = pg_dump(make_url(url), Path("a copy"))
    assert command == ("pg_dump --format=custom '--file=a copy' --host=db.example --port=5433 --username=arap 'ar ap'")
    with pytest.raises(NotBackedUp) as refused:
        back_up(url, tmp_path / "copy.db")
    assert pg_dump(make_url(url), tmp_path / "copy.db") in str(refused.value)
    assert "hush" not in str(refused.value)
    assert "--host=/run/pg" in pg_dump(make_url("postgresql:///arap?host=/run/pg"), tmp_path)


def test_the_command_copies_and_says_what_else_to_keep(dev: Path) -> None:
    config = config_of(dev)
    finished = run("backup", str(dev / "copy.db"), "--config", str(config))
    assert finished.returncode == 0, finished.stderr
    assert "whole" in finished.stdout
    assert "keys.json" in finished.stdout
    assert "name a new file" in failure("backup", str(dev / "copy.db"), "--config", str(config))
    assert "cannot write" in failure("backup", str(dev / "absent" / "copy.db"), "--config", str(config))
