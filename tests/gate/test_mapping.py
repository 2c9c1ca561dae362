"""Tool calls as authorization requests. Provenance: COAZ-MCP; interop vectors on agents; design sections 4 and 8."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable
from mcp_gate.mapping import (
    CallBinding,
    Principal,
    call_digest,
    fingerprint,
    map_call,
    question,
    questions,
    resolve,
)
from mcp_gate.templates import MappingError, declared_mapping

VECTORS = Path(__file__).parents[1] / "vectors"
COAZ = json.loads((VECTORS / "coaz-mapping.json").read_text())
AGENTS = json.loads((VECTORS / "coaz-agent-identity.json").read_text())["vectors"]
ALICE = Principal("https://auth.example.com", "alice@example.com", "agent-A", "agent-A")
PARAMS = COAZ["params"]
TOKEN = COAZ["token"]
HASH = "sha256:5095dd3c"


def resolved(mapping: object, *, arguments: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    params = {"name": "get_customer", "arguments": dict(arguments or PARAMS["arguments"])}
    read = declared_mapping(mapping, allow_unanchored_subject=options.pop("allow_unanchored_subject", False))
    options = {"token": TOKEN, "agent": TOKEN["client_id"]} | options
    return resolve(read, params, **options).request


def mapped(arguments: Mapping[str, Any], mapping: object = None, **more: Any) -> CallBinding:
    return map_call(
        None if mapping is None else declared_mapping(mapping),
        server="treasury",
        tool="wire_transfer",
        title="Wire transfer",
        arguments=arguments,
        token_claims={"sub": ALICE.sub},
        principal=more.pop("principal", ALICE),
        **more,
    )


def evaluation(**members: Any) -> dict[str, Any]:
    plain = {"action": {"name": "get"}, "resource": {"type": "customer", "id": "c"}}
    return {"evaluation": plain | members}


@pytest.mark.requirement("PEP-15")
def test_a_tool_without_a_mapping_is_asked_about_by_its_name() -> None:
    request = resolve(None, PARAMS, token=TOKEN, agent=TOKEN["client_id"]).request
    assert request == COAZ["default_tools_call"]


@pytest.mark.requirement("PEP-15", "PEP-21")
def test_a_declared_mapping_overrides_the_default() -> None:
    assert resolved(COAZ["single"]["declared"]) == COAZ["single"]["request"]


@pytest.mark.requirement("PEP-21")
@pytest.mark.parametrize(("source", "value"), COAZ["expressions"])
def test_expressions_and_literals_resolve_as_the_binding_says(source: str, value: str) -> None:
    mapping = evaluation(context={"probe": source})
    if value == "<error -32602>":
        with pytest.raises(MappingError) as refused:
            resolved(mapping)
        assert refused.value.code == -32602
    else:
        context = resolved(mapping)["context"]
        assert context.get("probe", "<absent>") == value


@pytest.mark.requirement("PEP-21")
def test_a_list_that_an_expression_yields_stays_one_value() -> None:
    probe = {"all": "$[params.arguments.id, params.arguments.case]", "kept": [1, "$token.?nope", {"deep": "$$x"}]}
    context = resolved(evaluation(context=probe))["context"]
    assert context["all"] == ["cust-12345", "case-67890"]
    assert context["kept"] == [1, {"deep": "$x"}]


@pytest.mark.requirement("PEP-19")
@pytest.mark.parametrize("vector", AGENTS, ids=[vector["id"] for vector in AGENTS])
def test_the_agent_is_the_one_of_the_token(vector: dict[str, Any]) -> None:
    """All 16 vectors of the interop set; `pdp_called: false` is a mapping error here."""
    agent = vector["token"].get(vector["agent_identity_claim"])
    params = {"name": "get_customer", "arguments": vector["arguments"]}
    expected = vector["expected"]
    mapping = declared_mapping(vector["mapping"])
    if expected["outcome"] == "mapping_error":
        with pytest.raises(MappingError) as refused:
            resolve(mapping, params, token=vector["token"], agent=agent)
        assert refused.value.code == expected["jsonrpc_code"]
    else:
        assert resolve(mapping, params, token=vector["token"], agent=agent).request == expected["request"]


@pytest.mark.requirement("PEP-17")
@pytest.mark.parametrize("spoof", ["mallory", "$params.arguments.id", "$token.?nope", 7, None])
def test_a_subject_that_is_not_the_callers_is_refused(spoof: object) -> None:
    with pytest.raises(MappingError):
        resolved(evaluation(subject={"type": "identity", "id": spoof}))


@pytest.mark.requirement("PEP-17")
def test_a_missing_subject_or_type_is_supplied() -> None:
    supplied = {"type": "identity", "id": "alice@example.com"}
    assert resolved(evaluation())["subject"] == supplied
    assert resolved(evaluation(subject={"properties": {"x": 1}}))["subject"] == supplied | {"properties": {"x": 1}}
    assert resolved(evaluation(subject={"type": "treasury_user"}))["subject"]["type"] == "treasury_user"


@pytest.mark.requirement("PEP-17")
def test_a_subject_that_an_expression_yields_whole_is_anchored_too() -> None:
    assert resolved(evaluation(subject="$token.actor"), token=TOKEN | {"actor": {}})["subject"] == {
        "type": "identity",
        "id": "alice@example.com",
    }
    with pytest.raises(MappingError):
        resolved(evaluation(subject="$token.actor"), token=TOKEN | {"actor": {"id": "mallory"}})


@pytest.mark.requirement("PEP-18")
def test_an_unverifiable_subject_needs_leave_and_is_warned_about() -> None:
    mapping = evaluation(subject={"id": "$params.arguments.id"})
    with pytest.raises(MappingError):
        resolved(mapping)
    read = declared_mapping(mapping, allow_unanchored_subject=True)
    allowed = resolve(read, PARAMS, token=TOKEN, agent=None)
    assert allowed.request["subject"]["id"] == "cust-12345"
    assert allowed.warnings == ("subject_not_anchored",)
    anchored = resolve(declared_mapping(evaluation(), allow_unanchored_subject=True), PARAMS, token=TOKEN, agent=None)
    assert anchored.warnings == ()


def test_an_operator_may_designate_another_claim_for_the_subject() -> None:
    token = TOKEN | {"on_behalf_of": "carol"}
    assert resolved(evaluation(), token=token, subject_claim="on_behalf_of")["subject"]["id"] == "carol"
    with pytest.raises(MappingError):
        resolved(evaluation(), subject_claim="on_behalf_of")
    with pytest.raises(MappingError):
        resolve(None, PARAMS, token={"sub": ""}, agent=None)


@pytest.mark.requirement("PEP-20")
@pytest.mark.parametrize(
    "malformed",
    [
        None,
        [],
        {},
        {"evaluation": {}, "evaluations": {}},
        {"decision": {}},
        {"evaluation": []},
        {"evaluation": {"surprise": 1}},
        {"evaluations": {"evaluations": []}},
        {"evaluations": {"evaluations": "all"}},
        {"evaluations": {"evaluations": [7]}},
        {"evaluations": {"evaluations": [{"subject": {"id": "$token.sub"}}]}},
        {"evaluation": {"action": {"name": "$params."}}},
    ],
)
def test_a_malformed_mapping_is_an_error_before_anything_is_asked(malformed: object) -> None:
    with pytest.raises(MappingError) as refused:
        declared_mapping(malformed)
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    "incomplete",
    [
        {"action": {}},
        {"action": {"name": ""}},
        {"action": "$null"},
        {"resource": {"type": "customer"}},
        {"resource": {"type": "customer", "id": 7}},
        {"subject": "$params.name"},
        {"context": "$params.name"},
    ],
)
def test_a_request_that_authzen_would_not_take_is_a_mapping_error(incomplete: dict[str, Any]) -> None:
    for agent in (None, "agent-A"):
        with pytest.raises(MappingError):
            resolved(evaluation(**incomplete), agent=agent)


@pytest.mark.parametrize("name", ["approval", "access_request", "evaluation_id", TOOL_CALL, "arguments_hash", "server"])
def test_a_mapping_cannot_speak_for_the_gate_or_the_profile(name: str) -> None:
    """A mapping is written by the server that is being authorized."""
    with pytest.raises(MappingError):
        resolved(evaluation(context={name: "forged"}))


@pytest.mark.requirement("PEP-22")
def test_a_mapping_with_several_questions_asks_each_with_the_shared_members() -> None:
    mapping = {
        "evaluations": {
            "subject": {"id": "$token.sub"},
            "options": {"evaluations_semantic": "permit_on_first_permit"},
            "context": {"shared": True},
            "evaluations": [
                {"action": {"name": "read"}, "resource": {"type": "object", "id": "$params.arguments.source"}},
                {
                    "action": {"name": "write"},
                    "resource": {"type": "object", "id": "b"},
                    "context": {"own": True},
                },
            ],
        }
    }
    asked = questions(mapped({"source": "a"}, mapping))
    assert [entry["action"]["name"] for entry in asked] == ["read", "write"]
    assert {entry["subject"]["id"] for entry in asked} == {"alice@example.com"}
    assert ["shared" in entry["context"] for entry in asked] == [True, False]
    assert [entry["context"]["agent"] for entry in asked] == ["agent-A", "agent-A"]
    assert all("arguments_hash" in entry["context"] for entry in asked)
    assert not any("options" in entry for entry in asked)


@pytest.mark.requirement("PEP-24")
def test_the_question_binds_arguments_agent_and_server_and_shows_the_call() -> None:
    bound = mapped({"to": "acct-991", "amount": 50000})
    asked = question(bound)
    context = asked.pop("context")
    assert asked == {"subject": bound.subject, "resource": bound.resource, "action": bound.action}
    assert context.pop(TOOL_CALL) == {
        "server": "treasury",
        "tool": "wire_transfer",
        "title": "Wire transfer",
        "arguments": {"to": "acct-991", "amount": 50000},
        "complete": True,
    }
    assert context.pop("arguments_hash").startswith(HASH)
    assert context == {"agent": "agent-A", "server": "treasury"}
    other = question(mapped({"to": "acct-991", "amount": 50001}))
    assert other["context"]["arguments_hash"] != question(mapped({"to": "acct-991", "amount": 50000}))["context"].get(
        "arguments_hash"
    )


@pytest.mark.requirement("GOV-12")
@pytest.mark.parametrize(
    "mapping",
    [
        None,
        evaluation(),
        evaluation(subject={"properties": {"act": {"sub": "somebody-harmless"}}}),
        {"evaluations": evaluation()["evaluation"] | {"evaluations": [{}, {"action": {"name": "write"}}]}},
    ],
    ids=["default", "declared", "speaking for the actor", "several questions"],
)
def test_whoever_acts_for_the_subject_is_named_so_that_he_cannot_approve(mapping: object) -> None:
    """The chain is the token's own; the decision point's side reads it from `subject.properties.act`."""
    chain = {"iss": "https://auth.example.com", "sub": "rita", "act": {"sub": "agent-B"}}
    asked = questions(mapped({"source": "a"}, mapping, principal=replace(ALICE, delegation=chain)))
    assert [entry["subject"]["properties"] for entry in asked] == [{"act": chain}] * len(asked)
    alone = questions(mapped({"source": "a"}, mapping))
    assert all("properties" not in entry["subject"] for entry in alone)


def test_undisclosed_arguments_are_left_out_and_said_to_be() -> None:
    bound = map_call(
        None,
        server="treasury",
        tool="wire_transfer",
        title=None,
        arguments={"to": "acct-991", "amount": 50000},
        token_claims={"sub": ALICE.sub},
        principal=ALICE,
        disclosed=("amount",),
    )
    call = question(bound)["context"][TOOL_CALL]
    assert call == {"server": "treasury", "tool": "wire_transfer", "arguments": {"amount": 50000}, "complete": False}


def test_numbers_without_an_exact_form_go_whole_and_without_a_hash() -> None:
    bound = mapped({"deep": [{"id": 2**60}]})
    assert bound.unrepresentable == "/deep/0/id"
    asked = question(bound)
    assert "arguments_hash" not in asked["context"]
    assert asked["context"][TOOL_CALL]["arguments"] == {"deep": [{"id": 2**60}]}
    with pytest.raises(Unrepresentable):
        call_digest(bound)


@pytest.mark.requirement("PEP-64")
@pytest.mark.parametrize("member", ["resource", "subject", "action"])
def test_a_value_without_an_exact_form_that_an_expression_makes_is_a_mapping_error(member: str) -> None:
    """The arguments themselves are fine; what the mapping makes of them has no canonical form, so no digest."""
    made = {
        "subject": {"id": ALICE.sub, "properties": {"n": "$params.arguments.n * 1024"}},
        "resource": {"type": "t", "id": "i", "properties": {"n": "$params.arguments.n * 1024"}},
        "action": {"name": "a", "properties": {"n": "$params.arguments.n * 1024"}},
    }
    assert mapped({"n": 1}, evaluation(**{member: made[member]})).unrepresentable is None
    with pytest.raises(MappingError):
        mapped({"n": 2**50}, evaluation(**{member: made[member]}))


@pytest.mark.parametrize("delegation", [{"sub": "a\ud800"}, {"sub": "a", "n": 2**60}])
def test_a_delegation_without_a_canonical_form_is_a_mapping_error(delegation: object) -> None:
    with pytest.raises(MappingError):
        mapped({"n": 1}, principal=replace(ALICE, delegation=delegation))


@pytest.mark.parametrize("arguments", [{"a": "x\ud800"}, {"\udfff": 1}, {"a": [{"b": "\ud800"}], "n": 2**60}])
def test_arguments_that_nothing_can_carry_are_a_mapping_error(arguments: dict[str, Any]) -> None:
    """Also beside a number without an exact form, with which a call may still be asked about."""
    with pytest.raises(MappingError):
        mapped(arguments)


@pytest.mark.parametrize("name", ["wire\0", "wire\ud800"])
def test_a_tool_whose_name_cannot_be_kept_is_a_mapping_error(name: str) -> None:
    with pytest.raises(MappingError):
        map_call(
            None,
            server="treasury",
            tool=name,
            title=None,
            arguments={},
            token_claims={"sub": ALICE.sub},
            principal=ALICE,
        )


@pytest.mark.parametrize("source", ["$params.arguments.big + 1", "$params.arguments.id + 1"])
def test_what_the_expression_language_cannot_hold_is_a_mapping_error_that_shows_no_input(source: str) -> None:
    with pytest.raises(MappingError) as refused:
        mapped({"big": 2**70, "id": "secret-argument"}, evaluation(context={"probe": source}))
    assert "secret-argument" not in refused.value.message


@pytest.mark.requirement("PEP-64", "PEP-67")
@pytest.mark.parametrize(
    "change",
    [
        {"server": "other"},
        {"tool": "other"},
        {"arguments": {"to": "acct-991", "amount": 50001}},
        {"principal": replace(ALICE, iss="https://other.example")},
        {"principal": replace(ALICE, sub="bob")},
        {"principal": replace(ALICE, client_id="other")},
        {"principal": replace(ALICE, agent="other")},
        {"principal": replace(ALICE, delegation={"sub": "carol"})},
        {"subject": {"type": "identity", "id": "bob"}},
        {"resource": {"type": "tool", "id": "other"}},
        {"action": {"name": "other"}},
    ],
)
def test_the_digest_tells_apart_whatever_is_bound(change: dict[str, Any]) -> None:
    bound = mapped({"to": "acct-991", "amount": 50000})
    assert call_digest(replace(bound, **change)) != call_digest(bound)


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()))
def test_a_binding_survives_its_way_through_the_database(arguments: dict[str, Any]) -> None:
    bound = mapped(arguments)
    again = CallBinding.from_json(json.loads(json.dumps(bound.to_json())))
    assert again == bound
    assert call_digest(again) == call_digest(bound)
    assert question(again) == question(bound)


def test_a_binding_keeps_its_questions_warnings_and_disclosure() -> None:
    bound = replace(mapped({}), evaluations=({"action": {"name": "x"}},), disclosed=("a",), warnings=("w",))
    again = CallBinding.from_json(json.loads(json.dumps(bound.to_json())))
    assert again == bound
    assert again.warnings == ("w",)


@pytest.mark.requirement("PEP-105")
def test_a_tool_is_another_one_when_schema_mapping_or_code_differ() -> None:
    kinds = {
        fingerprint({"type": "object"}, None),
        fingerprint({"type": "object", "required": ["a"]}, None),
        fingerprint({"type": "object"}, {"evaluation": {}}),
        fingerprint({"type": "object"}, None, code=b"1"),
    }
    assert len(kinds) == 4
    assert fingerprint({"a": 1, "b": 2}, None) == fingerprint({"b": 2, "a": 1}, None)


@pytest.mark.requirement("PEP-25")
@pytest.mark.parametrize("member", ["subject", "resource", "action"])
@pytest.mark.parametrize("source", ["$token.risk", "$[params.arguments.id, token.?risk.orValue(0)]"])
def test_a_snapshot_of_the_token_is_no_property_of_what_an_approval_binds(member: str, source: str) -> None:
    """Bound values are compared whole, so one that changes while pending would put the approval out of scope (X-04)."""
    plain = {"subject": {}, "resource": {"type": "customer", "id": "c"}, "action": {"name": "get"}}[member]
    with pytest.raises(MappingError):
        resolved(evaluation(**{member: {**plain, "properties": {"deep": [source]}}}))
    entry: dict[str, Any] = {"action": {"name": "get"}, "resource": {"type": "customer", "id": "c"}}
    if member != "subject":
        entry[member] = {**plain, "properties": {"deep": [source]}}
        with pytest.raises(MappingError):
            resolved({"evaluations": {"evaluations": [entry]}})


@pytest.mark.requirement("PEP-25")
def test_a_snapshot_may_go_to_the_context_and_the_call_itself_to_properties() -> None:
    mapping = evaluation(
        resource={"type": "customer", "id": "c", "properties": {"case": "$params.arguments.case"}},
        context={"risk": "$token.risk", "resource": {"properties": {"risk": "$token.risk"}}},
    )
    request = resolved(mapping, token={**TOKEN, "risk": 7})
    assert request["resource"]["properties"] == {"case": "case-67890"}
    assert request["context"]["risk"] == 7
    assert request["context"]["resource"] == {"properties": {"risk": 7}}
