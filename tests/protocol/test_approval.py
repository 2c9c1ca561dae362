"""The typed pending approval. Vector: adr017.json; source: ADR-017, decisions 1 to 5."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from arap_service.protocol.approval import METHOD, pending_approval
from arap_service.protocol.canonical import arguments_hash
from tests.protocol.vectors import load

VECTOR = load("adr017")


def example(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "approval_id": "ap-1",
        "server": "grafana",
        "tool": "delete_dashboard",
        "arguments_hash": "sha256:abc",
        "expires_at": datetime(2026, 7, 29, 12, 0, tzinfo=UTC),
    }
    return pending_approval(**given | changes)


EVERY_PATH = [
    {},
    {"message": "Delete it?"},
    {"policy_basis": {"rule": "r1"}},
    {"policy_basis": {"rule": "r1", "reason": "why"}, "message": "m"},
]


def names(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from names(member)


@pytest.mark.requirement("GOV-01", "GOV-07", "GOV-08")
def test_the_example_comes_out_whole() -> None:
    """adr017.json `example_value`: constant method, default message, offset in the deadline, no person named."""
    assert example() == VECTOR["example_value"]
    assert example()["method"] == METHOD == "io.mcp-hangar/approval"


@pytest.mark.requirement("GOV-02")
@pytest.mark.parametrize("changes", EVERY_PATH)
def test_the_value_goes_through_json_and_into_input_requests_unchanged(changes: dict[str, Any]) -> None:
    value = example(**changes)
    assert json.loads(json.dumps(value)) == value
    assert json.loads(json.dumps({"inputRequests": {"k": value}}))["inputRequests"]["k"] == value


@pytest.mark.requirement("GOV-03", "GOV-05", "GOV-07")
@pytest.mark.parametrize("changes", EVERY_PATH)
def test_no_way_of_building_it_gives_anything_to_fill_in_or_anyone_to_ask(changes: dict[str, Any]) -> None:
    """adr017.json `must_be_absent`, searched at every level."""
    forbidden = {path.rpartition(".")[2] for path in VECTOR["must_be_absent"]}
    assert forbidden == {"requestedSchema", "arguments", "approver"}
    assert not forbidden & set(names(example(**changes)))


@pytest.mark.requirement("GOV-04")
def test_there_is_always_a_message_and_an_explicit_one_wins() -> None:
    assert example()["message"] == "Approval required: delete_dashboard on grafana"
    assert example(message="")["message"] == "Approval required: delete_dashboard on grafana"
    assert example(message="Delete the dashboard?")["message"] == "Delete the dashboard?"


@pytest.mark.requirement("GOV-05")
def test_the_call_is_named_by_hash_and_another_call_has_another() -> None:
    first, second = (example(arguments_hash=arguments_hash({"canary": n}))["params"]["subject"] for n in (1, 2))
    assert first["argumentsHash"] != second["argumentsHash"]
    assert set(first) == {"mcpServer", "tool", "argumentsHash"}
    assert "canary" not in json.dumps(first)
    with pytest.raises(ValueError, match="never themselves"):
        example(arguments_hash='{"canary": 1}')


@pytest.mark.requirement("GOV-08")
def test_the_deadline_has_an_offset_and_a_policy_basis_appears_only_when_known() -> None:
    """adr017.json `optional`."""
    elsewhere = datetime(2026, 7, 29, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    assert example(expires_at=elsewhere) == example()
    with pytest.raises(ValueError, match="zone"):
        example(expires_at=elsewhere.replace(tzinfo=None))
    for unknown in (None, {}, {"rule": None, "reason": ""}, {"person": "bob"}):
        assert "policyBasis" not in example(policy_basis=unknown)["params"]
    assert example(policy_basis={"rule": "r1", "reason": None, "person": "bob"})["params"]["policyBasis"] == {
        "rule": "r1"
    }
