"""Every saboteur of `make deep` still fits the sources, so that none of them turns into a fault that nobody tries."""

from pathlib import Path

import pytest

from tests.deep.evidence import ROOT
from tests.deep.saboteurs import Saboteur, Unfit, faults, load
from tests.requirements import catalogue

SABOTEURS = load()
# Groups of the catalogue of which at least one rule must have a saboteur; see design.md section 12.
GROUPS = (
    *("PDP-A", "PDP-D", "PDP-E", "PDP-F", "ARS-B", "ARS-C", "ARS-D", "ARS-E", "ARS-F", "ARS-G", "ARS-I", "ARS-L"),
    *("PEP-A", "PEP-C", "PEP-D", "PEP-E", "PEP-G", "PEP-H", "PEP-I", "PEP-J", "PEP-K", "GOV"),
)


@pytest.mark.parametrize("saboteur", SABOTEURS, ids=lambda saboteur: saboteur.name)
def test_a_saboteur_fits_once_and_names_a_test_that_exists(saboteur: Saboteur) -> None:
    """Design section 12: a line that was reworded must not disarm its saboteur silently."""
    assert list(faults(saboteur, ROOT)) == []


def test_saboteurs_break_known_rules_of_every_group() -> None:
    """Design section 12: at least one per group of the catalogue that is built."""
    group_of = {requirement.id: requirement.group.partition(" ")[0] for requirement in catalogue()}
    broken = {id_ for saboteur in SABOTEURS for id_ in saboteur.covers}
    assert broken <= group_of.keys()
    assert {group_of[id_] for id_ in broken} >= {*GROUPS}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one module and one test."""
    (tmp_path / "door.py").write_text("def may(who):\n    return who == 'me'\n")
    (tmp_path / "test_door.py").write_text("def test_only_i_may():\n    assert True\n")
    return tmp_path


def example(**changes: str) -> Saboteur:
    """A saboteur of that checkout."""
    plain = {
        "name": "open-door",
        "file": "door.py",
        "old": "return who == 'me'",
        "new": "return True",
        "test": "test_door.py::test_only_i_may",
    }
    return Saboteur(covers=("PDP-01",), **{**plain, **changes})


def test_a_fault_changes_one_line(checkout: Path) -> None:
    """The fault is put in where the old text stands, and nowhere else."""
    assert list(faults(example(), checkout)) == []
    assert example().applied((checkout / "door.py").read_text()) == "def may(who):\n    return True\n"


MISFITS = {
    "old-text-gone": {"old": "return nobody"},
    "old-text-twice": {"old": "who"},
    "no-change": {"new": "return who == 'me'"},
    "two-lines": {"new": "return (\n        True)"},
    "no-python": {"new": "return ("},
    "no-file": {"file": "window.py"},
    "no-test-file": {"test": "test_window.py::test_only_i_may"},
    "no-test": {"test": "test_door.py::test_nobody_may"},
}


@pytest.mark.parametrize("changes", MISFITS.values(), ids=MISFITS.keys())
def test_a_saboteur_that_does_not_fit_is_an_error(checkout: Path, changes: dict[str, str]) -> None:
    """Each way in which a saboteur can miss its mark is told by name."""
    (fault,) = faults(example(**changes), checkout)
    assert fault.startswith("open-door: ")


@pytest.mark.parametrize(
    "text",
    [
        '[[saboteur]]\nname = "x"\ncovers = ["PDP-01"]\n',
        '[[saboteur]]\nname="x"\ncovers=[]\nfile="f"\nold="a"\nnew="b"\ntest="t"\n',
        '[[saboteur]]\nname="x"\ncovers=["PDP-01"]\nfile="f"\nold="a"\nnew="b"\ntest="t"\n' * 2,
    ],
    ids=["members-missing", "covers-nothing", "name-twice"],
)
def test_a_catalogue_that_is_not_one_is_refused(tmp_path: Path, text: str) -> None:
    """A saboteur without a rule, a test or a name of its own is refused when it is read."""
    file = tmp_path / "saboteurs.toml"
    file.write_text(text)
    with pytest.raises(Unfit, match=r"^x: "):
        load([file])
