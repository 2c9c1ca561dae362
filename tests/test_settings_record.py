"""The chain of configuration says when settings changed, without saying what secrets are."""

import json
from pathlib import Path

import pytest

from arap_service import audit
from arap_service.settings_record import CHAIN, record_settings, settings_digest
from arap_service.store.database import Database
from tests.clock import FakeClock
from tests.peers import POLICY
from tests.service import CALLBACK, CALLBACK_KEY, settings_for


@pytest.mark.anyio
@pytest.mark.requirement("ARS-123")
async def test_start_with_other_settings_is_on_record_and_one_with_the_same_is_not(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    database = Database.open(service_url)
    first = settings_for(tmp_path, database=service_url, policy=POLICY)
    await record_settings(database, first, now=clock())
    await record_settings(database, first, now=clock.advance(60))
    changed = first.model_copy(update={"clock_skew_seconds": 5})
    await record_settings(database, changed, now=clock.advance(60))
    entries = await database.read(lambda session: audit.entries_of(session, CHAIN))
    database.close()
    assert [entry.kind for entry in entries] == ["settings_loaded", "settings_loaded"]
    details = [json.loads(entry.detail) for entry in entries]
    assert details[0]["digest"] == settings_digest(first) != details[1]["digest"]


def test_digest_knows_no_secret_and_no_order(tmp_path: Path) -> None:
    """It stands in a log that more people read than the settings; and sets have no order of their own."""

    def digest(**changes: object) -> str:
        settings = settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, **changes)
        return settings_digest(settings.model_copy(update={"policy_path": Path("policy.yaml")}))

    endpoints = [CALLBACK, CALLBACK + "/2", CALLBACK + "/3"]
    plain = digest(callbacks={"gate": {"endpoints": endpoints, "keys": [CALLBACK_KEY]}})
    other_key = CALLBACK_KEY.replace("a", "b")
    assert digest(callbacks={"gate": {"endpoints": endpoints[::-1], "keys": [other_key]}}) == plain
    assert digest(callbacks={"gate": {"endpoints": endpoints[:2], "keys": [CALLBACK_KEY]}}) != plain
    assert digest(callbacks={"gate": {"endpoints": endpoints, "bearer": "x"}}) != plain

    def on(database: str) -> str:
        settings = settings_for(tmp_path, database=database, policy=POLICY)
        return settings_digest(settings.model_copy(update={"policy_path": Path("policy.yaml")}))

    assert on("postgresql://u:one@db/arap") == on("postgresql://u:two@db/arap") != on("postgresql://u:one@other/arap")
