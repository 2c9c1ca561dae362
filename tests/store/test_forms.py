"""What was filled in: which row serves a denial, and that it serves once; on both engines."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from arap_service.store import forms, tasks
from arap_service.store.database import Database
from arap_service.store.form_tables import FilledForm
from tests.clock import START
from tests.store.rows import a_task


def a_form(evaluation_id: str, **changes: Any) -> FilledForm:
    """What was filled in for a denial of five minutes."""
    columns: dict[str, Any] = {
        "template_id": "grant",
        "caller": "iss|gate",
        "client_id": "gate",
        "binding_hash": "h",
        "evaluated_at": START,
        "expires_at": START + timedelta(minutes=5),
        "filled_by": "person:ada",
        "filled_at": START,
        "data_key": b"k",
        "values_sealed": b"v",
    }
    return FilledForm(evaluation_id=evaluation_id, **(columns | changes))


def found(database: Database, evaluation_id: str, *, now: datetime = START, **changes: Any) -> str | None:
    """The evaluation whose form serves a denial of the same thing."""
    asked: dict[str, Any] = {
        "caller": "iss|gate",
        "client_id": "gate",
        "template_id": "grant",
        "binding_hash": "h",
        **changes,
    }

    def work(session: Any) -> str | None:
        row = forms.unused_form(session, evaluation_id, now=now, **asked)
        return None if row is None else row.evaluation_id

    return database.read_now(work)


def test_own_form_serves_before_the_newest_of_equal_denials(database: Database) -> None:
    later = {"filled_at": START + timedelta(seconds=9)}
    database.write_now(lambda session: session.add_all([a_form("ev_1"), a_form("ev_2", **later), a_form("ev_3")]))
    assert found(database, "ev_1") == "ev_1"
    assert found(database, "ev_new") == "ev_2"


@pytest.mark.parametrize("name", ["caller", "client_id", "template_id", "binding_hash"])
def test_form_serves_nobody_else_and_nothing_else(database: Database, name: str) -> None:
    database.write_now(lambda session: session.add(a_form("ev_1")))
    other: dict[str, Any] = {name: "other"}
    assert found(database, "ev_1", **other) is None


def test_form_serves_until_its_denial_expires_and_is_forgotten_with_it(database: Database) -> None:
    database.write_now(lambda session: session.add(a_form("ev_1")))
    end = START + timedelta(minutes=5)
    assert found(database, "ev_1", now=end - timedelta(microseconds=1)) == "ev_1"
    assert found(database, "ev_1", now=end) is None
    database.write_now(lambda session: tasks.forget_old(session, now=end, denials_before=end - timedelta(seconds=1)))
    assert database.read_now(lambda session: forms.find_form(session, "ev_1")) is not None
    database.write_now(lambda session: tasks.forget_old(session, now=end, denials_before=end))
    assert database.read_now(lambda session: forms.find_form(session, "ev_1")) is None


def test_form_is_used_by_one_request_and_goes_with_it(database: Database) -> None:
    def use(task_id: str) -> bool:
        return database.write_now(
            lambda session: forms.use_form(session, "ev_1", task_id=task_id, item=0, at=START, sealed=b"taken")
        )

    rows = (a_task("task_1", now=START), a_task("task_2", now=START, evaluation_id="ev_2"), a_form("ev_1"))
    database.write_now(lambda session: session.add_all(rows))
    assert (use("task_1"), use("task_2")) == (True, False)
    [row] = database.read_now(lambda session: list(forms.forms_of(session, "task_1")))
    assert (row.values_sealed, row.used_at) == (b"taken", START)
    assert found(database, "ev_1") is None
    end = START + timedelta(days=9)
    database.write_now(lambda session: tasks.forget_old(session, now=end, denials_before=end))
    assert database.read_now(lambda session: forms.find_form(session, "ev_1")) is not None
    assert database.write_now(lambda session: tasks.remove_task(session, "task_1"))
    assert database.read_now(lambda session: forms.find_form(session, "ev_1")) is None


def test_used_form_without_its_request_cannot_be_stored(database: Database) -> None:
    with pytest.raises(IntegrityError):
        database.write_now(lambda session: session.add(a_form("ev_1", used_at=START)))
