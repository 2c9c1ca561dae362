"""A part that the machine cannot run is skipped by name, and fails where it is required."""

from pathlib import Path

import pytest

from tests import legs
from tests.bench import cerbos
from tests.legs import BROWSER, CERBOS, LEGS, NODE, POSTGRES, SPIN, Leg


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("ARAP_CHROMIUM", raising=False)
    monkeypatch.delenv(legs.REQUIRE, raising=False)
    return monkeypatch


@pytest.mark.parametrize("leg", [BROWSER, NODE], ids=lambda leg: leg.name)
@pytest.mark.usefixtures("bare_machine")
def test_a_missing_leg_is_skipped_with_the_command_that_enables_it(leg: Leg) -> None:
    with pytest.raises(pytest.skip.Exception, match=leg.enable.split()[0]):
        legs.need(leg)


def test_a_missing_leg_fails_where_it_is_required(bare_machine: pytest.MonkeyPatch) -> None:
    bare_machine.setenv(legs.REQUIRE, "postgres, browser")
    with pytest.raises(pytest.fail.Exception, match="browser leg needs Chromium"):
        legs.need(BROWSER)


def test_requiring_an_unknown_leg_is_refused(bare_machine: pytest.MonkeyPatch) -> None:
    bare_machine.setenv(legs.REQUIRE, "browser,postgress")
    with pytest.raises(pytest.UsageError, match="postgress"):
        legs.required()


def test_a_browser_can_be_named(bare_machine: pytest.MonkeyPatch) -> None:
    bare_machine.setenv("ARAP_CHROMIUM", "chromium-of-mine")
    assert legs.available(BROWSER)


def test_the_environment_of_the_tests_has_postgres() -> None:
    assert legs.available(POSTGRES)
    assert LEGS == (BROWSER, POSTGRES, NODE, CERBOS, SPIN)


def test_cerbos_is_looked_for_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert legs.CERBOS_BINARY == cerbos.BINARY
    monkeypatch.setattr(legs, "CERBOS_BINARY", tmp_path / "cerbos")
    assert not legs.available(CERBOS)
    (tmp_path / "cerbos").touch(mode=0o755)
    assert legs.available(CERBOS)
