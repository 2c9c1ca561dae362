"""Questions about methods other than tool calls. Provenance: COAZ-MCP, "Default Mappings"; X-06."""

from typing import Any

import pytest

from mcp_gate.mapping import Principal
from mcp_gate.methods import METHODS, REACHING, SERVER_SCOPED, TASK_METHODS, map_method, server_audience
from mcp_gate.templates import MappingError, declared_mapping

OWN = "https://gate.example/mcp"
ALICE = Principal("https://auth.example.com", "alice", "agent-A", "agent-A")
SUBJECT = {"type": "identity", "id": "alice"}
CONTEXT = {"agent": "agent-A", "server": "treasury"}


def asked(method: str, params: dict[str, Any] | None = None, **changes: Any) -> tuple[dict[str, Any], ...]:
    options: dict[str, Any] = {
        "server": "treasury",
        "own": OWN,
        "token_claims": {"sub": "alice", "aud": OWN, "client_id": "agent-A"},
        "principal": ALICE,
    }
    return map_method(method, params or {}, **(options | changes))


@pytest.mark.parametrize(
    ("method", "params", "resource"),
    [
        ("tools/list", {"cursor": "c"}, {"type": "mcp_server", "id": OWN}),
        ("resources/list", {}, {"type": "mcp_server", "id": OWN}),
        ("resources/templates/list", {}, {"type": "mcp_server", "id": OWN}),
        ("prompts/list", {}, {"type": "mcp_server", "id": OWN}),
        ("resources/read", {"uri": "file:///a"}, {"type": "resource", "id": "file:///a"}),
        ("resources/subscribe", {"uri": "file:///a"}, {"type": "resource", "id": "file:///a"}),
        ("resources/unsubscribe", {"uri": "file:///a"}, {"type": "resource", "id": "file:///a"}),
        ("prompts/get", {"name": "greet", "arguments": {"a": "1"}}, {"type": "prompt", "id": "greet"}),
        ("tasks/get", {"taskId": "tsk_1"}, {"type": "task", "id": "tsk_1"}),
        ("tasks/cancel", {"taskId": "tsk_1"}, {"type": "task", "id": "tsk_1"}),
    ],
)
def test_a_method_is_asked_about_as_coaz_says(method: str, params: dict[str, Any], resource: dict[str, Any]) -> None:
    assert asked(method, params) == (
        {"subject": SUBJECT, "action": {"name": method}, "resource": resource, "context": CONTEXT},
    )


@pytest.mark.requirement("PEP-27")
@pytest.mark.parametrize(
    ("method", "params", "resource"),
    [
        ("tasks/update", {"taskId": "tsk_1", "inputResponses": {}}, {"type": "task", "id": "tsk_1"}),
        ("server/discover", {}, {"type": "mcp_server", "id": OWN}),
        ("subscriptions/listen", {"notifications": {}}, {"type": "mcp_server", "id": OWN}),
    ],
)
def test_what_the_approval_flow_needs_has_a_row_of_its_own(
    method: str, params: dict[str, Any], resource: dict[str, Any]
) -> None:
    (question,) = asked(method, params)
    assert (question["action"], question["resource"]) == ({"name": method}, resource)


@pytest.mark.requirement("PEP-27")
@pytest.mark.parametrize("method", ["initialize", "tasks/list", "tasks/result", "foo/bar"])
def test_what_was_removed_and_what_is_unknown_has_no_row(method: str) -> None:
    assert method not in METHODS
    with pytest.raises(MappingError):
        asked(method)


@pytest.mark.requirement("PEP-28")
@pytest.mark.parametrize(
    ("ref", "resource"),
    [
        ({"type": "ref/prompt", "name": "greet"}, {"type": "prompt", "id": "greet"}),
        ({"type": "ref/resource", "uri": "file:///{path}"}, {"type": "resource", "id": "file:///{path}"}),
    ],
)
def test_a_completion_is_asked_about_by_what_it_completes(ref: dict[str, Any], resource: dict[str, Any]) -> None:
    (question,) = asked("completion/complete", {"ref": ref, "argument": {"name": "a", "value": "x"}})
    assert question["resource"] == resource


def test_the_level_of_the_log_is_part_of_the_question() -> None:
    (question,) = asked("logging/setLevel", {"level": "debug"})
    assert question["context"] == CONTEXT | {"level": "debug"}


@pytest.mark.requirement("PEP-29")
@pytest.mark.parametrize(
    ("audience", "own", "named"),
    [
        (OWN, OWN, OWN),
        ("https://elsewhere.example", None, "https://elsewhere.example"),
        (["https://elsewhere.example", OWN], OWN, OWN),
        (["https://elsewhere.example"], None, "https://elsewhere.example"),
        (None, OWN, OWN),
    ],
)
def test_the_audience_is_one_string(audience: object, own: str | None, named: str) -> None:
    assert server_audience(audience, own) == named
    (question,) = asked("tools/list", token_claims={"sub": "alice", "aud": audience}, own=own)
    assert question["resource"] == {"type": "mcp_server", "id": named}


@pytest.mark.requirement("PEP-29")
@pytest.mark.parametrize(
    ("audience", "own"),
    [
        (["https://a.example", "https://b.example"], None),
        (["https://a.example", "https://b.example"], OWN),
        ([], OWN),
        ([7], None),
        ("", OWN),
        (7, OWN),
        (None, None),
    ],
)
def test_an_audience_that_names_no_single_server_is_a_mapping_error(audience: object, own: str | None) -> None:
    with pytest.raises(MappingError) as refused:
        asked("tools/list", token_claims={"sub": "alice", "aud": audience}, own=own)
    assert refused.value.code == -32602
    # What is not about the server as a whole doesn't need it.
    assert asked("prompts/get", {"name": "p"}, token_claims={"sub": "alice", "aud": audience}, own=own)


def test_an_operators_mapping_covers_a_method_that_mcp_does_not_know() -> None:
    declared = declared_mapping(
        {"evaluation": {"action": {"name": "export"}, "resource": {"type": "ledger", "id": "$params.ledger"}}}
    )
    (question,) = asked("ledger/export", {"ledger": "main", "_meta": {"x": 1}}, declared=declared)
    assert question["resource"] == {"type": "ledger", "id": "main"}
    assert question["subject"] == SUBJECT


@pytest.mark.parametrize("params", [{}, {"uri": 7}, {"uri": "a\0b"}, {"uri": "\ud800"}])
def test_parameters_that_name_nothing_are_a_mapping_error(params: dict[str, Any]) -> None:
    with pytest.raises(MappingError):
        asked("resources/read", params)


def test_every_row_is_of_one_kind() -> None:
    assert METHODS.keys() == SERVER_SCOPED | TASK_METHODS | REACHING
    assert {"resources/read", "prompts/get", "completion/complete"} <= REACHING
