"""The manifest of requirements and the tests agree in both directions."""

from pathlib import Path

import pytest

from tests import requirements
from tests.requirements import BadClaim, Claim, Requirement
from tests.requirements_open import OPEN

ROW = Requirement("ARS-20", "ARS-C", "MUST", our_decision=False, rule="rule", source="source", test="test")
CLAIM = Claim("ARS-20", "tests/test_x.py", "test_x")
REASON = "built by the service issue"


def test_every_requirement_is_tested_or_open_for_a_reason() -> None:
    assert list(requirements.problems(requirements.catalogue(), requirements.claims(), OPEN)) == []


def test_the_catalogue_is_whole() -> None:
    rows = requirements.catalogue()
    assert len(rows) == 355
    assert {row.level for row in rows} == {"MUST", "SHOULD", "MAY"}


@pytest.mark.parametrize(
    ("claimed", "still_open", "problem"),
    [
        ([], {}, "neither a test nor a reason"),
        ([CLAIM], {"ARS-20": REASON}, "still listed as open"),
        ([CLAIM, Claim("ARS-999", "tests/test_x.py", "test_x")], {}, "not in the catalogue"),
        ([CLAIM, Claim("X-43", "tests/test_x.py", "test_x")], {}, "not in the catalogue"),
        ([CLAIM], {"ARS-999": REASON}, "not in the catalogue"),
        ([], {"ARS-20": "later"}, "explains nothing"),
        ([], {"ARS-20": "there was no time for this one"}, "explains nothing"),
    ],
)
def test_a_disagreement_is_named(claimed: list[Claim], still_open: dict[str, str], problem: str) -> None:
    found = list(requirements.problems([ROW], claimed, still_open))
    assert len(found) == 1
    assert problem in found[0]


def test_a_decision_may_be_named_without_being_counted() -> None:
    assert list(requirements.problems([ROW], [CLAIM, Claim("X-42", "tests/test_x.py", "test_x")], {})) == []


def test_an_id_that_stands_twice_in_the_catalogue_is_named() -> None:
    assert list(requirements.problems([ROW, ROW], [CLAIM], {})) == ["the catalogue names an id twice"]


def test_claims_are_read_from_decorators_parameters_and_whole_files(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "pytestmark = [pytest.mark.requirement('X-1')]\n"
        "@pytest.mark.requirement('X-2', 'X-3')\n"
        "async def test_one(): ...\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.requirement('X-4'))])\n"
        "def test_two(n): ...\n"
    )
    found = requirements.claims(tmp_path)
    assert {(claim.id, claim.test) for claim in found} == {
        ("X-1", "test_a"),
        ("X-2", "test_one"),
        ("X-3", "test_one"),
        ("X-4", "test_two"),
    }


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.requirement('X-1')\ndef helper(): ...\n",
        "@pytest.mark.requirement()\ndef test_x(): ...\n",
        "@pytest.mark.requirement(NAME)\ndef test_x(): ...\n",
        "@pytest.mark.requirement(ids='X-1')\ndef test_x(): ...\n",
    ],
)
def test_a_mark_that_cannot_be_counted_is_an_error(source: str, tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(source)
    with pytest.raises(BadClaim, match=r"test_a\.py:1"):
        requirements.claims(tmp_path)


def test_the_open_list_is_rewritten_without_what_is_proved() -> None:
    source = requirements.render_open({"ARS-20": REASON})
    scope: dict[str, object] = {}
    exec(source, scope)  # noqa: S102 - our own source, and what counts is that it is one
    assert scope["OPEN"] == {"ARS-20": REASON}
    assert "OPEN: Final[dict[str, str]] = {}\n" in requirements.render_open({})


def test_the_summary_counts_the_whole_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert requirements.main([]) == 0
    words = capsys.readouterr().out.split()
    assert words[1::2] == ["tested,", "open,", "total"]
    assert int(words[0]) + int(words[2]) == int(words[4]) == 355


def test_a_group_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    requirements.main(["--list", "ARS-F"])
    rows = capsys.readouterr().out.splitlines()[:-1]
    assert len(rows) == 5
    assert all(row.startswith("ARS-") for row in rows)
