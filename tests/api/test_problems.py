"""Errors on the wire: problem documents with the right names, text where AuthZEN wants it, and no leak."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI, HTTPException

from arap_service.api.problems import install_problems, problem_responses
from arap_service.domain.errors import (
    DuplicateRequest,
    ExpiredDenial,
    InvalidDenialBinding,
    InvalidRequest,
    InvalidTaskState,
    NotRequestable,
    RateLimited,
    TaskExpired,
    UnknownTask,
)
from arap_service.store.database import StoreUnavailable

SECRET = "canary-91c2"
FAULTS: dict[str, Exception] = {
    "not-requestable": NotRequestable(),
    "expired-denial": ExpiredDenial(),
    "invalid-binding": InvalidDenialBinding(),
    "duplicate": DuplicateRequest(),
    "unknown-task": UnknownTask(),
    "task-expired": TaskExpired(),
    "task-state": InvalidTaskState(current="approved", version=2),
    "pointer": InvalidRequest("A member is missing.", pointer="/denial"),
    "rate": RateLimited(retry_after=7),
    "store": StoreUnavailable("busy", SECRET),
    "bug": RuntimeError(SECRET),
    "framework": HTTPException(409, SECRET, headers={"X-Reason": "r"}),
    "unparsable": HTTPException(400, SECRET),
}


def application(base: str = "") -> FastAPI:
    app = FastAPI(max_body_size=1000)

    @app.get(base + "/faults/{name}")
    async def fault(name: str, number: int = 0) -> None:
        raise FAULTS[name]

    @app.get(base + "/access/v1/evaluation/{name}")
    async def evaluation_fault(name: str, number: int = 0) -> None:
        raise FAULTS[name]

    install_problems(app, base_path=base)
    return app


def client_of(app: FastAPI) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="https://testserver")


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(application()) as opened:
        yield opened


PROFILE = "urn:openid:authzen:access-request:error:"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [
        ("not-requestable", "not_requestable", 400),
        ("expired-denial", "expired_denial", 410),
        ("invalid-binding", "invalid_denial_binding", 400),
        ("duplicate", "duplicate_request", 409),
        ("unknown-task", "unknown_task", 404),
        ("task-expired", "task_expired", 410),
        ("task-state", "invalid_task_state", 409),
    ],
)
@pytest.mark.requirement("ARS-03")
async def test_the_profiles_problem_types(client: httpx2.AsyncClient, name: str, kind: str, status: int) -> None:
    answer = await client.get(f"/faults/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["type"], answer.json()["status"]) == (PROFILE + kind, status)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.anyio
async def test_a_problem_shows_what_its_error_carries(client: httpx2.AsyncClient) -> None:
    state = await client.get("/faults/task-state")
    assert state.json() == {
        "type": PROFILE + "invalid_task_state",
        "title": "The task is in another state",
        "status": 409,
        "current_status": "approved",
        "version": 2,
    }
    pointer = await client.get("/faults/pointer")
    assert pointer.json() == {
        "type": "urn:x-arap:problem:invalid-request",
        "title": "The request is not valid",
        "status": 400,
        "detail": "A member is missing.",
        "pointer": "/denial",
    }
    assert (await client.get("/faults/rate")).headers["retry-after"] == "7"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/faults/store", 503, "about:blank"),
        ("/faults/bug", 500, "about:blank"),
        ("/faults/framework", 409, "about:blank"),
        ("/faults/unparsable", 400, "urn:x-arap:problem:invalid-request"),
        ("/faults/pointer?number=canary-91c2", 400, "urn:x-arap:problem:invalid-request"),
        ("/nowhere/canary-91c2", 404, "about:blank"),
    ],
)
@pytest.mark.requirement("ARS-04", "ARS-05")
async def test_faults_that_are_not_ours_become_problems_without_their_text(
    client: httpx2.AsyncClient, path: str, status: int, kind: str
) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["type"], answer.json()["status"]) == (status, kind, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert SECRET not in answer.text
    assert SECRET not in str(answer.headers)


@pytest.mark.anyio
async def test_headers_of_the_framework_stay(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/faults/framework")).headers["x-reason"] == "r"
    refused = await client.post("/faults/bug")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert (await client.get("/faults/store")).headers["retry-after"] == "1"


@pytest.mark.anyio
@pytest.mark.parametrize("base", ["", "/tenant1"])
@pytest.mark.requirement("PDP-11")
async def test_paths_of_the_authorization_api_answer_in_text(base: str) -> None:
    async with client_of(application(base)) as client:
        for name, status, text in (
            ("pointer", 400, "A member is missing."),
            ("not-requestable", 400, "The denial is not requestable"),
            ("store", 503, "Service Unavailable"),
            ("bug", 500, "Internal Server Error"),
        ):
            answer = await client.get(f"{base}/access/v1/evaluation/{name}")
            assert (answer.status_code, answer.text) == (status, text)
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["cache-control"] == "no-store"
        assert (await client.get(f"{base}/faults/bug")).headers["content-type"] == "application/problem+json"


def test_errors_are_declared_by_status_for_the_description() -> None:
    declared = problem_responses(NotRequestable, InvalidDenialBinding, UnknownTask)
    assert set(declared) == {400, 404}
    schema = declared[400]["content"]["application/problem+json"]["schema"]
    assert schema["properties"]["type"]["enum"] == [NotRequestable.urn, InvalidDenialBinding.urn]
    assert schema["properties"]["status"]["const"] == 400
