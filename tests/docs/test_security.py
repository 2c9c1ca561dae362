"""docs/security.md: every threat names a test that exists."""

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT

PAGE = (DOCS / "security.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([\w/.]+)::(\w+)` \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("threat", "path", "name"), ROWS)
def test_the_test_of_a_threat_exists(threat: str, path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in names, threat


def test_every_row_of_the_table_has_a_test() -> None:
    table = PAGE.partition("## Threats")[2].partition("## What remains")[0]
    assert len(ROWS) == sum(line.startswith("| ") for line in table.splitlines()) - 1
