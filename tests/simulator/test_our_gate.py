"""Every scenario, played against our own gate over HTTP: it keeps every rule, and nothing goes unseen.

That each verdict can turn out otherwise is shown in `test_judging.py` and `test_foreign_point.py`.
"""

from pathlib import Path

import anyio
import pytest

from arap_service.simulator.driving import Pace, play
from arap_service.simulator.evidence import Finding
from arap_service.simulator.scenarios import AND_CANCEL, SCENARIOS
from tests.simulator.gate import gated, target

pytestmark = pytest.mark.anyio
QUICK = Pace(patience=20, settle=0.3, pause=0.1)


@pytest.mark.requirement(
    "PEP-31", "PEP-35", "PEP-40", "PEP-57", "PEP-61", "PEP-66", "PEP-93", "PEP-94", "PEP-96", "PEP-98", "PEP-100",
    "PEP-101", "PEP-102", "PEP-115",
)  # fmt: skip
@pytest.mark.parametrize("name", SCENARIOS)
async def test_our_gate_keeps_every_rule(sqlite_service_url: str, tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    with anyio.fail_after(50):
        async with gated(tmp_path, database=sqlite_service_url) as (world, server, client):
            chosen = target(server, client, cancels=scenario.asks == AND_CANCEL)
            played = await play(scenario, world.control, chosen, pace=QUICK)
            seen = await world.seen()
    shown = "\n".join(f"{each.finding:8} {each.rule:8} {each.asks}: {each.saw}" for each in played.verdicts)
    assert played.is_over, f"{shown}\n{seen}"
    assert Finding.BROKEN not in played.findings, f"{shown}\n{seen}"
    assert played.findings == {Finding.KEPT}, f"{shown}\n{seen}"
