"""What the tests of this leg share: the programs from npm, and one run of the suite for all of them."""

import fcntl
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.conformance import Outcome, run_required
from tests.node.programs import need_programs
from tests.node.serving import serving


@pytest.fixture(scope="session")
def programs() -> None:
    """The programs from npm are there."""
    need_programs()


@pytest.fixture(scope="session")
def fixture_url() -> Iterator[str]:
    """The URL of the fixture."""
    with serving() as url:
        yield url


@pytest.fixture(scope="session")
def ran(
    request: pytest.FixtureRequest, programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Outcome]:
    """The outcome of a revision; whoever asks first runs the suite, and the others read what it found."""
    temporary = tmp_path_factory.getbasetemp()
    is_one_of_many = hasattr(request.config, "workerinput")
    shared = (temporary.parent if is_one_of_many else temporary) / "conformance"

    def outcome(revision: str) -> Outcome:
        shared.mkdir(exist_ok=True)
        with (shared / f"{revision}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _kept(request, shared, revision)

    return outcome


def _kept(request: pytest.FixtureRequest, shared: Path, revision: str) -> Outcome:
    kept = shared / f"{revision}.json"
    if not kept.exists():
        url: str = request.getfixturevalue("fixture_url")
        found = run_required(url, revision, folder=shared)
        kept.write_text(json.dumps([found.status, found.printed, found.checks]))
    return Outcome(*json.loads(kept.read_text()))
