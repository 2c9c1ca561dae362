"""Whether a saboteur counts as caught is decided rightly: shown on a checkout of one module with good and bad tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deep.saboteurs import Saboteur
from tests.deep.workshop import RunFailed, Workshop, open_workshop

DOOR = "def may(who):\n    return who == 'me'\n"
TESTS = """
import pytest
from door import may

@pytest.fixture
def visitor():
    assert not may("you")
    return "you"

@pytest.mark.parametrize("who", ["me", "you"])
def test_only_i_may(who):
    assert may(who) is (who == "me")

def test_i_may():
    assert may("me")

def test_visitor_waits(visitor):
    assert visitor == "you"
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout under version control; nothing in it is committed yet."""
    folder = tmp_path_factory.mktemp("checkout")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "door.py").write_text(DOOR)
    (folder / "test_door.py").write_text(TESTS)
    return folder


@pytest.fixture(scope="module")
def workshop(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop with a copy of it."""
    with open_workshop(checkout, tmp_path_factory.mktemp("workshop"), libraries=()) as opened:
        yield opened


def saboteur(test: str) -> Saboteur:
    """The open door, and the test that should notice."""
    return Saboteur("open-door", ("PDP-01",), "door.py", "return who == 'me'", "return True", f"test_door.py::{test}")


def test_without_a_fault_every_test_is_told_by_its_name(workshop: Workshop) -> None:
    """What is compared later: the outcome of each test, parameters included."""
    assert workshop.outcomes(["test_door.py"]) == {
        "test_door.py::test_only_i_may[me]": "passed",
        "test_door.py::test_only_i_may[you]": "passed",
        "test_door.py::test_i_may": "passed",
        "test_door.py::test_visitor_waits": "passed",
    }


def test_a_saboteur_is_caught_by_the_test_that_fails_and_leaves_nothing_behind(
    workshop: Workshop, checkout: Path
) -> None:
    """The checkout is never touched, and the copy is as it was before the next one."""
    trial = workshop.attempt(saboteur("test_only_i_may"))
    assert (trial.caught_by, trial.trouble) == (("test_door.py::test_only_i_may[you]",), None)
    assert (checkout / "door.py").read_text() == DOOR
    assert set(workshop.outcomes(["test_door.py"]).values()) == {"passed"}


@pytest.mark.parametrize(
    ("test", "trouble"),
    [
        ("test_i_may", "None"),
        ("test_visitor_waits", "the test broke before it could say anything"),
        ("test_nobody_may", "pytest ended with 4"),
    ],
    ids=["test-passes", "set-up-breaks", "no-such-test"],
)
def test_a_saboteur_is_caught_only_by_a_test_that_ran_and_failed(workshop: Workshop, test: str, trouble: str) -> None:
    """A test that notices nothing, breaks before it begins or is not there has caught nobody."""
    trial = workshop.attempt(saboteur(test))
    assert trial.caught_by == ()
    assert str(trial.trouble).startswith(trouble)


def test_a_run_that_cannot_be_made_is_an_error(workshop: Workshop) -> None:
    """A path that does not exist must not look like tests that passed."""
    with pytest.raises(RunFailed, match="pytest ended with 4"):
        workshop.outcomes(["test_window.py"])
