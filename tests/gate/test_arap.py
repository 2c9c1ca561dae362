"""The backend over HTTP, against a service written in raw dicts (ARAP; PEP-31 to PEP-50)."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import httpx2
import pytest
import stamina

from mcp_gate.arap import ArapBackend
from mcp_gate.arap_channel import Channel, metadata_url
from mcp_gate.backend import (
    Accepted,
    AnswerRefused,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    Handle,
    Permit,
    Refused,
)
from mcp_gate.settings import Backend
from tests.clock import FakeClock
from tests.gate.scripted_service import HOST, Received, ScriptedService

pytestmark = pytest.mark.anyio

QUESTION: dict[str, Any] = {
    "subject": {"type": "identity", "id": "alice", "properties": {"act": {"sub": "agent-7"}}},
    "action": {"name": "tools/call"},
    "resource": {"type": "tool", "id": "wire"},
    "context": {"agent": "agent-7", "arguments_hash": "sha256:00", "project": "q4"},
}


@pytest.fixture(autouse=True)
def _no_waiting() -> Any:
    with stamina.set_testing(True, attempts=1):
        yield


@pytest.fixture
def service(clock: FakeClock) -> ScriptedService:
    return ScriptedService(rules={"wire": "request", "read": "permit"}, now=clock)


@pytest.fixture
async def connect(service: ScriptedService, clock: FakeClock) -> AsyncIterator[Callable[..., ArapBackend]]:
    clients: list[httpx2.AsyncClient] = []

    def connected(
        *, callback_endpoint: str | None = None, slow: tuple[anyio.Event, anyio.Event] | None = None, **settings: Any
    ) -> ArapBackend:
        transport = service.transport() if slow is None else _Held(service.transport(), *slow)
        client = httpx2.AsyncClient(transport=transport)
        clients.append(client)
        backend = Backend(identifier=HOST, idempotency_retention_seconds=86_400, **settings)
        return ArapBackend(Channel(backend, http=client, clock=clock), callback_endpoint=callback_endpoint)

    yield connected
    for client in clients:
        await client.aclose()


@pytest.fixture
def backend(connect: Callable[..., ArapBackend]) -> ArapBackend:
    return connect()


def about(tool: str) -> dict[str, Any]:
    return {**QUESTION, "resource": {"type": "tool", "id": tool}}


async def requestable(backend: ArapBackend) -> Denial:
    denial = await backend.evaluate(QUESTION)
    assert isinstance(denial, Denial)
    return denial


async def test_a_permit_is_json_true(backend: ArapBackend) -> None:
    assert isinstance(await backend.evaluate(about("read")), Permit)


@pytest.mark.requirement("PEP-13", "PEP-14")
@pytest.mark.parametrize(
    "answer",
    [
        {"decision": "true"},
        {"decision": 1},
        {"decision": None},
        {},
        [],
        {"decision": True, "context": []},
        {"decision": True, "context": {"approval": {"approved_until": "soon"}}},
    ],
)
async def test_anything_but_a_well_formed_true_never_permits(
    backend: ArapBackend, service: ScriptedService, answer: Any
) -> None:
    service.override = lambda got: httpx2.Response(200, json=answer) if got.url.endswith("/evaluation") else None
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(about("read"))


@pytest.mark.requirement("PEP-13")
@pytest.mark.parametrize("status", [201, 302, 400, 403, 500, 503])
async def test_an_answer_that_is_no_decision_never_permits(
    backend: ArapBackend, service: ScriptedService, status: int
) -> None:
    service.override = lambda got: (
        httpx2.Response(status, json={"decision": True}) if got.url.endswith("/evaluation") else None
    )
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(about("read"))


@pytest.mark.requirement("PEP-13")
async def test_a_dead_decision_point_never_permits(backend: ArapBackend, service: ScriptedService) -> None:
    def fail(_: Received) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    service.override = fail
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(about("read"))


async def test_duplicate_members_never_permit(backend: ArapBackend, service: ScriptedService) -> None:
    """Two decisions in one body: strict reading refuses what lenient reading resolves to the last."""
    service.override = lambda got: (
        httpx2.Response(200, content=b'{"decision": false, "decision": true}')
        if got.url.endswith("/evaluation")
        else None
    )
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(about("read"))


async def test_unknown_context_members_do_not_turn_a_denial_into_a_permit(
    backend: ArapBackend, service: ScriptedService
) -> None:
    service.override = lambda got: (
        httpx2.Response(200, json={"decision": False, "context": {"permit": True, "next_action": "proceed"}})
        if got.url.endswith("/evaluation")
        else None
    )
    denial = await backend.evaluate(about("read"))
    assert isinstance(denial, Denial)
    assert not denial.requestable


@pytest.mark.requirement("PEP-31")
async def test_a_permit_with_a_stray_access_request_submits_nothing(
    backend: ArapBackend, service: ScriptedService
) -> None:
    offered = {"expires_at": "2026-04-30T20:05:00Z", "binding_token": "x"}
    service.override = lambda got: (
        httpx2.Response(200, json={"decision": True, "context": {"access_request": offered}})
        if got.url.endswith("/evaluation")
        else None
    )
    assert isinstance(await backend.evaluate(about("read")), Permit)
    with pytest.raises(ValueError, match="not requestable"):
        backend.submission_body(QUESTION, Denial(access_request=offered))


@pytest.mark.requirement("PEP-35", "PEP-36", "PEP-37")
async def test_every_denial_member_is_echoed_as_it_came(backend: ArapBackend, service: ScriptedService) -> None:
    denial = await requestable(backend)
    await backend.submit(backend.submission_body(QUESTION, denial), key="k1")
    (sent,) = service.sent_to("/requests")
    body = sent.json()
    offered = denial.access_request or {}
    assert body["denial"] == {
        "evaluation_id": denial.context["evaluation_id"],
        "evaluated_at": denial.context["evaluated_at"],
        "reason": "approval_required",
        "expires_at": offered["expires_at"],
        "binding_token": offered["binding_token"],
        "template": "review",
    }
    assert {name: body[name] for name in QUESTION} == QUESTION


@pytest.mark.requirement("PEP-50")
async def test_every_submission_carries_its_key(backend: ArapBackend, service: ScriptedService) -> None:
    body = backend.submission_body(QUESTION, await requestable(backend))
    first, second = await backend.submit(body, key="k1"), await backend.submit(body, key="k1")
    assert isinstance(first, Accepted)
    assert isinstance(second, Accepted)
    assert first.handle == second.handle
    assert [sent.headers["idempotency-key"] for sent in service.sent_to("/requests")] == ["k1", "k1"]


@pytest.mark.requirement("PEP-34")
async def test_the_endpoint_of_the_denial_is_used_when_it_names_one(
    backend: ArapBackend, service: ScriptedService
) -> None:
    service.extra_access_request = {"endpoint": f"{HOST}/elsewhere"}
    body = backend.submission_body(QUESTION, await requestable(backend))
    await backend.submit(body, key="k1")
    assert len(service.sent_to("/elsewhere")) == 1
    assert service.sent_to("/requests") == []


@pytest.mark.requirement("PEP-32")
@pytest.mark.parametrize("name", ["endpoint", "form_url", "request_schema_url", "request_catalogs_url"])
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/requests",
        "http://pdp.example/requests",
        "https://pdp.example:444/requests",
        "https://pdp.example@evil.example/",
        "https://user@pdp.example/requests",
        "",
        7,
    ],
)
async def test_a_denial_that_names_a_foreign_origin_is_terminal_and_nothing_is_sent_there(
    backend: ArapBackend, service: ScriptedService, name: str, url: object
) -> None:
    service.extra_access_request = {name: url}
    denial = await requestable(backend)
    assert denial.next_action == "none"
    assert denial.access_request is None
    assert {got.url.removeprefix(HOST) for got in service.received} == {
        "/.well-known/authzen-configuration",
        "/evaluation",
    }


async def test_an_origin_that_the_operator_lists_is_trusted(
    connect: Callable[..., ArapBackend], service: ScriptedService
) -> None:
    service.extra_access_request = {"endpoint": "https://requests.example/new"}
    backend = connect(trusted_origins=("https://requests.example",))
    body = backend.submission_body(QUESTION, await requestable(backend))
    service.override = lambda got: httpx2.Response(503) if got.url.startswith("https://requests.example") else None
    with pytest.raises(BackendUnavailable):
        await backend.submit(body, key="k1")
    assert service.received[-1].url == "https://requests.example/new"


@pytest.mark.requirement("PEP-32")
async def test_metadata_of_another_decision_point_is_refused(backend: ArapBackend, service: ScriptedService) -> None:
    service.override = lambda got: (
        httpx2.Response(200, json={"policy_decision_point": "https://other.example"})
        if "well-known" in got.url
        else None
    )
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(QUESTION)
    assert service.sent_to("/evaluation") == []


@pytest.mark.requirement("PEP-33")
async def test_no_credential_follows_a_redirect(connect: Callable[..., ArapBackend], service: ScriptedService) -> None:
    service.token = "secret-token"
    backend = connect(client_id="gate", client_secret="s")
    service.override = lambda got: (
        httpx2.Response(307, headers={"location": "https://evil.example/evaluation"})
        if got.url.endswith("/evaluation")
        else None
    )
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(QUESTION)
    assert [got for got in service.received if not got.url.startswith(HOST)] == []


async def test_requests_carry_the_gates_own_token_and_renew_it_once(
    connect: Callable[..., ArapBackend], service: ScriptedService
) -> None:
    service.token = "first"
    backend = connect(client_id="gate", client_secret="s")
    assert isinstance(await backend.evaluate(about("read")), Permit)
    service.token = "second"
    assert isinstance(await backend.evaluate(about("read")), Permit)
    assert len(service.sent_to("/issuer/token")) == 2
    assert service.sent_to("/evaluation")[-1].headers["authorization"] == "Bearer second"


@pytest.mark.requirement("PEP-38")
async def test_input_that_nobody_supplied_is_not_invented(backend: ArapBackend, service: ScriptedService) -> None:
    service.extra_access_request = {"request_schema_url": f"{HOST}/schema"}
    schema = {"type": "object", "properties": {"context": {"type": "object", "required": ["business_justification"]}}}
    service.override = lambda got: httpx2.Response(200, json=schema) if got.url.endswith("/schema") else None
    denial = await requestable(backend)
    assert denial.request_schema == schema
    with pytest.raises(ValueError, match="more input"):
        backend.submission_body(QUESTION, denial)
    supplied = {**QUESTION, "context": {**QUESTION["context"], "business_justification": "quarter end"}}
    sent = json.loads(backend.submission_body(supplied, denial).partition(b"\n")[2])
    assert sent["context"]["business_justification"] == "quarter end"


@pytest.mark.requirement("PEP-38")
@pytest.mark.parametrize(
    "answer", [httpx2.Response(404), httpx2.Response(200, json=[]), httpx2.Response(200, text="{")]
)
async def test_a_denial_whose_schema_cannot_be_learnt_is_not_requestable(
    backend: ArapBackend, service: ScriptedService, answer: httpx2.Response
) -> None:
    service.extra_access_request = {"request_schema_url": f"{HOST}/schema"}
    service.override = lambda got: answer if got.url.endswith("/schema") else None
    assert (await requestable(backend)).next_action == "none"


@pytest.mark.requirement("PEP-38")
async def test_a_schema_that_the_call_already_satisfies_lets_it_be_submitted(
    backend: ArapBackend, service: ScriptedService
) -> None:
    service.extra_access_request = {"request_schema_url": f"{HOST}/schema"}
    schema = {"type": "object", "properties": {"context": {"type": "object", "required": ["project"]}}}
    service.override = lambda got: httpx2.Response(200, json=schema) if got.url.endswith("/schema") else None
    assert (await requestable(backend)).requestable


async def test_a_schema_that_refers_elsewhere_is_not_followed(backend: ArapBackend, service: ScriptedService) -> None:
    service.extra_access_request = {"request_schema_url": f"{HOST}/schema"}
    schema = {"$ref": "https://evil.example/schema"}
    service.override = lambda got: httpx2.Response(200, json=schema) if got.url.endswith("/schema") else None
    assert not (await requestable(backend)).requestable


@pytest.mark.requirement("PEP-39", "PEP-40", "PEP-36")
async def test_the_approval_goes_back_unchanged_beside_the_original_context(
    backend: ArapBackend, service: ScriptedService
) -> None:
    accepted = await backend.submit(backend.submission_body(QUESTION, await requestable(backend)), key="k1")
    assert isinstance(accepted, Accepted)
    service.approve()
    status = await backend.status(accepted.handle)
    permit = await backend.evaluate(QUESTION, approval=status.approval)
    assert isinstance(permit, Permit)
    assert permit.approved_until == status.approved_until
    sent = service.sent_to("/evaluation")[-1].json()
    assert sent["context"].pop("approval") == service.tasks[service.only()]["approval"]
    assert sent == QUESTION


@pytest.mark.requirement("PEP-42")
@pytest.mark.parametrize(
    ("task", "result"),
    [
        ({"status": "granted"}, {"mode": "reevaluate"}),
        ({"status": "approved"}, {"mode": "issue_token"}),
        ({"status": "denied"}, {"mode": "reevaluate"}),
        ({"status": "approved", "items": []}, {"mode": "reevaluate"}),
    ],
)
async def test_only_an_approved_single_task_in_the_known_mode_yields_an_approval(
    backend: ArapBackend, service: ScriptedService, task: dict[str, Any], result: dict[str, Any]
) -> None:
    approval = {"id": "apr_1", "approved_until": "2026-04-30T21:00:00Z"}
    service.override = lambda got: (
        httpx2.Response(200, json={"task": {"id": "arq_1", **task}, "result": {**result, "approval": approval}})
        if "/requests/" in got.url
        else None
    )
    status = await backend.status(Handle("arq_1", f"{HOST}/requests/arq_1"))
    assert status.approval is None
    assert status.status == task["status"]


@pytest.mark.requirement("PEP-43")
async def test_a_task_that_is_born_approved_needs_no_poll(backend: ArapBackend, service: ScriptedService) -> None:
    service.born = "approved"
    accepted = await backend.submit(backend.submission_body(QUESTION, await requestable(backend)), key="k1")
    assert isinstance(accepted, Accepted)
    assert accepted.status.status == "approved"
    assert accepted.status.approval == service.tasks[accepted.handle.task_id]["approval"]
    assert [got for got in service.received if got.method == "GET" and "/requests/" in got.url] == []


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30.0),
        ("Thu, 30 Apr 2026 20:02:00 GMT", 120.0),
        ("soon", None),
        ("999999999", 86_400.0),
        ("Mon, 99999999999999999999 Jan 2026 00:00:00 GMT", None),
        ("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", None),
    ],
)
async def test_the_wait_that_the_service_asks_for_is_reported(
    backend: ArapBackend, service: ScriptedService, header: str, seconds: float | None
) -> None:
    service.override = lambda got: (
        httpx2.Response(429, headers={"retry-after": header}) if "/requests/" in got.url else None
    )
    with pytest.raises(BackendUnavailable) as caught:
        await backend.status(Handle("arq_1", f"{HOST}/requests/arq_1"))
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(("status", "name"), [(400, "invalid_denial_binding"), (409, "duplicate_request")])
async def test_a_refusal_keeps_the_problem_type(
    backend: ArapBackend, service: ScriptedService, status: int, name: str
) -> None:
    body = backend.submission_body(QUESTION, await requestable(backend))
    service.override = lambda got: service.problem(status, name) if got.url.endswith("/requests") else None
    assert await backend.submit(body, key="k1") == Refused(f"urn:openid:authzen:access-request:error:{name}", status)


@pytest.mark.parametrize("status", [301, 401, 408, 429, 500, 503])
async def test_an_unclear_answer_to_a_submission_is_no_refusal(
    backend: ArapBackend, service: ScriptedService, status: int
) -> None:
    body = backend.submission_body(QUESTION, await requestable(backend))
    service.override = lambda got: httpx2.Response(status) if got.url.endswith("/requests") else None
    with pytest.raises(BackendUnavailable):
        await backend.submit(body, key="k1")


@pytest.mark.requirement("PEP-33")
async def test_a_status_endpoint_on_a_foreign_origin_is_never_polled(
    backend: ArapBackend, service: ScriptedService
) -> None:
    body = backend.submission_body(QUESTION, await requestable(backend))
    task = {"id": "arq_1", "status": "pending", "status_endpoint": "https://evil.example/arq_1"}
    service.override = lambda got: httpx2.Response(202, json={"task": task}) if got.url.endswith("/requests") else None
    assert isinstance(await backend.submit(body, key="k1"), Refused)
    with pytest.raises(BackendUnavailable):
        await backend.status(Handle("arq_1", "https://evil.example/arq_1"))
    assert [got for got in service.received if not got.url.startswith(HOST)] == []


@pytest.mark.parametrize(("status", "problem"), [(404, "unknown_task"), (404, "task_expired"), (410, "task_expired")])
async def test_a_request_that_the_service_forgot_is_gone(
    backend: ArapBackend, service: ScriptedService, status: int, problem: str
) -> None:
    service.override = lambda got: service.problem(status, problem) if "/requests/" in got.url else None
    assert (await backend.status(Handle("arq_1", f"{HOST}/requests/arq_1"))).gone


@pytest.mark.requirement("PEP-47")
@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(404),
        httpx2.Response(404, text="<h1>Not found</h1>", headers={"content-type": "text/html"}),
        httpx2.Response(404, json={"type": "about:blank", "status": 404}),
        httpx2.Response(404, json={"type": "urn:x-arap:problem:forbidden"}),
    ],
)
async def test_a_404_that_says_nothing_of_the_task_determines_nothing(
    backend: ArapBackend, service: ScriptedService, answer: httpx2.Response
) -> None:
    """A proxy or a deployment under way answers so; the request behind it may well be approved."""
    service.override = lambda got: answer if "/requests/" in got.url else None
    with pytest.raises(BackendUnavailable):
        await backend.status(Handle("arq_1", f"{HOST}/requests/arq_1"))


@pytest.mark.requirement("PEP-53")
@pytest.mark.parametrize("named", ["arq_2", "ARQ_1", "", None, 1])
async def test_a_status_of_another_task_is_none_of_this_one(
    backend: ArapBackend, service: ScriptedService, named: object
) -> None:
    approval = {"id": "apr_1", "approved_until": "2030-01-01T00:00:00Z"}
    document = {"task": {"id": named, "status": "approved"}, "result": {"mode": "reevaluate", "approval": approval}}
    service.override = lambda got: httpx2.Response(200, json=document) if "/requests/" in got.url else None
    with pytest.raises(BackendUnavailable):
        await backend.status(Handle("arq_1", f"{HOST}/requests/arq_1"))


async def test_links_to_foreign_origins_are_left_alone(backend: ArapBackend, service: ScriptedService) -> None:
    links = {"cancel": "https://evil.example/cancel", "urn:x-arap:input": "https://evil.example/input"}
    service.override = lambda got: (
        httpx2.Response(200, json={"task": {"id": "arq_1", "status": "pending", "links": links}})
        if "/requests/" in got.url
        else None
    )
    handle = Handle("arq_1", f"{HOST}/requests/arq_1")
    status = await backend.status(handle)
    assert status.handle is None
    assert status.input is None
    await backend.cancel(handle)
    assert [got for got in service.received if not got.url.startswith(HOST)] == []


async def test_a_question_of_the_reviewer_comes_with_its_schema_and_its_answer_goes_back(
    backend: ArapBackend, service: ScriptedService
) -> None:
    url = f"{HOST}/requests/arq_1"

    def script(got: Received) -> httpx2.Response | None:
        if got.url == url:
            task = {"id": "arq_1", "status": "pending", "links": {"urn:x-arap:input": f"{url}/q"}}
            return httpx2.Response(200, json={"task": task})
        if got.url == f"{url}/q":
            return httpx2.Response(200, json={"message": "Which project?", "schema": {"type": "object"}, "version": 3})
        return None

    service.override = script
    status = await backend.status(Handle("arq_1", url))
    assert status.input is not None
    assert (status.input.message, status.input.schema, status.input.version) == (
        "Which project?",
        {"type": "object"},
        3,
    )
    assert status.handle is not None
    await backend.answer(status.handle, 3, {"project": "q4"})
    assert service.received[-1].json() == {"version": 3, "input": {"project": "q4"}}


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
async def test_an_answer_that_the_service_refuses_is_not_taken_for_delivered(
    backend: ArapBackend, service: ScriptedService, status: int
) -> None:
    service.override = lambda got: httpx2.Response(status) if got.url.endswith("/q") else None
    handle = Handle("arq_1", f"{HOST}/requests/arq_1", input_url=f"{HOST}/requests/arq_1/q")
    with pytest.raises(AnswerRefused):
        await backend.answer(handle, 3, {"project": "q4"})


async def test_a_wait_beyond_every_float_is_a_long_one(backend: ArapBackend, service: ScriptedService) -> None:
    context = b'{"decision": false, "context": {"next_action": "retry", "retry_after": 1' + b"0" * 400 + b"}}"
    service.override = lambda got: httpx2.Response(200, content=context) if got.url.endswith("/evaluation") else None
    denial = await backend.evaluate(QUESTION)
    assert isinstance(denial, Denial)
    assert denial.retry_after is not None
    assert denial.retry_after > 10**9


async def test_the_execution_report_goes_to_the_link_of_the_result(
    backend: ArapBackend, service: ScriptedService
) -> None:
    accepted = await backend.submit(backend.submission_body(QUESTION, await requestable(backend)), key="k1")
    assert isinstance(accepted, Accepted)
    service.approve()
    status = await backend.status(accepted.handle)
    assert status.handle is not None
    await backend.report(status.handle, {"disposition": "approved-executed"})
    assert service.reports == [{"disposition": "approved-executed"}]


async def test_cancelling_what_has_ended_is_no_error(backend: ArapBackend, service: ScriptedService) -> None:
    accepted = await backend.submit(backend.submission_body(QUESTION, await requestable(backend)), key="k1")
    assert isinstance(accepted, Accepted)
    service.deny()
    await backend.cancel(accepted.handle)
    assert service.received[-1].url.endswith("/cancel")


async def test_a_callback_is_named_only_when_one_is_configured(
    connect: Callable[..., ArapBackend], service: ScriptedService
) -> None:
    plain, called = connect(), connect(callback_endpoint="https://gate.example/callbacks/arap")
    denial = await requestable(plain)
    await plain.submit(plain.submission_body(QUESTION, denial, callback_state="s"), key="k1")
    await called.submit(called.submission_body(QUESTION, denial, callback_state="s"), key="k2")
    first, second = (sent.json() for sent in service.sent_to("/requests"))
    assert "callback" not in first
    assert second["callback"] == {"endpoint": "https://gate.example/callbacks/arap", "state": "s"}


async def test_a_response_beyond_the_limit_is_no_answer(backend: ArapBackend, service: ScriptedService) -> None:
    service.override = lambda got: (
        httpx2.Response(200, content=b'{"decision": true, "x": "' + b"a" * 2_000_000 + b'"}')
        if got.url.endswith("/evaluation")
        else None
    )
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(about("read"))


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("https://pdp.example", "https://pdp.example/.well-known/authzen-configuration"),
        ("https://pdp.example/tenant1", "https://pdp.example/.well-known/authzen-configuration/tenant1"),
    ],
)
async def test_the_well_known_path_goes_before_the_identifiers_own(identifier: str, expected: str) -> None:
    """AuthZEN 1.0, Obtaining Policy Decision Point Metadata."""
    assert metadata_url(identifier) == expected


async def test_calls_that_wait_for_a_decision_point_share_its_silence(
    connect: Callable[..., ArapBackend], service: ScriptedService
) -> None:
    """One fetch of the metadata is under way, however many wait, and its failure is that of all of them."""
    asked, answered = anyio.Event(), anyio.Event()
    backend = connect(slow=(asked, answered))
    failed: list[int] = []

    async def evaluate(number: int) -> None:
        with pytest.raises(DecisionPointUnavailable):
            await backend.evaluate(QUESTION)
        failed.append(number)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(evaluate, number)
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            answered.set()
    assert sorted(failed) == list(range(8))
    assert len(service.received) == 1
    assert isinstance(await backend.evaluate(about("read")), Permit)


async def test_a_call_that_is_given_up_while_it_fetches_leaves_the_fetch_to_another(
    connect: Callable[..., ArapBackend], service: ScriptedService
) -> None:
    asked, answered = anyio.Event(), anyio.Event()
    backend = connect(slow=(asked, answered))
    decided: list[object] = []

    async def evaluate() -> None:
        decided.append(await backend.evaluate(about("read")))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            given_up = anyio.CancelScope()

            async def first() -> None:
                with given_up:
                    await evaluate()

            group.start_soon(first)
            await asked.wait()
            group.start_soon(evaluate)
            await anyio.wait_all_tasks_blocked()
            given_up.cancel()
    assert [type(decision) for decision in decided] == [Permit]
    assert len(service.sent_to("/.well-known/authzen-configuration")) == 1


async def test_a_token_endpoint_that_sends_too_much_or_nothing_is_no_decision(
    connect: Callable[..., ArapBackend], service: ScriptedService
) -> None:
    backend = connect(client_id="gate", client_secret="s3cret")
    service.override = lambda got: (
        httpx2.Response(200, content=b" " * 1_100_000 + b"{}") if got.url.endswith("/issuer/token") else None
    )
    with pytest.raises(DecisionPointUnavailable):
        await backend.evaluate(QUESTION)


class _Held(httpx2.AsyncBaseTransport):
    """Holds back the first answer, which is a failure, until it is let go."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, asked: anyio.Event, answered: anyio.Event) -> None:
        self._inner = inner
        self._asked = asked
        self._answered = answered

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._asked.is_set():
            return await self._inner.handle_async_request(request)
        self._asked.set()
        await self._answered.wait()
        await self._inner.handle_async_request(request)
        return httpx2.Response(503)
