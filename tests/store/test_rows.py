"""Rows that are made without the session: what is missing or unknown is an error of ours, and never an empty column."""

import pytest

from arap_service.store.rows import new_row, table_of
from arap_service.store.tables import Task

COLUMNS = dict.fromkeys(table_of(Task).columns.keys(), "given")


def test_what_is_given_is_held_and_what_may_be_left_out_has_its_default() -> None:
    row = new_row(Task, **{name: value for name, value in COLUMNS.items() if name != "ended_at"})
    assert (row.id, row.ended_at) == ("given", None)


@pytest.mark.parametrize("left_out", ["submitter", "actors"], ids=["needed", "made-anew-for-each"])
def test_a_column_without_a_value_is_named(left_out: str) -> None:
    with pytest.raises(TypeError, match=left_out):
        new_row(Task, **{name: value for name, value in COLUMNS.items() if name != left_out})


def test_a_name_that_is_no_column_is_named() -> None:
    with pytest.raises(TypeError, match="sumbitter"):
        new_row(Task, **COLUMNS, sumbitter="x")
