"""The public MCP conformance suite against a server with our gate in it, judged by the suite's own `checks.json`.

`@modelcontextprotocol/conformance`, the version that `package-lock.json` names; the server is `make serve-conformance`.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.node.conformance import EVIDENCE, NOT_OURS, REVISIONS, Outcome, figures, versions

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

Ran = Callable[[str], Outcome]
NEWEST, HANDSHAKE = REVISIONS
SCENARIOS = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
    "http-header-validation",
    "http-custom-header-server-validation",
    "caching",
    "dns-rebinding-protection",
    "server-stateless",
]


@pytest.fixture(scope="module")
def evidence() -> dict[str, Any]:
    """What was found when the figures were written."""
    document: dict[str, Any] = json.loads(EVIDENCE.read_text())
    return document


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_check_of_the_scenario_is_passed(ran: Ran, scenario: str) -> None:
    outcome = ran(NEWEST)
    assert outcome.others(scenario) == []
    assert len(outcome.passed(scenario)) > 1, outcome.printed  # the first says only that a client could connect


@pytest.mark.requirement("PEP-02", "PEP-03", "PEP-07", "PEP-10", "PEP-85", "PEP-114")
def test_the_scenarios_make_the_checks_that_these_rules_are_about(ran: Ran) -> None:
    passed = {check for scenario in SCENARIOS for check in ran(NEWEST).passed(scenario)}
    assert passed >= {
        "sep-2663-result-type-task-on-create",
        "sep-2663-server-returns-missing-capability-when-required",
        "sep-2663-server-returns-missing-capability-data-shape",
        "sep-2663-tasks-get-status-input-required",
        "tasks-mrtr-partial-fulfillment",
        "sep-2663-cancel-ack-empty-result",
        "tasks-cancel-terminal-idempotent-ack",
    }


@pytest.mark.parametrize("revision", REVISIONS)
def test_everything_that_a_revision_requires_is_passed(ran: Ran, revision: str) -> None:
    outcome = ran(revision)
    assert outcome.status == 0, outcome.printed
    failed = {
        scenario: lines
        for scenario in outcome.checks.keys() - NOT_OURS
        if (lines := [line for line in outcome.others(scenario) if " SKIPPED: " not in line])
    }
    assert failed == {}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_evidence_is_what_a_run_finds(ran: Ran, evidence: dict[str, Any], revision: str) -> None:
    assert figures({revision: ran(revision)})[revision] == evidence["revisions"][revision]
    assert dict(versions()) == evidence["suite"]
