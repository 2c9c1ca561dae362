"""A hand-written enforcement point: without defects it keeps every rule, and each defect breaks exactly its own."""

from pathlib import Path

import anyio
import pytest

from arap_service.simulator.driving import Pace, Played, play
from arap_service.simulator.evidence import Finding
from arap_service.simulator.scenarios import SCENARIOS
from tests.gate.live import serving as listening
from tests.simulator.point import Point, app_of, callbacks_of, pointed
from tests.simulator.world import rehearsing

pytestmark = pytest.mark.anyio
QUICK = Pace(patience=10, settle=0.2, pause=0.1)
DEFECTS = [
    ("no-key", "approved", "PEP-50"),
    ("half-an-echo", "approved", "PEP-35"),
    ("impatient", "callback-lost", "PEP-45"),
    ("polls-on", "denied", "PEP-45"),
    ("decorates", "approved", "PEP-40"),
    ("no-reevaluation", "approved", "PEP-98"),
    ("runs-twice", "approved", "PEP-66"),
    ("reports-twice", "approved", "PEP-136"),
    ("new-key", "lost-answer", "PEP-57"),
    ("does-not-wait", "not-provisioned", "PEP-100"),
    ("insists", "revoked", "PEP-92"),
    ("insists", "overruled", "PEP-103"),
    ("truthy-decision", "no-decision", "PEP-13"),
    ("believes-callbacks", "forged-callbacks", "PEP-93"),
    ("follows-callbacks", "misleading-callback", "PEP-94"),
]


async def played(folder: Path, database: str, *, name: str, defect: str | None = None) -> Played:
    points: list[Point] = []
    with anyio.fail_after(55):
        async with listening(app_of(points)) as base:
            changes = {"background": True, "callbacks": callbacks_of(base), "limits": {"poll_seconds": 1}}
            async with rehearsing(folder, database=database, **changes) as world, pointed(world, defect) as point:
                point.callback = f"{base}/callbacks/arap" if "callback" in name else None
                points.append(point)
                return await play(SCENARIOS[name], world.control, point.target(), pace=QUICK)


def shown(found: Played) -> str:
    return "\n".join(f"{each.finding:8} {each.rule:8} {each.asks}: {each.saw}" for each in found.verdicts)


@pytest.mark.parametrize("name", sorted({name for _, name, _ in DEFECTS} | {"asked-again", "broken-status", "busy"}))
async def test_an_enforcement_point_that_is_right_breaks_nothing(
    sqlite_service_url: str, tmp_path: Path, name: str
) -> None:
    found = await played(tmp_path, sqlite_service_url, name=name)
    assert found.is_over, shown(found)
    assert found.findings == {Finding.KEPT}, shown(found)


@pytest.mark.parametrize(("defect", "name", "rule"), DEFECTS)
async def test_a_defect_breaks_exactly_its_rule(
    sqlite_service_url: str, tmp_path: Path, defect: str, name: str, rule: str
) -> None:
    found = await played(tmp_path, sqlite_service_url, name=name, defect=defect)
    assert [each.rule for each in found.verdicts if each.finding is Finding.BROKEN] == [rule], shown(found)
