"""docs/reference shows what happens: every flow is played again over real wires and compared with the pages."""

import re
from pathlib import Path

import anyio
import pytest

from arap_service.store import migrate
from tests.databases import Databases
from tests.reference.flows import FLOWS
from tests.reference.pages import blocks_of, pages, phases, written
from tests.reference.world import recorded

STALE = "run python -m tests.reference"
KINDS = ("mcp", "backend", "sequence")


@pytest.mark.anyio
@pytest.mark.parametrize("name", FLOWS)
async def test_a_flow_is_shown_as_it_happens(name: str, databases: Databases, tmp_path: Path) -> None:
    flow = FLOWS[name]
    database = databases.copy_of("sqlite", "service", migrate.upgrade)
    with anyio.fail_after(90):
        async with recorded(tmp_path, database=database, **flow.limits) as world:
            await flow.play(world)
            blocks = blocks_of(name, world.tape.exchanges)
    stated = written()
    shown = {kind: stated[f"{kind} {name}"] for kind in KINDS if f"{kind} {name}" in stated}
    assert shown, f"no page shows {name}"
    for kind, places in shown.items():
        for page, text in places:
            assert text == blocks[f"{kind} {name}"], f"{page.name}: {STALE}"


def test_the_phases_are_those_of_the_table() -> None:
    ((page, text),) = written()["phases"]
    assert text == phases(), f"{page.name}: {STALE}"


def test_every_block_is_of_a_flow_that_is_played() -> None:
    assert set(written()) <= {f"{kind} {name}" for kind in KINDS for name in FLOWS} | {"phases"}


def test_nothing_of_a_machine_or_moment_is_left() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"127\.0\.0\.1|localhost|:\d{4,5}/|/tmp/|/dev/shm/|eyJ[A-Za-z0-9]", text), page.name
        assert set(re.findall(r"\b20\d\d-\d\d-\d\d", text)) <= {"2026-06-02"}, page.name
        assert re.findall(r"\b(?:tsk|task|apr)_[A-Za-z0-9_-]{8,}", text) == [], page.name


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
