"""The settings of the local backend: what is refused, and which rule decides. Provenance: design section 8."""

from typing import Any

import pytest
from pydantic import ValidationError

from mcp_gate.settings import ConfigurationInvalid, parse_settings
from mcp_gate.settings_local import Local
from tests.gate.local.desk import LOCAL, local

GATE: dict[str, Any] = {"server_name": "treasury"}
ARAP: dict[str, Any] = {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rules": [{"tools": ["x"], "decision": "request"}]}, "needs approvers"),
        ({"rules": [{"tools": ["x"], "decision": "permit", "approvers": ["rita"]}]}, "needs approvers"),
        ({"rules": [{"tools": ["x"], "decision": "request", "approvers": ["who"]}]}, "not under approvers: who"),
        ({"rules": [{"decision": "permit"}]}, "either tools or methods"),
        ({"rules": [{"tools": ["x"], "methods": ["y"], "decision": "deny"}]}, "either tools or methods"),
        ({"rules": [{"methods": ["x"], "decision": "request", "approvers": ["rita"]}]}, "only calls of tools"),
        ({"rules": [{"tools": ["x"], "decision": "allow"}]}, "decision"),
        ({"approvers": {"rita": {"secret_hash": "hunter2"}}}, "secret_hash"),
        ({"retention_seconds": 3600}, "retention_seconds must be at least"),
        ({"approve": True}, "approve"),
    ],
)
def test_settings_that_would_not_do_what_they_say_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Local.model_validate(LOCAL | changes)


def test_the_first_rule_that_fits_decides() -> None:
    found = local(rules=[{"tools": ["git_*"], "decision": "permit"}, {"tools": ["*"], "decision": "deny"}])
    assert found.rule_for("git_log", "tools/call") is found.rules[0]
    assert found.rule_for("rm", "tools/call") is found.rules[1]
    assert found.rule_for(None, "git_log") is None


@pytest.mark.parametrize("given", [{}, {"backend": ARAP, "local": LOCAL}])
def test_a_gate_has_exactly_one_backend(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationInvalid, match="exactly one of `backend`"):
        parse_settings({**GATE, **given})


@pytest.mark.requirement("PEP-62")
def test_a_retention_below_the_reconciliation_horizon_is_refused() -> None:
    short = LOCAL | {"pending_seconds": 60, "approval_seconds": 60, "retention_seconds": 120}
    with pytest.raises(ConfigurationInvalid, match=r"local\.retention_seconds is shorter"):
        parse_settings({**GATE, "local": short})
    parse_settings({**GATE, "local": short, "limits": {"reconciliation_seconds": 120}})
