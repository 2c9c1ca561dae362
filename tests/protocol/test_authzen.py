"""Shapes of the Authorization API. Vectors: certification-cases.json, evaluations-semantics.json."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.authzen import (
    ActionSearch,
    EvaluationResponse,
    EvaluationsRequest,
    EvaluationsResponse,
    InvalidShape,
    Metadata,
    ResourceSearch,
    SubjectSearch,
    Wire,
    parse,
    parse_evaluation,
    tuple_of,
)
from tests.protocol.vectors import load

CASES = [case for case in load("certification-cases")["cases"] if "body" in case and "content_type" not in case]
SINGLE = [case for case in CASES if case["endpoint"] == "/access/v1/evaluation"]
BATCH = [case for case in CASES if case["endpoint"] == "/access/v1/evaluations"]
SEARCHES: dict[str, type[Wire]] = {
    "/access/v1/search/subject": SubjectSearch,
    "/access/v1/search/resource": ResourceSearch,
    "/access/v1/search/action": ActionSearch,
}
SEARCH = [case for case in CASES if case["endpoint"] in SEARCHES]
QUESTION: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice", "properties": {"d": 1}, "x": None},
    "resource": {"type": "record", "id": "1"},
    "action": {"name": "read", "properties": {}},
    "context": {"time": "now", "nested": {"deep": [1, None]}},
    "future": {"member": True},
}

odd: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | st.just([]) | st.just({}) | st.just("text")


def pointer_of(shape: type[Wire], value: object) -> str:
    with pytest.raises(InvalidShape) as caught:
        parse(shape, value)
    return caught.value.pointer


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case["id"])
def test_a_certification_body_is_accepted_or_refused_as_required(case: dict[str, Any]) -> None:
    """certification-cases.json c-2-*: 200 has the shape, 400 hasn't, by model and by the quick way alike."""
    if case["expect"]["status"] == 200:
        assert parse_evaluation(case["body"]).wire() == case["body"]
        assert tuple_of(case["body"]).subject == case["body"]["subject"]
    else:
        for read in (parse_evaluation, tuple_of):
            with pytest.raises(InvalidShape):
                read(case["body"])


@pytest.mark.parametrize("case", SEARCH, ids=lambda case: case["id"])
def test_a_certification_search_is_accepted_or_refused_as_required(case: dict[str, Any]) -> None:
    """certification-cases.json c-4-*: the id of what is searched for is ignored, the others' ids are required."""
    shape = SEARCHES[case["endpoint"]]
    if case["expect"]["status"] == 200:
        assert parse(shape, case["body"]).wire() == case["body"]
    else:
        assert pointer_of(shape, case["body"])


@given(
    st.dictionaries(
        st.sampled_from(["subject", "resource", "action", "context", "other"]),
        st.dictionaries(st.sampled_from(["type", "id", "name", "properties", "more"]), odd) | odd,
    )
    | odd
)
def test_the_quick_way_and_the_model_agree(value: Any) -> None:
    """Both accept the same questions, and the quick way hands over what arrived."""
    try:
        model = parse_evaluation(value)
    except InvalidShape:
        with pytest.raises(InvalidShape):
            tuple_of(value)
    else:
        question = tuple_of(value)
        assert question.subject == model.subject.wire()
        assert question.resource == model.resource.wire()
        assert question.action == model.action.wire()
        assert question.context == model.context


@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        (("subject",), None, "/subject"),
        (("subject", "type"), 1, "/subject/type"),
        (("subject", "id"), None, "/subject/id"),
        (("subject", "properties"), None, "/subject/properties"),
        (("resource", "id"), True, "/resource/id"),
        (("resource", "properties"), [], "/resource/properties"),
        (("action",), "read", "/action"),
        (("action", "name"), 123, "/action/name"),
        (("context",), None, "/context"),
        (("context",), [], "/context"),
    ],
)
def test_a_wrong_type_is_refused_where_it_stands(path: tuple[str, ...], value: object, pointer: str) -> None:
    """Nothing is coerced, and an explicit null is not an absent member (Authorization API "Information Model")."""
    body = copy.deepcopy(QUESTION)
    place = body
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    for read in (parse_evaluation, tuple_of):
        with pytest.raises(InvalidShape) as caught:
            read(body)
        assert caught.value.pointer == pointer


def test_unknown_members_survive_and_the_order_of_members_does_not_matter() -> None:
    """Authorization API "JSON Serialization"; unknown members of the four objects take part in a binding."""
    assert parse_evaluation(QUESTION).wire() == QUESTION
    backwards = dict(reversed(QUESTION.items()))
    assert parse_evaluation(backwards) == parse_evaluation(QUESTION)
    assert tuple_of(backwards) == tuple_of(QUESTION)
    assert tuple_of(QUESTION).subject is QUESTION["subject"]


def test_a_question_without_context_has_an_empty_one_of_its_own() -> None:
    bare = {name: QUESTION[name] for name in ("subject", "resource", "action")}
    first = tuple_of(bare)
    assert first.context == {}
    assert first.context is not tuple_of(bare).context
    assert "context" not in parse_evaluation(bare).wire()


def test_the_error_repeats_nothing_of_the_value() -> None:
    with pytest.raises(InvalidShape) as caught:
        parse_evaluation({**QUESTION, "subject": {"type": "hunter2", "id": 2}})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("case", BATCH, ids=lambda case: case["id"])
def test_a_certification_batch_has_its_entries_in_order(case: dict[str, Any]) -> None:
    """certification-cases.json c-3-*: as many entries as answers, none where it is a single question."""
    entries = parse(EvaluationsRequest, case["body"]).entries()
    expected = case["expect"].get("decisions") or case["body"].get("evaluations", [])
    assert len(entries) == len(expected)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"evaluations": {}}, "/evaluations"),
        ({"evaluations": None}, "/evaluations"),
        ({"evaluations": [{}, 1]}, "/evaluations/1"),
        ({"options": []}, "/options"),
        ({"options": {"evaluations_semantic": "bogus"}}, "/options/evaluations_semantic"),
        ({"options": {"evaluations_semantic": 1}}, "/options/evaluations_semantic"),
        ([], ""),
    ],
)
def test_a_batch_that_cannot_be_understood_is_refused_whole(body: object, pointer: str) -> None:
    """evaluations-semantics.json, last row: an unknown semantic is no reason to guess (PDP-21 is the endpoint's)."""
    assert pointer_of(EvaluationsRequest, body) == pointer


def test_the_three_semantics_are_known_and_the_first_is_the_default() -> None:
    """evaluations-semantics.json."""
    for case in load("evaluations-semantics")["cases"]:
        options = {} if case["semantic"] is None else {"evaluations_semantic": case["semantic"]}
        if "expect" in case:
            request = parse(EvaluationsRequest, {"evaluations": [], "options": options})
            assert request.options.evaluations_semantic == (case["semantic"] or "execute_all")
        else:
            assert pointer_of(EvaluationsRequest, {"options": options}) == "/options/evaluations_semantic"


def test_an_entry_replaces_a_default_whole() -> None:
    """Authorization API "Default values": never merged deeper; certification c-3-2-7."""
    default = {"type": "record", "id": "1", "properties": {"status": "active", "owner": "bob"}}
    own = {"type": "record", "id": "2", "properties": {"status": "archived"}}
    body = {"resource": default, "options": {"x": 1}, "other": 1, "evaluations": [{}, {"resource": own, "n": 1}]}
    assert parse(EvaluationsRequest, body).entries() == [{"resource": default}, {"resource": own, "n": 1}]


def test_a_default_of_the_wrong_type_is_left_to_the_entries() -> None:
    """An entry that brings its own member is evaluable; the others become denials in place (PDP-19)."""
    own = {"type": "user", "id": "a"}
    body = {"subject": 1, "evaluations": [{}, {"subject": own}]}
    assert parse(EvaluationsRequest, body).entries() == [{"subject": 1}, {"subject": own}]


@pytest.mark.requirement("PEP-14")
@pytest.mark.parametrize("decision", ["true", 1, 1.0, None, [], {}])
def test_only_a_json_boolean_is_a_decision(decision: object) -> None:
    assert pointer_of(EvaluationResponse, {"decision": decision}) == "/decision"
    assert pointer_of(EvaluationsResponse, {"evaluations": [{"decision": True}, {"decision": decision}]}) == (
        "/evaluations/1/decision"
    )


@pytest.mark.requirement("PEP-14")
def test_unknown_members_of_an_answer_do_not_turn_a_denial_into_a_permit() -> None:
    answer = {"decision": False, "context": {"override": True}, "permit": True}
    assert parse(EvaluationResponse, answer).decision is False
    assert parse(EvaluationResponse, {"decision": True}).decision is True
    assert pointer_of(EvaluationResponse, {}) == "/decision"
    assert pointer_of(EvaluationResponse, {"decision": True, "context": "x"}) == "/context"


def test_a_page_has_a_limit_that_is_not_negative() -> None:
    """Authorization API "Pagination"."""
    search = {"subject": {"type": "user"}, "action": {"name": "read"}, "resource": {"type": "r", "id": "1"}}
    assert parse(SubjectSearch, search).page.limit is None
    assert parse(SubjectSearch, {**search, "page": {"limit": 0, "token": "t"}}).page.token == "t"
    assert pointer_of(SubjectSearch, {**search, "page": {"limit": -1}}) == "/page/limit"
    assert pointer_of(SubjectSearch, {**search, "page": {"limit": True}}) == "/page/limit"


def test_metadata_needs_identifier_and_evaluation_endpoint() -> None:
    document = {
        "policy_decision_point": "https://pdp.example.com",
        "access_evaluation_endpoint": "https://pdp.example.com/access/v1/evaluation",
        "capabilities": ["urn:openid:authzen:capability:access-request"],
        "search_subject_endpoint": "https://pdp.example.com/access/v1/search/subject",
    }
    metadata = parse(Metadata, document)
    assert metadata.wire() == document
    assert metadata.access_request_endpoint is None
    assert pointer_of(Metadata, {"policy_decision_point": "x"}) == "/access_evaluation_endpoint"
    assert pointer_of(Metadata, {**document, "capabilities": [1]}) == "/capabilities/0"
