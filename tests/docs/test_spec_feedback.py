"""docs/spec-feedback.md: every point names a test that is there, and every decision that it cites is one of ours."""

import ast
import re

from tests.house_rules import ROOT
from tests.requirements import DECISIONS

PAGE = (ROOT / "docs" / "spec-feedback.md").read_text(encoding="utf-8")
POINTS = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]
REFERENCE = re.compile(r"`([\w/]+\.py)::(\w+)`")


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_named_test_is_there() -> None:
    named = REFERENCE.findall(PAGE)
    assert named
    assert [f"{path}::{name}" for path, name in named if name not in functions_of(path)] == []


def test_every_point_says_what_to_change_and_which_test_shows_it() -> None:
    assert [
        point.splitlines()[0] for point in POINTS if "**Wording:**" not in point or not REFERENCE.search(point)
    ] == []


def test_points_are_numbered_in_order() -> None:
    assert [int(point.split()[0]) for point in POINTS] == list(range(1, len(POINTS) + 1))


def test_every_decision_that_is_cited_is_one_of_ours() -> None:
    cited = set(re.findall(r"X-\d\d", PAGE))
    assert cited
    assert cited <= set(DECISIONS)
