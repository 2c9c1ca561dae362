"""What stands before and after every page: origin, form token, headers; design.md section 7.

The routes are read from the application itself, so that a new page cannot escape these tests.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Message
from structlog.testing import capture_logs

from arap_service.context import Context
from arap_service.store.database import Database, ReadSession
from arap_service.store.migrate import upgrade
from arap_service.store.tables import Row
from arap_service.web.edge import DeskRoute
from arap_service.web.security import PAGE_HEADERS
from tests.databases import Kind
from tests.service import IDENTIFIER, app_for, bearer, settings_for
from tests.web.desk import PASSWORD, SAME_SITE, Browser, add_person, commit_request, form_token
from tests.web.policy import POLICY

pytestmark = pytest.mark.anyio
CROSS_SITE = [
    {},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "https://sibling.approvals.example"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
]


@pytest.fixture
def engine_kind() -> Kind:
    """One engine: what is tested here happens before the database is asked."""
    return "sqlite"


def routes(app: FastAPI, method: str) -> Iterator[str]:
    """The paths of the desk that take `method`, with something plausible in the place of each parameter."""
    for route in desk_routes(app.routes):
        if method in (route.methods or ()):
            yield re.sub(r"\{[^}]+\}", "x", route.path)


def desk_routes(found: Sequence[BaseRoute]) -> Iterator[APIRoute]:
    """The routes of the desk, those of included routers too."""
    for route in found:
        included = getattr(route, "original_router", None)
        if isinstance(included, APIRouter):
            yield from desk_routes(included.routes)
        elif isinstance(route, APIRoute) and _is_desk(route.path):
            yield route


def _is_desk(path: str) -> bool:
    return path in {"/", "/logout"} or path.startswith(("/desk", "/login"))


def everything(context: Context) -> dict[str, list[str]]:
    """All rows of all tables; the use of a session is a row too."""

    def work(session: ReadSession) -> dict[str, list[str]]:
        return {
            table.name: sorted(map(repr, session.execute(table.select()).all())) for table in Row.metadata.sorted_tables
        }

    return context.database.read_now(work)


async def test_every_page_of_the_desk_goes_through_the_checks(app: FastAPI) -> None:
    unchecked = {route.path for route in desk_routes(app.routes) if not isinstance(route, DeskRoute)}
    assert unchecked == {"/desk/static/{version}/{name}"}
    said = {f"/desk/requests/x/{form}" for form in ("decision", "question", "comment", "claim", "release", "rule")}
    own = {f"/desk/{form}" for form in ("account/notifications", "account/sessions", "again", "again/provider")}
    own |= {"/desk/account/password"}
    own |= {"/desk/absence", "/desk/absence/x/end", "/desk/my/x/answer", "/desk/my/x/withdrawal"}
    run = {"/desk/deliveries/x/redelivery", "/desk/notices/x/again", "/desk/receivers/enabling"}
    assert {
        "/login",
        "/login/provider",
        "/logout",
        "/desk/approvals/x/revocation",
        "/desk/forms/x",
        "/desk/reviews/x",
        "/desk/rules/x/x",
        "/desk/simulator/end",
        "/desk/several",
        "/desk/several/decision",
        "/desk/simulator/orders",
        *said,
        *own,
        *run,
    } == set(routes(app, "POST"))


@pytest.mark.parametrize("headers", CROSS_SITE, ids=str)
async def test_every_form_refuses_what_another_site_sends(
    grace: Browser, app: FastAPI, context: Context, headers: dict[str, str]
) -> None:
    seen = await grace.get(f"/desk/requests/{await commit_request(app, context)}")
    before = everything(context)
    for path in routes(app, "POST"):
        answer = await grace.post(path, {"form_token": form_token(seen)}, headers=headers)
        assert answer.status_code == 403, path
        assert "Nothing was changed" in answer.text
    assert everything(context) == before


async def left_halfway(app: FastAPI, path: str, headers: dict[str, str]) -> int | None:
    """The status of what is answered to somebody who goes away in the middle of a body; None for no answer."""
    coming: list[Message] = [
        {"type": "http.request", "body": b"form_token=abc", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop(0) if len(coming) > 1 else coming[0]

    async def send(message: Message) -> None:
        sent.append(message)

    head = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    about = {"method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": head}
    await app({"type": "http", "http_version": "1.1", "scheme": "https", **about}, receive, send)
    return next((message["status"] for message in sent if message["type"] == "http.response.start"), None)


async def test_going_away_in_the_middle_of_a_form_is_no_fault_of_the_service(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    """Anybody can do that as often as he likes, and errors are what operators are woken up for."""
    form = SAME_SITE | {"Content-Type": "application/x-www-form-urlencoded"}
    form |= {"Cookie": "; ".join(f"{name}={value}" for name, value in grace.client.cookies.items())}
    json_body = {"Content-Type": "application/json", **bearer(context, "resolver")}
    paths = [(path, form) for path in (*routes(app, "POST"), "/issuer/token", "/login/backchannel")]
    with capture_logs() as logged:
        answers = {
            path: await left_halfway(app, path, headers)
            for path, headers in (*paths, ("/resolver/v1/requests/x/decisions", json_body))
        }
    assert {path: status for path, status in answers.items() if status is None or status >= 500} == {}
    assert [entry["event"] for entry in logged if entry["log_level"] == "error"] == []


@pytest.mark.parametrize("token", [None, "", "0" * 64, "\u202e"])
async def test_every_form_refuses_a_missing_or_wrong_token(
    grace: Browser, app: FastAPI, context: Context, token: str | None
) -> None:
    task_id = await commit_request(app, context)
    before = everything(context)
    fields = {"decision": "approve", "version": "1"} | ({} if token is None else {"form_token": token})
    for path in (*routes(app, "POST"), f"/desk/requests/{task_id}/decision"):
        answer = await grace.post(path, fields)
        assert answer.status_code == 403, path
        assert "no longer valid" in answer.text
    assert everything(context) == before


async def test_a_token_of_another_session_is_refused(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    seen = await linus.get(f"/desk/requests/{task_id}")
    fields = {"form_token": form_token(seen), "decision": "approve", "version": "1"}
    assert (await grace.post(f"/desk/requests/{task_id}/decision", fields)).status_code == 403


async def test_a_form_of_an_ended_session_is_refused(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    await grace.submit("/logout", seen=seen)
    answer = await grace.submit(f"/desk/requests/{task_id}/decision", seen=seen, decision="approve", version="1")
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("text/plain", b"form_token=x", 415),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 415),
        ("application/x-www-form-urlencoded", b"form_token=x&form_token=x", 400),
        ("application/x-www-form-urlencoded", b"&".join(b"a%d=1" % n for n in range(100)), 400),
        ("application/x-www-form-urlencoded", b"\xff\xfe=%FF%00", 403),
    ],
)
async def test_a_body_that_is_no_form_of_ours_is_refused(
    grace: Browser, app: FastAPI, content_type: str, body: bytes, status: int
) -> None:
    for path in routes(app, "POST"):
        answer = await grace.client.post(path, content=body, headers={**SAME_SITE, "Content-Type": content_type})
        assert answer.status_code == status, path


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_reading_changes_nothing(grace: Browser, app: FastAPI, context: Context, method: str) -> None:
    task_id = await commit_request(app, context)
    before = everything(context)
    paths = [*routes(app, method), f"/desk/requests/{task_id}", f"/desk/live/requests/{task_id}?version=1"]
    for path in paths:
        answer = await grace.client.request(method, path)
        assert answer.status_code < 500, path
    assert everything(context) == before


async def test_every_answer_carries_the_closed_policy(grace: Browser, browser: Browser, app: FastAPI) -> None:
    answers = [await reader.get(path) for reader in (grace, browser) for path in routes(app, "GET")]
    answers += [await grace.post(path, {}) for path in routes(app, "POST")]
    answers += [await grace.post(path, {}, headers={}) for path in routes(app, "POST")]
    assert len(answers) > 20
    for answer in answers:
        assert {name: answer.headers.get(name) for name in PAGE_HEADERS} == dict(PAGE_HEADERS), answer.url
        assert "strict-origin" not in answer.headers["referrer-policy"]


async def test_files_of_the_page_are_cached_by_version_and_unknown_ones_are_not_there(browser: Browser) -> None:
    linked = re.findall(r'(?:href|src)="(/desk/static/[^"]+)"', (await browser.get("/login")).text)
    assert len(linked) >= 5
    for path in linked:
        answer = await browser.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
    for path in ("/desk/static/0/desk.css", "/desk/static/0/..%2f..%2fpyproject.toml", "/desk/static/0/desk.py"):
        assert (await browser.get(path)).status_code == 404


async def test_an_installation_that_checks_no_callers_says_so(context: Context, tmp_path: Path) -> None:
    settings = settings_for(
        tmp_path, database=str(context.settings.database), policy=POLICY, authentication="none",
        insecure_loopback=True, identifier="http://127.0.0.1:8400",
    )  # fmt: skip
    browser = Browser(app_for(replace(context, settings=settings)))
    assert "does not check who calls it" in (await browser.get("/login")).text
    await browser.client.aclose()


async def test_an_installation_with_a_real_issuer_carries_no_warning(context: Context, tmp_path: Path) -> None:
    issuers = [{"issuer": "https://id.example", "jwks_uri": "https://id.example/jwks.json"}]
    settings = settings_for(
        tmp_path, database=str(context.settings.database), policy=POLICY, builtin_issuer={}, issuers=issuers
    )
    browser = Browser(app_for(replace(context, settings=settings)))
    assert "real decisions" not in (await browser.get("/login")).text
    await browser.client.aclose()


async def test_the_desk_works_below_a_path(context: Context, tmp_path: Path) -> None:
    settings = settings_for(
        tmp_path, database=str(context.settings.database), policy=POLICY, identifier=IDENTIFIER + "/base"
    )
    browser = Browser(app_for(replace(context, settings=settings)))
    sent_on = await browser.get("/base/desk?show=all")
    assert sent_on.headers["location"] == "/base/login?next=%2Fdesk%3Fshow%3Dall"
    page = await browser.get(sent_on.headers["location"])
    entered = await browser.submit("/base/login", seen=page, name="grace", password=PASSWORD, next="/desk?show=all")
    assert entered.headers["location"] == "/base/desk?show=all"
    desk = await browser.get("/base/desk?show=all")
    links = re.findall(r'(?:href|src|action|hx-get)="([^"]+)"', desk.text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("/base/", "#"))] == []
    await browser.client.aclose()


async def test_a_database_that_is_locked_is_said_in_words(tmp_path: Path, context: Context) -> None:
    """Another process holds the write lock; reading goes on, writing says so and changes nothing."""
    database = f"sqlite:///{tmp_path / 'locked.db'}"
    upgrade(database)
    quick = Database.open(database, busy_seconds=0.01)
    locked = replace(context, database=quick)
    add_person(locked, "zoe", name="Zoe")
    browser = Browser(app_for(locked))
    page = await browser.get("/login")
    with closing(sqlite3.connect(tmp_path / "locked.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = await browser.submit("/login", seen=page, name="zoe", password=PASSWORD)
    assert answer.status_code == 503
    assert "cannot reach its database" in answer.text
    assert (await browser.submit("/login", seen=page, name="zoe", password=PASSWORD)).status_code == 303
    await browser.client.aclose()
    quick.close()


async def test_the_development_set_up_says_so_on_every_page(browser: Browser, grace: Browser) -> None:
    for page in (await browser.get("/login"), await grace.get("/desk"), await grace.get("/desk/none")):
        assert "Do not use it for real decisions" in page.text
