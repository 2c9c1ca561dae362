"""What is counted, and that nothing of a call becomes a label. Provenance: design section 8."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcp_gate.backend import AnswerRefused, BackendUnavailable, DecisionPointUnavailable, Denial, Handle, Permit
from mcp_gate.backend_kit import CHECKS, Check
from mcp_gate.database import Database
from mcp_gate.figures import Figures, Open
from mcp_gate.metrics import Metered, Metrics
from tests.clock import START, FakeClock
from tests.gate.foreign_backend import ForeignBackend, requestable
from tests.gate.local.desk import LocalDesk

pytestmark = pytest.mark.anyio
NOTHING = Figures((), {}, 0, 0)


def samples(metrics: Metrics, stored: Figures = NOTHING) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    written = metrics.written(stored, now=START).decode()
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(written)
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("decision", "outcome"),
    [
        (Permit(), "permit"),
        (Denial("no"), "deny"),
        (Denial(next_action="retry"), "retry"),
        (requestable(), "request"),
    ],
)
async def test_each_outcome_of_a_decision_is_counted(decision: Permit | Denial, outcome: str, clock: FakeClock) -> None:
    metrics = Metrics()
    metered = Metered(ForeignBackend(clock, policy=lambda *_: decision), metrics)
    assert await metered.evaluate({}) is decision
    await metered.evaluate({}, approval={"id": "x"})
    found = samples(metrics)
    assert found["mcp_gate_decisions_total", (outcome, "false")] == 1
    assert found["mcp_gate_decisions_total", (outcome, "true")] == 1


async def test_a_backend_that_does_not_answer_is_counted_and_remembered(clock: FakeClock) -> None:
    metrics, backend = Metrics(), ForeignBackend(clock)
    metered = Metered(backend, metrics)
    assert samples(metrics).get(("mcp_gate_backend_seconds_count", ("false", "submit"))) is None
    backend.is_pdp_down = backend.is_down = True
    with pytest.raises(DecisionPointUnavailable):
        await metered.evaluate({})
    with pytest.raises(BackendUnavailable):
        await metered.submit(b"{}", key="k")
    answering = [metrics.is_backend_answering]
    backend.is_pdp_down = False
    await metered.evaluate({})
    assert [*answering, metrics.is_backend_answering] == [False, True]
    found = samples(metrics)
    assert found["mcp_gate_decisions_total", ("unavailable", "false")] == 1
    assert found["mcp_gate_backend_seconds_count", ("false", "submit")] == 1


async def test_an_exchange_that_breaks_is_not_answered_and_a_refusal_is(clock: FakeClock) -> None:
    def broken(*_: Any) -> Permit:
        raise RuntimeError

    metrics, backend = Metrics(), ForeignBackend(clock, policy=broken, refuses_answers=True)
    metered = Metered(backend, metrics)
    with pytest.raises(RuntimeError):
        await metered.evaluate({})
    with pytest.raises(AnswerRefused):
        await metered.answer(Handle("t", "s"), 1, {})
    found = samples(metrics)
    assert found["mcp_gate_backend_seconds_count", ("false", "evaluate")] == 1
    assert found["mcp_gate_decisions_total", ("unavailable", "false")] == 1
    assert found["mcp_gate_backend_seconds_count", ("true", "answer")] == 1


async def test_the_time_of_an_exchange_is_measured(clock: FakeClock) -> None:
    times: Iterator[float] = iter([10.0, 10.3])
    metrics = Metrics(seconds=lambda: next(times))
    await Metered(ForeignBackend(clock), metrics).evaluate({})
    found = samples(metrics)
    assert found["mcp_gate_backend_seconds_sum", ("true", "evaluate")] == pytest.approx(0.3)
    assert found["mcp_gate_backend_seconds_bucket", ("true", "evaluate", "0.25")] == 0
    assert found["mcp_gate_backend_seconds_bucket", ("true", "evaluate", "0.5")] == 1


def test_what_is_stored_is_told_for_every_phase_and_ending() -> None:
    stored = Figures((Open("pending", 2, START - timedelta(hours=1)),), {"outcome-unknown": 1}, 3, 4)
    found = samples(Metrics(), stored)
    assert found["mcp_gate_open_tasks", ("pending",)] == 2
    assert found["mcp_gate_open_tasks", ("claimed",)] == 0
    assert found["mcp_gate_oldest_open_task_seconds", ("pending",)] == 3600
    assert found["mcp_gate_kept_tasks", ("outcome-unknown",)] == 1
    assert found["mcp_gate_kept_tasks", ("approved-executed",)] == 0
    assert (found["mcp_gate_deliveries", ("waiting",)], found["mcp_gate_deliveries", ("dead",)]) == (3, 4)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
async def test_a_metered_backend_keeps_every_duty_of_the_one_behind_it(
    check: Check, sqlite_url: str, clock: FakeClock
) -> None:
    """The kit of every backend, so that standing between changes nothing."""

    class Between(LocalDesk):
        def _open(self) -> Any:
            return Metered(super()._open(), Metrics())

    database = Database.open(sqlite_url)
    await check.run(Between(database, clock))
    await database.aclose()
