"""Every check finds the fault that it is there for, and no other check takes offence at it."""

from collections.abc import Sequence

import anyio
import pytest

from mcp_gate.conformance.catalogue import CHECKS
from mcp_gate.conformance.model import Outcome, Verdict
from mcp_gate.conformance.running import Run
from tests.sep2848.family import FAULTS, Broken
from tests.sep2848.plain_gate import PlainGate
from tests.sep2848.subjects import PlainHands, PlainSubject, control

pytestmark = pytest.mark.anyio
OF_SERVERS = [check for check in CHECKS if not check.of_client]


async def judged(gate: PlainGate) -> tuple[Outcome, ...]:
    """What the whole suite says of a gate."""
    run = Run(PlainHands(gate, control()), PlainSubject(gate), tokens=("alice", "bob"))
    with anyio.fail_after(60):
        return await run.all(OF_SERVERS, lambda _: None)


def told(outcomes: Sequence[Outcome], *verdicts: Verdict) -> dict[str, str]:
    """The checks with one of these verdicts, and why."""
    return {one.check.id.removeprefix("sep-2848-"): one.note for one in outcomes if one.verdict in verdicts}


async def test_a_correct_gate_of_another_make_passes_everything() -> None:
    outcomes = await judged(PlainGate())
    assert told(outcomes, Verdict.FAIL, Verdict.ERROR, Verdict.SKIPPED) == {}
    assert len(outcomes) == len(OF_SERVERS)


@pytest.mark.parametrize("broken", FAULTS, ids=lambda fault: str(fault.__name__))
async def test_one_fault_is_found_by_the_one_check_that_is_meant_for_it(broken: type[Broken]) -> None:
    outcomes = await judged(broken())
    assert set(told(outcomes, Verdict.FAIL)) == {broken.found_by}, told(outcomes, Verdict.FAIL)
    assert set(told(outcomes, Verdict.ERROR)) == broken.hinders, told(outcomes, Verdict.ERROR)


def test_there_is_a_fault_for_every_check_of_a_server() -> None:
    assert {fault.found_by for fault in FAULTS} == {check.id.removeprefix("sep-2848-") for check in OF_SERVERS}
