"""docs/arap-conformance.md: its numbers are those of the catalogue, and no decision is left out."""

import json
import re

from tests.requirements import CATALOGUE, DECISIONS
from tools import conformance_table

PAGE = conformance_table.PAGE.read_text(encoding="utf-8")


def test_the_numbers_of_the_page_are_those_of_the_catalogue() -> None:
    assert conformance_table.render(PAGE) == PAGE, "run python -m tools.conformance_table"


def test_the_last_row_is_the_sum() -> None:
    rows = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    assert conformance_table.table().splitlines()[-1].endswith(f"| {len(rows)} |")


def test_every_decision_about_a_gap_stands_there_once() -> None:
    assert sorted(re.findall(r"^\| (X-\d\d) \|", PAGE, re.MULTILINE)) == sorted(DECISIONS)
