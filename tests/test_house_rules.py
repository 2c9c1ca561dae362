"""The repository keeps its own rules, and each rule finds what it forbids."""

from pathlib import PurePosixPath

import pytest

from tests import house_rules
from tests.house_rules import ROOT, RULES, Rule
from tools import assets

COPIED = {asset["path"] for asset in assets.read_lock()}
SERVICE = PurePosixPath("arap_service/x.py")
TEST = PurePosixPath("tests/test_x.py")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_file_breaks(rule: Rule) -> None:
    offences: list[str] = []
    for path in house_rules.tracked():
        content = (ROOT / path).read_bytes()
        if str(path) not in COPIED and b"\0" not in content:
            offences += rule(path, content.decode("utf-8"))
    assert offences == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (house_rules.no_machine_path, SERVICE, "x = '/" + "home/somebody'"),
        (house_rules.no_registry_host, PurePosixPath("locks/a.lock"), "--index-url https://" + "pypi" + ".org/simple"),
        (house_rules.nothing_unfinished, SERVICE, "raise NotImplemented" + "Error"),
        (house_rules.nothing_unfinished, PurePosixPath("README.md"), "TO" + "DO: say more"),
        (house_rules.short_files_and_functions, SERVICE, "x = 1\n" * 400),
        (house_rules.short_files_and_functions, SERVICE, "def f():\n" + "    x = 1\n" * 49),
        (house_rules.no_sleep_in_tests, TEST, "time.sleep(0.1)"),
        (house_rules.no_sleep_in_tests, TEST, "sleep(1)"),
        (house_rules.no_sleep_in_tests, TEST, "await anyio.sleep(delay)"),
        (house_rules.one_place_commits, SERVICE, "session.commit()"),
        (house_rules.one_place_commits, PurePosixPath("mcp_gate/x.py"), "connection.commit()"),
        (house_rules.the_clock_is_an_argument, SERVICE, "now = datetime.now(UTC)"),
        (house_rules.the_clock_is_an_argument, SERVICE, "now = time.time()"),
        (house_rules.the_clock_is_an_argument, SERVICE, "def f(x):\n    x += 1\n    return time.time() + x"),
        (house_rules.tables_stay_in_the_store, SERVICE, "from sqlmodel import SQLModel"),
        (house_rules.no_skipped_test, TEST, "@pytest.mark.skip\ndef test_x(): ..."),
        (house_rules.no_skipped_test, TEST, "pytest.importorskip('x')"),
        (house_rules.functions_not_classes, TEST, "class TestX:\n    def test_x(self): ..."),
    ],
)
def test_an_offence_is_found(rule: Rule, path: PurePosixPath, text: str) -> None:
    assert len(list(rule(path, text))) == 1


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (house_rules.no_machine_path, SERVICE, "at = '/access/v1/request'"),
        (house_rules.short_files_and_functions, SERVICE, "x = 1\n" * 399),
        (house_rules.short_files_and_functions, TEST, "x = 1\n" * 400),
        (house_rules.no_sleep_in_tests, TEST, "await anyio.sleep(0)"),
        (house_rules.one_place_commits, PurePosixPath("arap_service/store/database.py"), "session.commit()"),
        (house_rules.the_clock_is_an_argument, SERVICE, "now = clock.now()"),
        (house_rules.the_clock_is_an_argument, SERVICE, "def f(clock=lambda: datetime.now(UTC)): ..."),
        (house_rules.the_clock_is_an_argument, SERVICE, "def utc_now():\n    'Now.'\n    return datetime.now(UTC)"),
        (house_rules.tables_stay_in_the_store, SERVICE, "from sqlmodel import Session"),
        (house_rules.functions_not_classes, TEST, "class TestClock:\n    def now(self): ..."),
    ],
)
def test_what_is_allowed_passes(rule: Rule, path: PurePosixPath, text: str) -> None:
    assert list(rule(path, text)) == []


def test_every_folder_of_tests_is_a_package_and_the_migrations_are_not() -> None:
    """An `__init__.py` in the migrations would shadow the alembic package."""
    folders = {path.parent for path in house_rules.tracked() if path.name.startswith("test_") and path.suffix == ".py"}
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()] == []
    assert list((ROOT / "alembic").rglob("__init__.py")) == []
