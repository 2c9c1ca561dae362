"""The AuthZEN certification scenario at all its levels, over real HTTP against `make serve-certification`.

Every numbered test of the document has one here that bears its number: those of `certification-cases.json` as cases of
`test_case`, the others by their names. Everything runs over plain http and, as the scenario wants it, over https.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import httpx2
import pytest
from joserfc import jwk, jws

from tests.certification import Served, serving
from tests.protocol import vectors

CASES: Final[list[dict[str, Any]]] = vectors.load("certification-cases")["cases"]
EVALUATION, EVALUATIONS = "/access/v1/evaluation", "/access/v1/evaluations"
SUBJECT, RESOURCE, ACTION = (f"/access/v1/search/{name}" for name in ("subject", "resource", "action"))
METADATA = "/.well-known/authzen-configuration"
CONTEXT: Final = {"time": "2025-06-27T18:03-07:00", "ip": "192.168.1.1"}
ALICE: Final = {"type": "user", "id": "alice"}
BOB: Final = {"type": "user", "id": "bob"}
RECORD: Final = {"type": "record", "id": "record-1"}
READ: Final = {"name": "read"}
QUESTION: Final[dict[str, Any]] = {"subject": ALICE, "action": READ, "resource": RECORD}
WHO: Final[dict[str, Any]] = {"subject": {"type": "user"}, "action": READ, "resource": RECORD}
WHAT: Final[dict[str, Any]] = {"subject": ALICE, "action": READ, "resource": {"type": "record"}}
HOW: Final[dict[str, Any]] = {"subject": ALICE, "resource": RECORD}
BATCH: Final[dict[str, Any]] = {**QUESTION, "evaluations": [{}, {"action": {"name": "write"}}]}
VALID: Final = {EVALUATION: QUESTION, EVALUATIONS: BATCH, SUBJECT: WHO, RESOURCE: WHAT, ACTION: HOW}
EVERYWHERE = pytest.mark.parametrize("path", VALID, ids=lambda path: path.rpartition("v1/")[2])
# The numbered tests of the document, in its order.
NUMBERS: Final = (
    *("c-1-4", "c-1-5"),
    *(f"c-2-2-{number}" for number in range(1, 10)),
    *("c-2-3-1", "c-2-3-2"),
    *(f"c-2-4-{number}" for number in range(1, 7)),
    *("c-2-5-1", "c-2-5-2", "c-2-6"),
    *(f"c-3-2-{number}" for number in range(1, 8)),
    *(f"c-3-3-{number}" for number in range(1, 5)),
    *(f"c-3-4-{number}" for number in range(1, 4)),
    *(f"c-4-2-{number}" for number in range(1, 5)),
    *(f"c-4-3-{number}" for number in range(1, 5)),
    *(f"c-4-4-{number}" for number in range(1, 4)),
    *(f"c-4-5-{number}" for number in range(1, 5)),
    *("c-4-6-1", "c-4-6-2", "c-4-7-1", "c-4-7-2"),
    *(f"c-5-{number}" for number in range(1, 6)),
    *(f"c-6-{number}" for number in range(1, 7)),
)


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Served]]:
    """The decision point over http and over https."""
    with ExitStack() as stack:
        yield {"http": stack.enter_context(serving(tls=False)), "https": stack.enter_context(serving(tls=True))}


@pytest.fixture(params=["http", "https"])
def served(request: pytest.FixtureRequest, running: dict[str, Served]) -> Served:
    """Each of them in turn."""
    return running[request.param]


@pytest.fixture
def pdp(served: Served) -> httpx2.Client:
    """An enforcement point's connection to it."""
    return served.client


@pytest.fixture
def https(running: dict[str, Served]) -> Served:
    """The decision point over https, whose metadata must hold https addresses."""
    return running["https"]


def answered(pdp: httpx2.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The body of a successful answer, which is JSON (c-5-2)."""
    answer = pdp.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    value: dict[str, Any] = answer.json()
    return value


def found(pdp: httpx2.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a search, whatever their order."""
    results = answered(pdp, path, body)["results"]
    assert isinstance(results, list)
    return sorted(results, key=str)


def test_every_number_of_the_document_has_a_test() -> None:
    named = {case["id"].partition(".")[0] for case in CASES}
    for name in dir(sys.modules[__name__]):
        if name.startswith("test_c_"):
            parts = name.removeprefix("test_").split("_")
            digits = [part for part in parts[1:4] if part.isdigit()]
            named.add("-".join(["c", *digits]))
    assert sorted(set(NUMBERS) - named) == []
    assert sorted(named - set(NUMBERS)) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
@pytest.mark.requirement("PDP-01", "PDP-02", "PDP-03", "PDP-04", "PDP-05", "PDP-06", "PDP-07", "PDP-08", "PDP-09")
@pytest.mark.requirement("PDP-16", "PDP-17", "PDP-18", "PDP-19", "PDP-25")
def test_case(pdp: httpx2.Client, case: dict[str, Any]) -> None:
    content = case["raw"].encode() if "raw" in case else json.dumps(case["body"]).encode()
    headers = {"Content-Type": case.get("content_type", "application/json"), **case.get("headers", {})}
    expected = case["expect"]
    for _ in range(case.get("repeat", 1)):
        answer = pdp.post(case["endpoint"], content=content, headers=headers)
        assert answer.status_code == expected["status"], answer.text
        if expected["status"] == 200:
            assert answer.headers["content-type"] == "application/json"
            for name, value in expected.get("headers", {}).items():
                assert answer.headers[name] == value
            _as_expected(answer.json(), expected)


def _as_expected(body: dict[str, Any], expected: dict[str, Any]) -> None:
    if "decision" in expected:
        assert body["decision"] is expected["decision"]
        assert "evaluations" not in body
    elif "decisions" in expected or isinstance(expected.get("structure"), int):
        decisions = [each["decision"] for each in body["evaluations"]]
        assert all(isinstance(decision, bool) for decision in decisions)
        assert len(decisions) == expected.get("structure", len(decisions))
        assert decisions == expected.get("decisions", decisions)
    else:
        results = body["results"]
        assert isinstance(results, list)
        assert results == expected.get("results", results)
        assert [each for each in expected.get("includes", []) if each not in results] == []
        if "only_type" in expected:
            assert {each["type"] for each in results} == {expected["only_type"]}
        assert isinstance(body["page"]["next_token"], str)


@pytest.mark.parametrize("context", [None, {}, CONTEXT], ids=["without", "empty", "context"])
@pytest.mark.requirement("PDP-05", "PDP-06", "PDP-08")
def test_c_1_4_the_eight_decisions_hold_with_and_without_context(
    pdp: httpx2.Client, context: dict[str, Any] | None
) -> None:
    archived = {"type": "record", "id": "record-2", "properties": {"status": "archived"}}
    admin = {**BOB, "properties": {"role": "admin"}}
    write = {"name": "write"}
    rules: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], bool]] = [
        (ALICE, READ, RECORD, True),
        (ALICE, write, RECORD, True),
        (BOB, READ, RECORD, True),
        (BOB, write, RECORD, False),
        (ALICE, write, archived, False),
        (admin, write, archived, True),
        (ALICE, {"name": "delete", "properties": {"soft": True}}, RECORD, True),
        (ALICE, {"name": "delete", "properties": {"soft": False}}, RECORD, False),
    ]
    more = {} if context is None else {"context": context}
    decisions = [
        answered(pdp, EVALUATION, {"subject": subject, "action": action, "resource": resource, **more})["decision"]
        for subject, action, resource, _ in rules
    ]
    assert decisions == [permitted for _, _, _, permitted in rules]


@pytest.mark.requirement("PDP-25")
def test_c_1_5_whatever_a_search_finds_is_permitted_when_asked_about(pdp: httpx2.Client) -> None:
    """S1 to S6, each result put to the evaluation endpoint as it came."""
    archived = {"type": "record", "id": "record-2", "properties": {"status": "archived"}}
    admin = {**BOB, "properties": {"role": "admin"}}
    write = {"name": "write"}
    searches: list[tuple[str, str, dict[str, Any], list[dict[str, Any]]]] = [
        (SUBJECT, "subject", WHO, [ALICE, BOB]),
        (RESOURCE, "resource", WHAT, [RECORD]),
        (ACTION, "action", HOW, [READ, write]),
        (SUBJECT, "subject", {"subject": {"type": "user"}, "action": write, "resource": archived}, [BOB]),
        (RESOURCE, "resource", {"subject": admin, "action": write, "resource": {"type": "record"}}, [archived]),
        (ACTION, "action", {"subject": admin, "resource": archived}, [write]),
    ]
    for path, member, asked, least in searches:
        results = found(pdp, path, asked)
        for wanted in least:
            assert {name: value for name, value in wanted.items() if name != "properties"} in results
        for result in results:
            assert answered(pdp, EVALUATION, {**asked, member: result})["decision"] is True


@pytest.mark.parametrize("subject", [ALICE, BOB], ids=["permit", "deny"])
@pytest.mark.requirement("PDP-01")
def test_c_2_3_1_an_answer_has_a_boolean_decision(pdp: httpx2.Client, subject: dict[str, str]) -> None:
    asked = {**QUESTION, "subject": subject, "action": {"name": "write"}}
    assert answered(pdp, EVALUATION, asked)["decision"] is (subject is ALICE)


def test_c_2_3_2_the_context_of_an_answer_is_an_object(pdp: httpx2.Client) -> None:
    for action in ("read", "unheard-of"):
        assert isinstance(answered(pdp, EVALUATION, {**QUESTION, "action": {"name": action}})["context"], dict)


@pytest.mark.requirement("PDP-09")
def test_c_2_5_2_a_request_without_an_id_is_answered(pdp: httpx2.Client) -> None:
    answer = pdp.post(EVALUATION, json=QUESTION)
    assert answer.status_code == 200
    assert "x-request-id" not in answer.headers


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.requirement("PDP-17")
def test_c_3_3_1_there_are_as_many_answers_as_questions(pdp: httpx2.Client, count: int) -> None:
    assert len(answered(pdp, EVALUATIONS, {**QUESTION, "evaluations": [{}] * count})["evaluations"]) == count


@pytest.mark.requirement("PDP-17")
def test_c_3_3_2_answers_come_in_the_order_of_the_questions(pdp: httpx2.Client) -> None:
    for names in (["read", "write", "read", "write"], ["write", "write", "read"]):
        entries = [{"action": {"name": name}} for name in names]
        answers = answered(pdp, EVALUATIONS, {"subject": BOB, "resource": RECORD, "evaluations": entries})
        assert [each["decision"] for each in answers["evaluations"]] == [name == "read" for name in names]


@pytest.mark.requirement("PDP-17")
def test_c_3_3_3_every_answer_has_a_decision_and_its_context_is_an_object(pdp: httpx2.Client) -> None:
    answers = answered(pdp, EVALUATIONS, {**BATCH, "evaluations": [*BATCH["evaluations"], {"subject": 7}]})
    assert [each["decision"] for each in answers["evaluations"]] == [True, True, False]
    assert all(isinstance(each.get("context", {}), dict) for each in answers["evaluations"])


@pytest.mark.requirement("PDP-22")
def test_c_3_3_4_there_is_no_decision_over_all(pdp: httpx2.Client) -> None:
    assert "decision" not in answered(pdp, EVALUATIONS, BATCH)


@pytest.mark.requirement("PDP-25")
def test_c_4_2_2_subjects_are_the_same_with_context(pdp: httpx2.Client) -> None:
    assert found(pdp, SUBJECT, {**WHO, "context": CONTEXT}) == found(pdp, SUBJECT, WHO) == [ALICE, BOB]


@pytest.mark.requirement("PDP-25")
def test_c_4_2_3_subjects_are_the_same_with_an_id(pdp: httpx2.Client) -> None:
    for subject in (ALICE, {"type": "user", "id": "nonexistent-user"}):
        assert found(pdp, SUBJECT, {**WHO, "subject": subject}) == [ALICE, BOB]


@pytest.mark.requirement("PDP-25")
def test_c_4_3_2_resources_are_the_same_with_context(pdp: httpx2.Client) -> None:
    results = found(pdp, RESOURCE, WHAT)
    assert RECORD in results
    assert found(pdp, RESOURCE, {**WHAT, "context": CONTEXT}) == results


@pytest.mark.requirement("PDP-25")
def test_c_4_3_3_resources_are_the_same_with_an_id(pdp: httpx2.Client) -> None:
    results = found(pdp, RESOURCE, WHAT)
    for resource in (RECORD, {"type": "record", "id": "nonexistent"}):
        assert found(pdp, RESOURCE, {**WHAT, "resource": resource}) == results


@pytest.mark.requirement("PDP-25")
def test_c_4_4_2_actions_are_the_same_with_context(pdp: httpx2.Client) -> None:
    results = found(pdp, ACTION, HOW)
    assert [each for each in (READ, {"name": "write"}) if each not in results] == []
    assert found(pdp, ACTION, {**HOW, "context": CONTEXT}) == results


@pytest.mark.requirement("PDP-25")
def test_c_4_5_2_a_page_token_alone_leads_to_the_rest(pdp: httpx2.Client) -> None:
    """As the document sends it: the token, and the limit no more."""
    answer = answered(pdp, SUBJECT, {**WHO, "page": {"limit": 1}})
    results = answer["results"]
    tokens = [answer["page"]["next_token"]]
    assert tokens[0] != ""
    while tokens[-1]:
        answer = answered(pdp, SUBJECT, {**WHO, "page": {"token": tokens[-1]}})
        assert len(answer["results"]) <= 1
        results += answer["results"]
        assert answer["page"]["next_token"] not in tokens
        tokens.append(answer["page"]["next_token"])
    assert sorted(results, key=str) == found(pdp, SUBJECT, WHO)


@pytest.mark.parametrize(("path", "asked"), [(SUBJECT, WHO), (RESOURCE, WHAT), (ACTION, HOW)])
@pytest.mark.requirement("PDP-25")
def test_c_4_5_3_the_page_of_an_answer_has_a_token_and_counts(
    pdp: httpx2.Client, path: str, asked: dict[str, Any]
) -> None:
    for limit in (1, 2, 100):
        answer = answered(pdp, path, {**asked, "page": {"limit": limit}})
        assert isinstance(answer["page"]["next_token"], str)
        assert answer["page"]["count"] == len(answer["results"]) <= limit


@pytest.mark.parametrize(("path", "asked"), [(SUBJECT, WHO), (RESOURCE, WHAT), (ACTION, HOW)])
@pytest.mark.requirement("PDP-25")
def test_c_4_5_4_who_does_not_ask_for_pages_gets_everything_at_once(
    pdp: httpx2.Client, path: str, asked: dict[str, Any]
) -> None:
    unpaged: tuple[dict[str, Any], ...] = ({}, {"page": {}}, {"page": {"limit": 100}})
    for page in unpaged:
        assert answered(pdp, path, {**asked, **page})["page"]["next_token"] == ""
        assert found(pdp, path, {**asked, **page}) == found(pdp, path, asked) != []


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (SUBJECT, {**WHO, "resource": {"type": "record", "id": "nonexistent"}}),
        (RESOURCE, {**WHAT, "subject": {"type": "user", "id": "nonexistent-user"}}),
        (ACTION, {**HOW, "subject": {"type": "user", "id": "nonexistent-user"}}),
        (ACTION, {**HOW, "resource": {"type": "record", "id": "nonexistent"}}),
    ],
)
@pytest.mark.requirement("PDP-25")
def test_c_4_6_1_an_unknown_identifier_finds_nothing(pdp: httpx2.Client, path: str, asked: dict[str, Any]) -> None:
    assert found(pdp, path, asked) == []


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (SUBJECT, {**WHO, "subject": {"type": "spaceship"}}),
        (SUBJECT, {**WHO, "resource": {"type": "spaceship", "id": "record-1"}}),
        (RESOURCE, {**WHAT, "resource": {"type": "spaceship"}}),
        (RESOURCE, {**WHAT, "subject": {"type": "spaceship", "id": "alice"}}),
        (ACTION, {**HOW, "resource": {"type": "spaceship", "id": "record-1"}}),
        (ACTION, {**HOW, "subject": {"type": "spaceship", "id": "alice"}}),
    ],
)
@pytest.mark.requirement("PDP-25")
def test_c_4_6_2_an_unknown_type_finds_nothing(pdp: httpx2.Client, path: str, asked: dict[str, Any]) -> None:
    assert found(pdp, path, asked) == []


@EVERYWHERE
def test_c_5_1_requests_over_https_with_json_are_accepted(https: Served, path: str) -> None:
    assert https.identifier.startswith("https://")
    content = json.dumps(VALID[path]).encode()
    answer = https.client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200


@EVERYWHERE
@pytest.mark.requirement("PDP-01")
def test_c_5_2_a_successful_answer_is_json(pdp: httpx2.Client, path: str) -> None:
    assert answered(pdp, path, VALID[path])


@EVERYWHERE
@pytest.mark.requirement("PDP-02")
def test_c_5_3_a_missing_member_is_a_bad_request(pdp: httpx2.Client, path: str) -> None:
    asked = {name: value for name, value in VALID[path].items() if name != "evaluations"}
    for missing in asked:
        answer = pdp.post(path, json={name: value for name, value in asked.items() if name != missing})
        assert answer.status_code == 400


@EVERYWHERE
@pytest.mark.requirement("PDP-09")
def test_c_5_4_the_request_id_is_echoed(pdp: httpx2.Client, path: str) -> None:
    for body, status in ((VALID[path], 200), ({}, 400)):
        answer = pdp.post(path, json=body, headers={"X-Request-ID": "any thing / 7"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (status, "any thing / 7")


@EVERYWHERE
@pytest.mark.requirement("PDP-04")
def test_c_5_5_unknown_members_are_ignored(pdp: httpx2.Client, path: str) -> None:
    unknown = {"foo": "bar", "futureField": {"nested": True}}
    asked = {name: {**value, **unknown} if isinstance(value, dict) else value for name, value in VALID[path].items()}
    if "results" in (plain := answered(pdp, path, VALID[path])):
        assert answered(pdp, path, {**asked, **unknown}) == plain
    else:
        answer = answered(pdp, path, {**asked, **unknown})
        assert _decisions(answer) == _decisions(plain)


def _decisions(answer: dict[str, Any]) -> list[bool]:
    return [each["decision"] for each in answer.get("evaluations", [answer])]


@pytest.mark.requirement("PDP-26")
def test_c_6_1_the_metadata_is_where_the_identifier_says(served: Served) -> None:
    assert served.client.get(METADATA).json()["policy_decision_point"] == served.identifier


@pytest.mark.requirement("PDP-26")
def test_c_6_2_the_metadata_is_a_json_object(pdp: httpx2.Client) -> None:
    answer = pdp.get(METADATA)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert isinstance(answer.json(), dict)


@pytest.mark.requirement("PDP-27", "PDP-28")
def test_c_6_3_the_required_members_are_https_addresses(https: Served) -> None:
    said = https.client.get(METADATA).json()
    assert said["policy_decision_point"] == https.identifier
    for name in ("policy_decision_point", "access_evaluation_endpoint"):
        url = httpx2.URL(said[name])
        assert (url.scheme, url.host, url.query, url.fragment) == ("https", "127.0.0.1", b"", "")


@pytest.mark.requirement("PDP-25", "PDP-28", "PDP-30")
def test_c_6_4_the_optional_members_are_there_and_true(https: Served) -> None:
    said = https.client.get(METADATA).json()
    served = {"access_evaluations_endpoint": EVALUATIONS, "search_subject_endpoint": SUBJECT}
    served |= {"search_resource_endpoint": RESOURCE, "search_action_endpoint": ACTION}
    for name, path in served.items():
        assert said[name].startswith("https://")
        assert answered(https.client, said[name], VALID[path])
    assert said["capabilities"]
    assert all(isinstance(each, str) and each.startswith("urn:") for each in said["capabilities"])


@pytest.mark.requirement("PDP-27", "PDP-28", "PDP-36")
def test_c_6_5_the_metadata_leads_to_a_decision(https: Served) -> None:
    said = https.client.get(METADATA).json()
    assert answered(https.client, said["access_evaluation_endpoint"], QUESTION)["decision"] is True
    assert [name for name in said if name.endswith(("_endpoint", "_uri")) and not said[name].startswith("https:")] == []
    assert [name for name, value in said.items() if value in ("", None, [], {})] == []
    keys = jwk.KeySet.import_key_set(https.client.get(said["jwks_uri"]).json())
    signed = json.loads(jws.deserialize_compact(said.pop("signed_metadata"), keys, algorithms=["ES256"]).payload)
    assert signed.pop("iss") == https.identifier
    assert {name: value for name, value in signed.items() if name in said} == said
    assert "signed_metadata" not in signed


def test_c_6_6_whoever_cannot_read_the_metadata_finds_everything_at_the_default_paths(served: Served) -> None:
    said = served.client.get(METADATA).json()
    named = [value for name, value in said.items() if name.startswith(("access_evaluation", "search_"))]
    assert sorted(named) == sorted(served.identifier + path for path in VALID)
