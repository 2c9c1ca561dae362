"""The owner of a local account gives it another password; OWASP ASVS 5.0, 6.2.2, 6.2.3, 6.2.8 and 7.4.3."""

import hashlib
import json
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from sqlmodel import select
from structlog.testing import capture_logs

from arap_service.audit import Verified, entries_of, verify_chain
from arap_service.context import Context
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account
from arap_service.store.sessions import change_password_hash, web_sessions_of
from arap_service.web.login import LOGIN_CHAIN, TOO_MANY
from arap_service.web.password_pages import NOT_NOW, OVERTAKEN, PATH, SAME, UNCHECKED, UNLIKE
from arap_service.web.passwords import MAX_LENGTH, hash_password, is_password
from arap_service.web.throttle import PER_PAIR
from tests.web.desk import PASSWORD, Browser, cookie_of

pytestmark = pytest.mark.anyio
OTHER = "a kite over the harbour"
NEW = "  löwenzahn & Kamille, 7 "


async def change(
    browser: Browser, current: str = PASSWORD, new: str = NEW, again: str | None = None
) -> httpx2.Response:
    """Fill in the form."""
    typed = {"current": current, "new": new, "again": new if again is None else again}
    return await browser.submit(PATH, seen=await browser.get(PATH), **typed)


def stored(context: Context, login: str = "grace") -> Account:
    return context.database.read_now(lambda session: session.exec(select(Account).where(Account.login == login)).one())


async def can_log_in(app: FastAPI, password: str) -> bool:
    fresh = Browser(app)
    answer = await fresh.log_in("grace", password=password)
    await fresh.client.aclose()
    return answer.status_code == 303


async def test_the_owner_changes_his_password_and_the_old_one_opens_nothing(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    page = await grace.get("/desk/account")
    assert f'href="{PATH}"' in page.text
    before = stored(context)
    answer = await change(grace)
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk/account?changed")
    assert "Your password was changed" in (await grace.get(answer.headers["location"])).text
    assert not await can_log_in(app, PASSWORD)
    assert not await can_log_in(app, NEW.strip()), "what was typed is the password, blanks and all"
    assert await can_log_in(app, NEW)
    assert stored(context).changed_at >= before.changed_at
    assert stored(context, "linus").password_hash == before.password_hash


async def test_every_other_session_ends_and_this_one_gets_another_secret(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    elsewhere, thief = Browser(app), Browser(app)
    await elsewhere.log_in("grace")
    secret = grace.client.cookies["__Host-arap-desk"]
    thief.client.cookies.set("__Host-arap-desk", secret, domain="approvals.example")
    assert (await thief.get("/desk")).status_code == 200
    answer = await change(grace)
    cookie = cookie_of(answer, "__Host-arap-desk")
    assert cookie is not None
    assert secret not in cookie
    assert (await grace.get("/desk")).status_code == 200
    assert len(context.database.read_now(lambda session: web_sessions_of(session, "grace"))) == 1
    assert [(await each.get("/desk")).status_code for each in (elsewhere, thief, linus)] == [303, 303, 200]
    for each in (elsewhere, thief):
        await each.client.aclose()


async def test_a_wrong_current_password_changes_nothing_and_is_limited_like_log_ins(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    before = stored(context).password_hash
    for _ in range(PER_PAIR.amount):
        answer = await change(grace, current="not the password")
        assert answer.status_code == 403
        assert NOT_NOW in answer.text
    answer = await change(grace)
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)
    assert TOO_MANY in answer.text
    assert stored(context).password_hash == before
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    failed = [entry.actor for entry in entries if entry.kind == "login_failed"]
    assert failed == ["grace"] * PER_PAIR.amount
    assert (await change(linus)).status_code == 303


async def test_the_right_password_forgives_earlier_failures(grace: Browser) -> None:
    current = PASSWORD
    for _ in range(2):
        for _ in range(PER_PAIR.amount - 1):
            await change(grace, current="not the password")
        assert (await change(grace, current=current)).status_code == 303
        assert (await change(grace, current=NEW, new=OTHER)).status_code == 303
        current = OTHER


@pytest.mark.parametrize(
    ("current", "new", "again", "said"),
    [
        ("", NEW, None, "Please type the password that you have now."),
        (PASSWORD, NEW, NEW.strip(), UNLIKE),
        (PASSWORD, PASSWORD, None, SAME),
        (PASSWORD, "", None, "at least 12"),
        (PASSWORD, "elevenchars", None, "at least 12"),
        (PASSWORD, "äbcdefghi-" * 26, None, "at most 256"),
        (PASSWORD, "Grace-of-November", None, "no name of its owner"),
        (PASSWORD, "approvals.example!", None, "no name of its owner"),
        (PASSWORD, "qwerty-and-more-7", None, "no word that many take"),
        (PASSWORD, "xyxyxyxyxyxyxy", None, "at least 5 different"),
    ],
)
async def test_a_new_password_is_judged_as_at_creation(
    grace: Browser, context: Context, *, current: str, new: str, again: str | None, said: str
) -> None:
    before = stored(context)
    answer = await change(grace, current, new, again)
    assert answer.status_code == 422
    assert "Nothing was changed yet" in answer.text
    assert said in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert all(text not in answer.text for text in (PASSWORD, *filter(None, (new, again))))
    assert stored(context).password_hash == before.password_hash


async def test_the_longest_password_counts_whole(grace: Browser, app: FastAPI, context: Context) -> None:
    longest = "Ünlike 7 " * 28 + "äöüß"
    assert len(longest) == MAX_LENGTH
    assert (await change(grace, new=longest)).status_code == 303
    assert is_password(longest, stored=stored(context).password_hash)
    assert not await can_log_in(app, longest[:-1])


async def test_the_change_is_in_the_audit_log_and_no_password_is(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    elsewhere = Browser(app)
    await elsewhere.log_in("grace")
    await elsewhere.client.aclose()
    await change(grace)
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    [changed] = [entry for entry in entries if entry.kind == "password_changed"]
    assert (changed.actor, json.loads(changed.detail)) == ("grace", {"account": "grace", "sessions": 1})
    assert isinstance(context.database.read_now(lambda session: verify_chain(session, LOGIN_CHAIN)), Verified)


async def test_of_two_changes_the_later_one_has_to_know_the_new_password(
    grace: Browser, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the proof and the change an administrator, or another instance, sets another password."""
    theirs = hash_password("somebody else set this")

    def hashed(password: str) -> str:
        def work(session: WriteSession) -> None:
            old = stored(context).password_hash
            assert change_password_hash(session, "grace", old=old, new=theirs, now=context.clock())

        context.database.write_now(work)
        return hash_password(password)

    monkeypatch.setattr("arap_service.web.password_pages.hash_password", hashed)
    answer = await change(grace)
    assert answer.status_code == 409
    assert OVERTAKEN in answer.text
    assert stored(context).password_hash == theirs


async def test_whoever_is_not_logged_in_changes_nothing(browser: Browser, context: Context) -> None:
    before = stored(context).password_hash
    assert (await browser.get(PATH)).headers["location"] == "/login?next=%2Fdesk%2Faccount%2Fpassword"
    seen = await browser.get("/login")
    answer = await browser.submit(PATH, seen=seen, current=PASSWORD, new=NEW, again=NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert stored(context).password_hash == before


async def test_a_browser_can_fill_in_paste_and_show_nothing(grace: Browser) -> None:
    """ASVS 6.2.6 and 6.2.7: masked fields that a password manager knows, and that cut nothing that is pasted."""
    text = (await grace.get(PATH)).text
    assert text.count('type="password" autocomplete="current-password"') == 1
    assert text.count('type="password" autocomplete="new-password"') == 2
    assert 'autocomplete="username" value="grace" readonly' in text
    assert "maxlength" not in text


async def test_a_breached_password_is_refused_and_without_the_list_none_is_changed(
    grace: Browser, context: Context, tmp_path: Path
) -> None:
    path, before = tmp_path / "breached.txt", stored(context).password_hash
    path.write_text(hashlib.sha1(NEW.encode(), usedforsecurity=False).hexdigest().upper() + ":3\n")
    login = context.settings.login.model_copy(update={"breached_passwords": path})
    object.__setattr__(context.settings, "login", login)
    answer = await change(grace)
    assert (answer.status_code, "became known elsewhere" in answer.text) == (422, True)
    path.unlink()
    with capture_logs() as logs:
        answer = await change(grace, new=OTHER)
    assert (answer.status_code, UNCHECKED in answer.text) == (503, True)
    assert [line["event"] for line in logs] == ["breached_passwords_unusable"]
    assert stored(context).password_hash == before
    path.write_text("0" * 40 + ":3\n")
    assert (await change(grace, new=OTHER)).status_code == 303
