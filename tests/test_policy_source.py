"""Which rules are in force, and since when, as the audit log tells it; on both engines."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from arap_service import audit
from arap_service.background import run_background
from arap_service.policy_source import CHAIN, PolicySource
from arap_service.store.database import Database, StoreUnavailable
from tests.clock import FakeClock
from tests.service import service_context, settings_for

pytestmark = pytest.mark.anyio
FIRST = "version: 1\nrules: [{id: one, when: 'true', permit: true}]\n"
SECOND = "version: 1\nrules: [{id: another, when: 'true', permit: true}]\n"


@pytest.fixture
async def database(service_url: str) -> AsyncIterator[Database]:
    opened = Database.open(service_url)
    yield opened
    await opened.aclose()


def recorded(database: Database) -> list[str]:
    """The versions that came into force, oldest first, from a chain that is whole."""
    assert isinstance(database.read_now(lambda session: audit.verify_chain(session, CHAIN)), audit.Verified)
    noted = database.read_now(lambda session: audit.entries_of(session, CHAIN))
    entries = [entry for entry in noted if entry.kind != "settings_loaded"]
    assert {(entry.kind, entry.actor) for entry in entries} == {("rules_loaded", "system")}
    return [json.loads(entry.detail)["version"] for entry in entries]


def write(path: Path, text: str) -> None:
    """Replace the file, with a time of its own however fast that is."""
    later = path.stat().st_mtime_ns + 1_000_000_000 if path.exists() else 1_000_000_000
    path.write_text(text)
    os.utime(path, ns=(later, later))


async def test_every_change_of_the_rules_is_in_the_audit_log(
    database: Database, tmp_path: Path, clock: FakeClock
) -> None:
    """Whoever asks later why something was permitted finds which rules were in force then."""
    path = tmp_path / "policy.yaml"
    write(path, FIRST)
    source = PolicySource.open(path)
    await source.record(database, now=clock())
    first = source.current().version
    write(path, "version: 1\nrules: nonsense\n")
    assert not source.refresh()
    await source.record(database, now=clock())
    assert recorded(database) == [first]
    write(path, SECOND)
    assert source.refresh()
    await source.record(database, now=clock())
    write(path, FIRST)
    assert source.refresh()
    await source.record(database, now=clock())
    assert recorded(database) == [first, source_of(SECOND, tmp_path), first]


def source_of(text: str, folder: Path) -> str:
    """The version of the rules in `text`."""
    path = folder / "other.yaml"
    write(path, text)
    return PolicySource.open(path).current().version


async def test_same_rules_are_recorded_once_by_several_instances_and_starts(
    database: Database, tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "policy.yaml"
    write(path, FIRST)
    for _ in range(3):
        await PolicySource.open(path).record(database, now=clock())
    assert len(recorded(database)) == 1


async def test_change_that_could_not_be_recorded_is_recorded_later(
    database: Database, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "policy.yaml"
    write(path, FIRST)
    source = PolicySource.open(path)

    async def unavailable(_work: object) -> None:
        raise StoreUnavailable("busy", "database: locked")

    with monkeypatch.context() as patched:
        patched.setattr(database, "write", unavailable)
        with pytest.raises(StoreUnavailable):
            await source.record(database, now=clock())
    await source.record(database, now=clock())
    assert recorded(database) == [source.current().version]


async def test_running_service_records_the_rules_it_starts_with_and_those_it_takes_over(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    settings = settings_for(tmp_path, database=service_url, policy=FIRST)
    async with service_context(settings, clock=clock) as ctx:
        first = ctx.policy.current().version
        assert recorded(ctx.database) == [first]
        write(settings.policy_path, SECOND)
        with anyio.fail_after(55):
            async with anyio.create_task_group() as group:
                group.start_soon(run_background, ctx)
                while len(recorded(ctx.database)) < 2:
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
        assert recorded(ctx.database) == [first, ctx.policy.current().version]
        assert ctx.policy.current().version != first
