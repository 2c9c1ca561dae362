"""What every test shares: a closed network, a clock, both database engines, and the rule for missing parts."""

import gc
import importlib
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from hypothesis import settings

from tests import legs
from tests.clock import FakeClock
from tests.databases import KINDS, Databases, Kind, in_memory
from tests.network import NetworkGuard

# How long an example takes says nothing about whether it is right.
settings.register_profile("house", deadline=None, print_blob=True)
settings.load_profile("house")
# What a run imports and collects stays; looking through it for rubbish every few tests took a tenth of the time.
gc.set_threshold(50_000, 20, 50)


def pytest_configure() -> None:
    """Refuse a misspelt `ARAP_REQUIRE` before anything runs."""
    legs.required()


def pytest_collection_finish() -> None:
    """Leave what the whole run needs out of every later look for rubbish."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Decide about tests that are marked with the leg they need."""
    for leg in (legs.BROWSER, legs.NODE, legs.CERBOS):
        if item.get_closest_marker(leg.name):
            legs.need(leg)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the legs that were skipped, each with the command that enables it, and the points of death tried."""
    skipped = " ".join(str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    for leg in legs.LEGS:
        if legs.reason(leg) in skipped:
            terminalreporter.write_line(f"not run: {legs.reason(leg)}")
    for outcome in ("passed", "failed"):
        reports = terminalreporter.stats.get(outcome, [])
        for tried, meaning in (
            ("killed", "killed and started again"),
            ("befallen", "befallen by a fault and ended well"),
        ):
            told = sorted(str(value) for report in reports for name, value in report.user_properties if name == tried)
            if told:
                terminalreporter.write_line(f"{meaning}, {outcome} ({len(told)}): {', '.join(told)}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that the servers run on."""
    return "asyncio"


@pytest.fixture(scope="session")
def network_guard() -> Iterator[NetworkGuard]:
    """The guard that is in force during the whole run."""
    guard = NetworkGuard()
    with pytest.MonkeyPatch.context() as patch:
        guard.install(patch)
        yield guard


@pytest.fixture(autouse=True)
def _closed_network(network_guard: NetworkGuard) -> Iterator[None]:
    yield
    assert network_guard.take() == [], "the test tried to leave this machine"


@pytest.fixture
def clock() -> FakeClock:
    """A clock at 2026-04-30T20:00:00Z that only the test moves."""
    return FakeClock()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Where databases come from; prefer `engine_url`, or `databases.copy_of` for a prepared one."""
    # In memory no commit waits for a disk that others use as well.
    place = in_memory()
    folder = (
        tmp_path_factory.mktemp("databases") if place is None else Path(mkdtemp(prefix="arap-databases-", dir=place))
    )
    made = Databases(folder)
    yield made
    made.close()
    rmtree(folder)


@pytest.fixture(params=KINDS)
def engine_kind(request: pytest.FixtureRequest) -> Kind:
    """Each engine in turn."""
    kind: Kind = request.param
    if kind == "postgres":
        legs.need(legs.POSTGRES)
    return kind


@pytest.fixture
def engine_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    """URL of an empty database of this test alone, on each engine in turn."""
    url = databases.empty(engine_kind)
    yield url
    databases.drop(url)


@pytest.fixture
def service_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    """URL of a database of this test alone that has the tables of the service, on each engine in turn."""
    # Imported late: the gate's tests share this file and run without the service's dependencies.
    migrate = importlib.import_module("arap_service.store.migrate")
    url = databases.copy_of(engine_kind, "service", migrate.upgrade)
    yield url
    databases.drop(url)
