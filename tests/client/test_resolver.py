"""The client library, synchronous and asynchronous, over real HTTP."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
import stamina

from arap_service import requests
from arap_service.client import (
    AsyncResolver,
    ClientCredentials,
    Conflict,
    NotFound,
    Resolver,
    ResolverError,
    TokenRefused,
    Unavailable,
)
from tests.clock import FakeClock
from tests.live import Live, serving
from tests.peers import POLICY, REQUEST, question
from tests.requests.terms import TERMS
from tests.requests.world import GATE, World, person
from tests.requests.world import question as question_of
from tests.service import SECRET
from tests.web.desk import add_person

URGENT = {"emergency": True, "business_justification": "The vault is on fire."}
REPORT = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}


@pytest.fixture(autouse=True)
def _impatient() -> Any:
    with stamina.set_testing(True, attempts=3, cap=True):
        yield


@pytest.fixture
async def live(service_url: str, tmp_path: Path) -> AsyncIterator[Live]:
    async with serving(tmp_path, database=service_url, policy=POLICY, background=False) as opened:
        yield opened


async def requested(live: Live, *amounts: int) -> list[str]:
    """Ids of new requests."""
    ids = []
    async with httpx2.AsyncClient(base_url=live.url, auth=live.credentials("gate")) as gate:
        for amount in amounts:
            asked = question(amount)
            context = (await gate.post("/access/v1/evaluation", json=asked)).json()["context"]
            offer = context["access_request"]
            denial = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
            ids.append((await gate.post(REQUEST, json=asked | {"denial": denial})).json()["task"]["id"])
    return ids


@pytest.mark.anyio
async def test_resolver_works_off_its_queue_in_a_few_lines(live: Live) -> None:
    small, large = await requested(live, 10, 99_000)

    def resolve() -> dict[str, str]:
        with Resolver(live.url, auth=live.credentials("resolver")) as resolver:
            for waiting in resolver.queue(mine=True):
                request = resolver.get(waiting["id"])
                amount = int(next(each["text"] for each in request["arguments"] if each["pointer"] == "/amount"))
                decision = "approve" if amount < 1000 else "deny"
                resolver.decide(request["id"], decision, version=request["version"], reason="by amount")  # type: ignore[arg-type]
            return {each["id"]: each["status"] for each in resolver.queue()}

    assert await anyio.to_thread.run_sync(resolve) == {small: "approved", large: "denied"}


@pytest.mark.anyio
async def test_asynchronous_resolver_does_the_same_and_reports_faults_by_kind(live: Live) -> None:
    [request_id] = await requested(live, 10)
    async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:
        assert [each["id"] async for each in resolver.queue(status="pending", subject="alice@example.com")] == [
            request_id
        ]
        request = await resolver.get(request_id)
        decided = await resolver.decide(
            request_id, "approve", version=request["version"], approved_until="2099-01-01T00:00:00Z"
        )
        assert decided["status"] == "approved"
        with pytest.raises(Conflict) as conflict:
            await resolver.decide(request_id, "deny", version=request["version"], reason="no")
        assert conflict.value.problem["current_status"] == "approved"
        revoked = await resolver.revoke(decided["approval"]["id"], reason="no")
        assert revoked["approval"]["status"] == "revoked"
        with pytest.raises(NotFound) as missing:
            await resolver.get("task_/../x")
        assert missing.value.status == 404
    async with AsyncResolver(live.url, auth=live.credentials("gate")) as resolver:
        with pytest.raises(ResolverError) as forbidden:
            [each async for each in resolver.queue()]
        assert (forbidden.value.status, forbidden.value.type) == (403, "urn:x-arap:problem:forbidden")


@pytest.mark.anyio
async def test_queue_goes_over_all_pages(live: Live) -> None:
    ids = await requested(live, *range(3))

    def paged(request: httpx2.Request) -> httpx2.Response:
        cursor = request.url.params.get("cursor")
        body = {"items": [{"id": cursor or "first"}], "next_cursor": {None: "second", "second": "third"}.get(cursor)}
        return httpx2.Response(200, json=body)

    with Resolver("https://x.example", auth=httpx2.Auth(), transport=httpx2.MockTransport(paged)) as resolver:
        assert [each["id"] for each in resolver.queue(mine=False)] == ["first", "second", "third"]
    async with AsyncResolver("https://x.example", auth=httpx2.Auth(), transport=httpx2.MockTransport(paged)) as other:
        assert [each["id"] async for each in other.queue()] == ["first", "second", "third"]
    assert len(ids) == 3


def test_lost_answer_is_asked_for_again_under_the_same_key() -> None:
    keys: list[str | None] = []

    def losing(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers.get("idempotency-key"))
        if len(keys) == 1:
            raise httpx2.ReadError("lost")
        return httpx2.Response(503) if len(keys) == 2 else httpx2.Response(200, json={"status": "approved"})

    with Resolver("https://x.example", auth=httpx2.Auth(), transport=httpx2.MockTransport(losing)) as resolver:
        assert resolver.decide("task_1", "approve", version=1) == {"status": "approved"}
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


@pytest.mark.anyio
async def test_what_a_decision_carries_goes_out_as_the_api_has_it() -> None:
    bodies: list[Any] = []

    def taking(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(200, json={})

    given: list[dict[str, Any]] = [
        {"decision": "approve", "may_vary": ["/context/x"]},
        {"decision": "approve", "may_vary": []},
        {"decision": "deny", "proposed_arguments": {"amount": 1}, "item": 2},
    ]
    transport = httpx2.MockTransport(taking)
    for each in given:
        with Resolver("https://x.example", auth=httpx2.Auth(), transport=transport) as resolver:
            resolver.decide("task_1", version=1, **each)
        async with AsyncResolver("https://x.example", auth=httpx2.Auth(), transport=transport) as other:
            await other.decide("task_1", version=1, **each)
    assert bodies[::2] == bodies[1::2]
    assert bodies[::2] == [
        {"decision": "approve", "version": 1, "scope": {"may_vary": ["/context/x"]}},
        {"decision": "approve", "version": 1, "scope": {"may_vary": []}},
        {"decision": "deny", "version": 1, "item": 2, "proposed_arguments": {"amount": 1}},
    ]


def test_taking_back_is_not_repeated_blindly() -> None:
    """Revoking has no key; whether it happened can be read."""
    count = 0

    def failing(_request: httpx2.Request) -> httpx2.Response:
        nonlocal count
        count += 1
        return httpx2.Response(503)

    with (
        Resolver("https://x.example", auth=httpx2.Auth(), transport=httpx2.MockTransport(failing)) as resolver,
        pytest.raises(Unavailable),
    ):
        resolver.revoke("appr_1", reason="no")
    assert count == 1


def test_taking_back_says_why() -> None:
    """The service takes no approval back without a reason, so nobody can leave it out."""
    said: list[Any] = []

    def answering(request: httpx2.Request) -> httpx2.Response:
        said.append(json.loads(request.content))
        return httpx2.Response(200, json={"status": "approved"})

    with Resolver("https://x.example", auth=httpx2.Auth(), transport=httpx2.MockTransport(answering)) as resolver:
        resolver.revoke("appr_1", reason="no")
        with pytest.raises(TypeError):
            resolver.revoke("appr_1")  # type: ignore[call-arg]
    assert said == [{"reason": "no"}]


def test_redirect_is_not_followed_with_credentials() -> None:
    seen: list[str] = []

    def redirecting(request: httpx2.Request) -> httpx2.Response:
        seen.append(str(request.url))
        return httpx2.Response(307, headers={"Location": "https://evil.example/"})

    with (
        Resolver("https://x.example", auth=httpx2.Auth(), transport=httpx2.MockTransport(redirecting)) as resolver,
        pytest.raises(ResolverError),
    ):
        resolver.get("task_1")
    assert seen == ["https://x.example/resolver/v1/requests/task_1"]


class TokenServer:
    """A token endpoint and a resource that accepts the newest token only."""

    def __init__(self) -> None:
        self.issued = 0
        self.requests: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/token":
            self.issued += 1
            assert request.headers["authorization"].startswith("Basic ")
            return httpx2.Response(200, json={"access_token": f"t{self.issued}", "expires_in": 100})
        self.requests.append(request.headers["authorization"])
        return httpx2.Response(200 if self.requests[-1] == f"Bearer t{self.issued}" else 401, json={})


def test_token_is_kept_renewed_in_time_and_replaced_when_it_is_not_accepted_any_more() -> None:
    server, clock = TokenServer(), [0.0]
    source = ClientCredentials(
        "https://x.example/token", client_id="a b", client_secret="c:d", scope="s", now=lambda: clock[0]
    )
    assert "c:d" not in repr(source)
    with httpx2.Client(auth=source, transport=httpx2.MockTransport(server)) as client:
        for _ in range(3):
            assert client.get("https://x.example/a").status_code == 200
        assert server.issued == 1
        clock[0] = 71
        assert client.get("https://x.example/a").status_code == 200
        assert server.issued == 2
        server.issued = 7
        assert client.get("https://x.example/a").status_code == 200
        assert server.requests[-2:] == ["Bearer t2", "Bearer t8"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx2.Response(401, json={"error": "invalid_client"}), "invalid_client"),
        (httpx2.Response(200, text="hello"), "not_json"),
        (httpx2.Response(200, json={"token": "x"}), "no_token"),
        (httpx2.Response(500, json=[]), "no_token"),
        (httpx2.Response(200, json={"access_token": ""}), "no_token"),
        (httpx2.Response(200, json={"access_token": "a\r\nX-Admin: 1"}), "no_token"),
        (httpx2.Response(200, json={"access_token": "töken"}), "no_token"),
        (httpx2.Response(200, text="[" * 200_000), "not_json"),
    ],
)
def test_token_endpoint_that_gives_none_is_named_by_its_error(answer: httpx2.Response, error: str) -> None:
    source = ClientCredentials("https://x.example/token", client_id="a", client_secret="b")
    transport = httpx2.MockTransport(lambda _request: answer)
    with httpx2.Client(auth=source, transport=transport) as client, pytest.raises(TokenRefused) as caught:
        client.get("https://x.example/a")
    assert (caught.value.status, caught.value.error) == (answer.status_code, error)
    assert "b" not in str(caught.value).split()


@pytest.mark.parametrize(
    ("lifetime", "asked"), [("1" + "0" * 400, 2), ("NaN", 2), ("-1", 3), ('"soon"', 2), ("null", 2)]
)
def test_lifetime_that_no_clock_can_hold_is_no_trouble(lifetime: str, asked: int) -> None:
    """A token without a usable lifetime is kept for a while; one that has ended is asked for each time."""
    requests: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request.url.path)
        return httpx2.Response(200, text=f'{{"access_token": "t", "expires_in": {lifetime}}}')

    source = ClientCredentials("https://x.example/token", client_id="a", client_secret="b", now=lambda: 0.0)
    with httpx2.Client(auth=source, transport=httpx2.MockTransport(answer)) as client:
        for _ in range(2):
            assert client.get("https://x.example/a").status_code == 200
    assert requests.count("/token") == asked - 1
    assert requests.count("/a") == 2


@pytest.mark.anyio
async def test_wrong_secret_is_refused_by_the_built_in_issuer(live: Live) -> None:
    wrong = ClientCredentials(f"{live.url}/issuer/token", client_id="resolver", client_secret=SECRET + "!")
    async with AsyncResolver(live.url, auth=wrong) as resolver:
        with pytest.raises(TokenRefused) as caught:
            await resolver.get("task_x")
    assert caught.value.error == "invalid_client"


@pytest.mark.anyio
async def test_both_clients_ask_comment_and_say_that_they_work_on_a_request(live: Live) -> None:
    first, second = await requested(live, 1, 2)
    schema = {"type": "object", "properties": {"ticket": {"type": "string"}}}

    def talk() -> tuple[Any, ...]:
        with Resolver(live.url, auth=live.credentials("resolver")) as resolver:
            claimed = resolver.claim(first)["claimed_by"]
            commented = resolver.comment(first, "Looks odd")["comments"]
            asked = resolver.ask(first, "Which ticket?", schema=schema)["questions"]
            return claimed, commented[0]["text"], asked[0]["message"], resolver.release(first)["claimed_by"]

    assert await anyio.to_thread.run_sync(talk) == ("resolver", "Looks odd", "Which ticket?", None)
    async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:
        assert (await resolver.claim(second))["claimed_by"] == "resolver"
        assert (await resolver.comment(second, "Looks odd"))["comments"][0]["by"] == "resolver"
        assert (await resolver.ask(second, "Which ticket?"))["questions"][0]["answered_at"] is None
        assert (await resolver.release(second))["claimed_by"] is None
        with pytest.raises(Conflict):
            await resolver.ask(second, "And why?")


@pytest.mark.anyio
async def test_standing_rules_and_reviews_are_worked_on_with_either_client(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Proposed by whom a step names, confirmed and ended by an administrator; a review closed by one."""
    terms = re.sub(r"groups: \[treasury\]", "groups: [treasury], resolvers: [resolver]", TERMS)
    async with serving(tmp_path, database=service_url, policy=terms, background=False) as live:
        ctx = live.context
        add_person(ctx, "ann", name="Ann", groups=("treasury", "legal"))
        world = World(ctx, clock)
        ann, gate = person("ann"), replace(GATE, iss=f"{live.url}/issuer")
        plain = str((await world.submit(await world.body(question_of("plain"), caller=gate), caller=gate)).task["id"])
        await requests.decide(ctx, ann, plain, decision="approve", version=1)
        urgent = await world.body(question_of("unlock"), caller=gate, requested_access=URGENT)
        emergency = str((await world.submit(urgent, caller=gate)).task["id"])
        found = await requests.decide(ctx, ann, emergency, decision="approve", version=1)
        assert found.approval is not None
        await requests.report_on_approval(ctx, gate, found.approval.id, REPORT)

        async with (
            AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver,
            AsyncResolver(live.url, auth=live.credentials("operator")) as operator,
        ):
            rule = await resolver.propose_rule(plain, days=2)
            assert (rule["status"], rule["days"]) == ("proposed", 2)
            assert (await operator.confirm_rule(rule["id"]))["status"] == "active"
            assert [each["id"] async for each in operator.standing_rules(status="active")] == [rule["id"]]
            with pytest.raises(Conflict):
                await operator.confirm_rule(rule["id"])
            [review] = [each async for each in operator.emergency_reviews(state="open")]
            closed = await operator.close_review(review["approval_id"], "justified", note="It was on fire.")
            assert closed["outcome"] == "justified"

        def resolve() -> tuple[str, list[Any], list[Any]]:
            with Resolver(live.url, auth=live.credentials("operator")) as operator:
                ended = operator.end_rule(rule["id"])["status"]
                with pytest.raises(Conflict):
                    operator.close_review(review["approval_id"], "unjustified", note="Twice.")
                return ended, list(operator.standing_rules(status="active")), list(operator.emergency_reviews())

        ended, active, reviews = await anyio.to_thread.run_sync(resolve)
        assert (ended, active) == ("ended", [])
        assert [each["outcome"] for each in reviews] == ["justified"]
