"""The part of small faults that tests notice is measured rightly: shown on a module that is tested in part."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deep import mutation
from tests.deep.evidence import ROOT
from tests.deep.mutants import Mutant, mutants_of
from tests.deep.mutation import (
    GROUPS,
    Measurement,
    Score,
    Table,
    Tried,
    attempt,
    files_of,
    load,
    mirror,
    modules,
    wilson,
)
from tests.deep.workshop import Workshop, open_workshop

DOOR = "def may(who):\n    while who == 'you':\n        who = 'me'\n    return who == 'me'\n"
TESTS = "from door import may\n\n\ndef test_i_may():\n    assert may('me')\n"
FURTHER = "from door import may\n\n\ndef test_nobody_else_may():\n    assert not may('them')\n"


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop with that module and its two files of tests."""
    checkout = tmp_path_factory.mktemp("checkout")
    subprocess.run(["git", "init", "--quiet", str(checkout)], check=True)
    for name, text in {"door.py": DOOR, "test_door.py": TESTS, "test_far.py": FURTHER}.items():
        (checkout / name).write_text(text)
    with open_workshop(checkout, tmp_path_factory.mktemp("workshop"), libraries=()) as opened:
        yield opened


def fault(old: str, new: str) -> Mutant:
    """The fault that has `new` in the place of `old`."""
    start = DOOR.index(old)
    return Mutant("door.py", 1, "kind", "code", old, new, start, start + len(old))


def test_a_fault_is_noticed_by_the_files_that_are_tried_first_or_by_the_further_ones(workshop: Workshop) -> None:
    def outcome(old: str, new: str, *files: tuple[str, ...]) -> str:
        return attempt(workshop, fault(old, new), DOOR, files, seed=1)

    near, far = ("test_door.py",), ("test_far.py",)
    assert outcome("return who == 'me'", "return False", near, far) == "noticed"
    assert outcome("return who == 'me'", "return True", near, far) == "noticed"
    assert outcome("return who == 'me'", "return True", near) == "survived"
    assert outcome("def may", "def must", near) == "noticed"
    assert outcome("return who == 'me'", "return who == 'me' ", near, far) == "survived"


def test_a_run_that_does_not_come_to_an_end_is_ended(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "_CPU_SECONDS", 2)
    assert attempt(workshop, fault("while who == 'you'", "while True"), DOOR, [("test_door.py",)], seed=1) == "endless"


def test_the_score_counts_what_could_be_noticed() -> None:
    """Faults that change nothing do not count, and each survivor is told with what it was."""
    mutant = fault("return who == 'me'", "return True")
    ended = [*["noticed"] * 6, "endless", "survived", "equivalent", "equivalent"]
    score = Score("doors", 100, tuple(Tried(mutant, outcome) for outcome in ended))  # type: ignore[arg-type]
    told = score.told(Table({}, {}))
    assert (told["mutants"], told["tried"], told["score"]) == (100, 10, 0.875)
    assert told["modules"] == {"door.py": {"endless": 1, "equivalent": 2, "noticed": 6, "survived": 1}}
    assert len(told["survivors"]) == 3
    assert told["from"] < told["score"] < told["to"]


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [
        (8, 10, (0.8, 0.4902, 0.9433)),
        (10, 10, (1.0, 0.7225, 1.0)),
        (0, 10, (0.0, 0.0, 0.2775)),
        (0, 0, (0.0, 0.0, 1.0)),
    ],
)
def test_the_interval_is_wilsons(successes: int, trials: int, interval: tuple[float, float, float]) -> None:
    """Values of the published formula; they stay between nothing and all."""
    assert tuple(round(each, 4) for each in wilson(successes, trials)) == interval


@pytest.mark.parametrize("file", [file for group in GROUPS for file in modules(group, ROOT)])
def test_every_module_has_tests_to_be_tried_with(file: str) -> None:
    files = [each for of_round in files_of(file, load(), ROOT) for each in of_round]
    assert files, "name the files that test it in tests/deep/mutation.toml, or write the file of its name"
    assert [each for each in files if not (ROOT / each).is_file()] == []


def test_every_fault_that_changes_nothing_is_one_of_those_that_are_tried() -> None:
    """A line that was reworded must not keep its excuse."""
    table = load()
    known = {
        (mutant.file, mutant.code, mutant.old, mutant.new)
        for group in GROUPS
        for file in modules(group, ROOT)
        for mutant in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"))
    }
    assert table.equivalent.keys() - known == set()
    assert set(table.further) <= {file for group in GROUPS for file in modules(group, ROOT)}
    assert all(table.equivalent.values())


def test_the_tests_of_a_module_stand_where_it_stands() -> None:
    assert mirror("arap_service/domain/task.py") == "tests/domain/test_task.py"
    assert mirror("mcp_gate/mapping.py") == "tests/gate/test_mapping.py"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose only group has two modules: a door that is tested in part, and a window whose test is red."""
    files = {
        "arap_service/domain/door.py": "def may(who):\n    return who == 'me'\n",
        "tests/domain/test_door.py": "from arap_service.domain.door import may\n\n\ndef test_i(): assert may('me')\n",
        "arap_service/domain/window.py": "def may():\n    return 1\n",
        "tests/domain/test_window.py": "def test_it(): assert False\n",
    }
    root = tmp_path / "house"
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).with_name("__init__.py").touch()
    for package in ("arap_service", "tests"):
        (root / package / "__init__.py").touch()
    monkeypatch.setattr(mutation, "GROUPS", {"openings": ("arap_service/domain/*.py",)})
    return root


def test_what_is_tried_is_drawn_by_chance_and_not_where_tests_are_red(house: Path, tmp_path: Path) -> None:
    """Of the door all is tried; the window is told as a trouble and counts for nothing."""
    measurement = Measurement(house, tmp_path / "shops", seed=1, jobs=1, minutes=60)
    (score,) = measurement.scores({"openings": None})
    assert score.mutants == 5
    assert {(tried.mutant.new, tried.outcome) for tried in score.tried} == {
        ("return None", "noticed"),
        ("(who != 'me')", "noticed"),
        ("'meX'", "noticed"),
    }
    assert {trouble.partition(":")[0] for trouble in measurement.troubles} == {"arap_service/domain/window.py"}
    assert (house / "arap_service/domain/door.py").read_text() == "def may(who):\n    return who == 'me'\n"


def test_nothing_is_tried_when_the_time_is_over(house: Path, tmp_path: Path) -> None:
    measurement = Measurement(house, tmp_path / "shops", seed=1, jobs=1, minutes=0)
    (score,) = measurement.scores({"openings": 2})
    assert (score.mutants, score.tried) == (5, ())
    assert str(score) == "openings: 0 of 5 tried, 0.0% noticed (0.0% to 100.0%)"
