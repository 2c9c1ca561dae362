"""docs/asvs.md: every item of levels 1 and 2 has its row, and what a row names exists."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT
from tools import asvs

# The ids alone, in the order of the standard, from release 5.0.0.
ITEMS = (Path(__file__).parent / "asvs-5.0.0-levels-1-2.txt").read_text(encoding="ascii").split()
TESTS = [(row["id"], test) for row in asvs.rows() for test in row.get("tests", ())]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_item_has_one_row_in_its_place() -> None:
    assert len(ITEMS) == 253
    assert [row["id"] for row in asvs.rows()] == ITEMS


@pytest.mark.parametrize(("item", "test"), TESTS)
def test_a_named_test_exists(item: str, test: str) -> None:
    path, _, name = test.partition("::")
    assert name in functions(path), item


def test_the_page_is_what_the_rows_say() -> None:
    assert asvs.PAGE.read_text(encoding="utf-8") == asvs.page()


def test_what_is_not_met_says_so_where_weaknesses_are_told() -> None:
    """Nobody has to look through 253 rows to learn what remains."""
    remains = (DOCS / "security.md").read_text(encoding="utf-8").partition("## What remains")[2]
    for row in asvs.rows():
        if row["is"] == "open":
            assert row["id"] in remains, row["id"]


@pytest.mark.parametrize(
    "row",
    [
        "{id: '1.1.1', asks: a, is: fine}",
        "{id: '1.1.1', asks: a, is: met}",
        "{id: '1.1.1', asks: a, is: met, tests: [a::b], untested: b}",
        "{id: '1.1.1', asks: a, is: open}",
    ],
)
def test_a_row_that_says_too_little_is_refused(row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "asvs.yaml"
    changed.write_text(f"items: [{row}]", encoding="utf-8")
    monkeypatch.setattr(asvs, "ROWS", changed)
    with pytest.raises(asvs.Unclear):
        asvs.rows()
