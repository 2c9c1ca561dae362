"""Logging in and out with local accounts; design.md sections 3 and 7, the session rules are the project's own."""

from collections.abc import Callable

import argon2
import pytest
from fastapi import FastAPI
from sqlmodel import select

from arap_service.audit import Verified, entries_of, verify_chain
from arap_service.context import Context
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, Person, WebSession
from arap_service.web import sessions
from arap_service.web.login import LOGIN_CHAIN, TOO_MANY, WRONG
from arap_service.web.passwords import is_outdated, is_password
from arap_service.web.security import form_token as token_of
from arap_service.web.throttle import PER_PAIR
from tests.clock import FakeClock
from tests.web.desk import PASSWORD, SAME_SITE, Browser, cookie_of, form_token

pytestmark = pytest.mark.anyio


def stored_sessions(context: Context) -> list[WebSession]:
    return list(context.database.read_now(lambda session: session.exec(select(WebSession)).all()))


def change_account(context: Context, login: str, change: Callable[[Account, Person], None]) -> None:
    def work(session: WriteSession) -> None:
        account = session.get_one(Account, login)
        change(account, session.get_one(Person, account.person_id))

    context.database.write_now(work)


async def test_the_right_password_opens_the_desk(browser: Browser, context: Context) -> None:
    answer = await browser.log_in("grace")
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk")
    cookie = cookie_of(answer, "__Host-arap-desk")
    assert cookie is not None
    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert flags == {"path=/", "secure", "httponly", "samesite=lax"}
    page = await browser.get("/login")
    assert (page.status_code, page.headers["location"]) == (303, "/desk")


async def test_a_copy_of_the_database_opens_no_session(browser: Browser, context: Context) -> None:
    await browser.log_in("grace")
    secret = browser.client.cookies["__Host-arap-desk"]
    [row] = stored_sessions(context)
    assert secret not in (row.digest, row.csrf)
    assert row.digest == sessions.digest(secret)
    browser.client.cookies.set("__Host-arap-desk", row.digest, domain="approvals.example")
    assert (await browser.get("/desk")).status_code == 303


async def test_unknown_account_and_wrong_password_look_alike(browser: Browser, context: Context) -> None:
    wrong = await browser.log_in("grace", password="a wrong password!")
    unknown = await browser.log_in("nobody", password="a wrong password!")
    change_account(context, "linus", lambda account, _: setattr(account, "active", False))
    change_account(context, "olga", lambda _, person: setattr(person, "active", False))
    locked = [await browser.log_in("linus"), await browser.log_in("olga")]
    for answer, name in zip((wrong, unknown, *locked), ("grace", "nobody", "linus", "olga"), strict=True):
        assert answer.status_code == 403
        assert WRONG in answer.text
        assert answer.text.replace(f'value="{name}"', "") == wrong.text.replace('value="grace"', "")
        assert cookie_of(answer, "__Host-arap-desk") is None
    assert stored_sessions(context) == []


async def test_the_name_of_an_account_is_not_case_sensitive(browser: Browser) -> None:
    assert (await browser.log_in(" Grace ")).status_code == 303


async def test_attempts_are_limited_and_success_does_not_follow(browser: Browser) -> None:
    for _ in range(PER_PAIR.amount):
        assert (await browser.log_in("grace", password="a wrong password!")).status_code == 403
    answer = await browser.log_in("grace")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert TOO_MANY in answer.text
    assert (await browser.log_in("linus")).status_code == 303


async def test_success_forgives_earlier_failures(browser: Browser, app: FastAPI) -> None:
    for _ in range(2):
        for _ in range(PER_PAIR.amount - 1):
            await browser.log_in("grace", password="a wrong password!")
        fresh = Browser(app)
        assert (await fresh.log_in("grace")).status_code == 303
        await fresh.client.aclose()


async def test_logging_in_changes_the_session_and_ends_the_one_before(app: FastAPI, context: Context) -> None:
    """Session fixation: whatever cookie the browser brought along is worthless afterwards."""
    browser = Browser(app)
    await browser.log_in("grace")
    first = browser.client.cookies["__Host-arap-desk"]
    secret = "chosen-by-somebody-else"
    other = Browser(app)
    other.client.cookies.set("__Host-arap-desk", secret, domain="approvals.example")
    await other.log_in("grace")
    assert other.client.cookies["__Host-arap-desk"] not in {first, secret}
    assert {row.digest for row in stored_sessions(context)} == {
        sessions.digest(first),
        sessions.digest(other.client.cookies["__Host-arap-desk"]),
    }
    for used in (browser, other):
        await used.client.aclose()


async def test_logging_out_ends_the_session_on_the_server(grace: Browser, context: Context) -> None:
    secret = grace.client.cookies["__Host-arap-desk"]
    answer = await grace.submit("/logout", seen=await grace.get("/desk/none"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert answer.headers["clear-site-data"] == '"cache", "storage"'
    assert stored_sessions(context) == []
    grace.client.cookies.set("__Host-arap-desk", secret, domain="approvals.example")
    assert (await grace.get("/desk/none")).text.count("Log out") == 0


@pytest.mark.parametrize(("seconds", "logged_in"), [(29 * 60, True), (30 * 60, False)])
async def test_a_session_ends_half_an_hour_after_its_last_use(
    grace: Browser, clock: FakeClock, seconds: int, *, logged_in: bool
) -> None:
    for _ in range(3):
        clock.advance(29 * 60)
        assert "Log out" in (await grace.get("/desk/none")).text
    clock.advance(seconds)
    assert ("Log out" in (await grace.get("/desk/none")).text) is logged_in


async def test_a_page_that_refreshes_itself_does_not_keep_the_session_alive(grace: Browser, clock: FakeClock) -> None:
    clock.advance(29 * 60)
    assert "Log out" in (await grace.get("/desk/none", **{"HX-Request": "true"})).text
    clock.advance(2 * 60)
    assert "Log out" not in (await grace.get("/desk/none")).text


async def test_a_session_ends_twelve_hours_after_the_log_in(grace: Browser, clock: FakeClock) -> None:
    for _ in range(12 * 3 - 1):
        clock.advance(20 * 60)
        assert "Log out" in (await grace.get("/desk/none")).text
    clock.advance(20 * 60)
    assert "Log out" not in (await grace.get("/desk/none")).text


async def test_a_deactivated_person_is_logged_out_at_once(grace: Browser, context: Context) -> None:
    change_account(context, "grace", lambda _, person: setattr(person, "active", False))
    assert "Log out" not in (await grace.get("/desk/none")).text


async def test_stale_sessions_are_swept_when_somebody_logs_in(
    grace: Browser, linus: Browser, context: Context, clock: FakeClock
) -> None:
    assert len(stored_sessions(context)) == 2
    clock.advance(31 * 60)
    await grace.log_in("grace")
    assert len(stored_sessions(context)) == 1


async def test_every_attempt_is_in_the_audit_log_and_no_secret_or_unknown_name_is(
    browser: Browser, context: Context
) -> None:
    await browser.log_in("grace", password="a wrong password!")
    await browser.log_in("my-password-in-the-wrong-field", password=PASSWORD)
    await browser.log_in("grace")
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    assert [(entry.kind, entry.actor, entry.detail) for entry in entries] == [
        ("login_failed", "grace", "{}"),
        ("login_failed", "unknown", "{}"),
        ("login_succeeded", "grace", "{}"),
    ]
    assert isinstance(context.database.read_now(lambda session: verify_chain(session, LOGIN_CHAIN)), Verified)


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/desk/../logout", "/\\evil.example"])
async def test_nobody_is_sent_elsewhere_after_logging_in(browser: Browser, target: str) -> None:
    page = await browser.client.get("/login", params={"next": target})
    answer = await browser.submit("/login", seen=page, name="grace", password=PASSWORD, next=target)
    assert answer.headers["location"] == "/desk"


async def test_who_was_on_the_way_to_a_page_arrives_there(browser: Browser) -> None:
    page = await browser.client.get("/login", params={"next": "/desk/requests/task_1"})
    answer = await browser.submit("/login", seen=page, name="grace", password=PASSWORD, next="/desk/requests/task_1")
    assert answer.headers["location"] == "/desk/requests/task_1"


async def test_the_log_in_form_has_a_token_of_its_own_browser(browser: Browser, app: FastAPI) -> None:
    """Log-in CSRF: a form prepared in the attacker's browser does not work in another one."""
    prepared = form_token(await Browser(app).get("/login"))
    await browser.get("/login")
    fields = {"form_token": prepared, "name": "grace", "password": PASSWORD}
    assert (await browser.post("/login", fields)).status_code == 403
    assert "__Host-arap-desk" not in browser.client.cookies


async def test_an_outdated_hash_is_renewed_at_the_next_log_in(browser: Browser, context: Context) -> None:
    weak = argon2.PasswordHasher(time_cost=1, memory_cost=16, parallelism=1).hash(PASSWORD)
    change_account(context, "grace", lambda account, _: setattr(account, "password_hash", weak))
    assert (await browser.log_in("grace")).status_code == 303
    renewed = context.database.read_now(lambda session: session.get_one(Account, "grace").password_hash)
    assert renewed != weak
    assert not is_outdated(renewed)
    assert is_password(PASSWORD, stored=renewed)


async def test_cookies_of_the_log_in_page_are_locked_down(browser: Browser) -> None:
    cookie = cookie_of(await browser.get("/login"), "__Host-arap-login")
    assert cookie is not None
    assert {"secure", "httponly", "samesite=lax", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}


async def test_an_empty_cookie_makes_no_form_valid(browser: Browser) -> None:
    browser.client.cookies.set("__Host-arap-login", "", domain="approvals.example")
    fields = {"form_token": token_of(""), "name": "grace", "password": PASSWORD, "next": "/desk"}
    answer = await browser.post("/login", fields, headers=SAME_SITE)
    assert (answer.status_code, "This form is no longer valid" in answer.text) == (403, True)
    assert cookie_of(answer, "__Host-arap-desk") is None


async def test_the_session_never_becomes_the_secret_of_the_log_in_form(grace: Browser) -> None:
    secret = grace.client.cookies["__Host-arap-desk"]
    page = await grace.get("/desk/none")
    answer = await grace.post(
        "/login", {"form_token": form_token(page), "name": "x", "password": "y"}, headers=SAME_SITE
    )
    assert answer.status_code == 403
    assert secret not in (cookie_of(answer, "__Host-arap-login") or "")
