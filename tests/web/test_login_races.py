"""Two log-ins, or two words that a session has ended, at the same instant: both are answered as if one came later.

What the first one does is done and not committed when the second begins, and is committed once the second waits for it.
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import pytest

from arap_service.api.backchannel import _ended
from arap_service.audit import entries_of
from arap_service.context import Context
from arap_service.oidc_tokens import Logout
from arap_service.provider_people import made_id, received
from arap_service.store.database import WriteSession
from arap_service.store.people import everybody, groups_of
from arap_service.store.people_tables import Account
from arap_service.store.sessions import change_password_hash, web_sessions_of
from arap_service.web import passwords
from arap_service.web.login import LOGIN_CHAIN, WRONG
from tests.clock import FakeClock
from tests.databases import Databases
from tests.patience import pause
from tests.service import app_for, service_context, settings_for
from tests.web.desk import QUICK, Browser, add_person
from tests.web.policy import POLICY
from tests.web.provider import TestProvider, leave, log_in, running

pytestmark = pytest.mark.anyio
Result = TypeVar("Result")
PATIENCE = 60


@pytest.fixture
def provider(clock: FakeClock) -> Iterator[TestProvider]:
    with running(TestProvider(clock)) as provider:
        yield provider


@pytest.fixture
async def context(service_url: str, tmp_path: Path, clock: FakeClock, provider: TestProvider) -> AsyncIterator[Context]:
    changes: dict[str, Any] = {"insecure_loopback": True, "login": {"oidc": provider.settings()}}
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, **changes)
    async with service_context(settings, clock=clock) as opened:
        yield opened


async def meanwhile(
    context: Context,
    databases: Databases,
    first: Callable[[WriteSession], object],
    second: Callable[[], Awaitable[Result]],
) -> Result:
    """What `second` comes to while `first` is done and not committed; it is once the second waits for it."""
    is_done, may_commit = threading.Event(), threading.Event()
    url = context.settings.database

    def work(session: WriteSession) -> None:
        first(session)
        session.flush()
        is_done.set()
        assert may_commit.wait(PATIENCE)

    async def release() -> None:
        while not databases.is_waited_for(url):
            await pause()
        may_commit.set()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(context.database.write, work)
            assert await anyio.to_thread.run_sync(is_done.wait, PATIENCE)
            group.start_soon(release)
            return await second()
    raise AssertionError("nothing came of it")


def ended(context: Context, provider: TestProvider, jti: str) -> Callable[[WriteSession], object]:
    """Another instance that is just being told the same."""
    return lambda session: _ended(context, session, issuer=provider.issuer, said=Logout(sub="u-17", sid=None, jti=jti))


def logged_in(context: Context, sub: str, **claims: Any) -> Callable[[WriteSession], object]:
    """Another instance at which the same person is just logging in."""
    oidc = context.settings.login.oidc
    assert oidc is not None
    return lambda session: received(session, oidc, {"sub": sub, **claims}, now=context.clock())


@pytest.mark.parametrize(("jti", "status"), [("one", 400), ("two", 200)])
async def test_two_words_of_the_provider_end_one_session_once(
    context: Context, provider: TestProvider, databases: Databases, jti: str, status: int
) -> None:
    """The same token a second time is refused as a repetition; another one finds nothing to end."""
    browser, stranger = Browser(app_for(context)), Browser(app_for(context))
    await log_in(browser, provider, "u-17")
    token = provider.logout_token(sub="u-17", jti=jti)

    async def said() -> int:
        return (await stranger.client.post("/login/backchannel", data={"logout_token": token})).status_code

    assert await meanwhile(context, databases, ended(context, provider, "one"), said) == status
    assert (await browser.get("/desk")).status_code == 303
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    assert [entry.kind for entry in entries] == ["login_succeeded", "logged_out"]
    for used in (browser, stranger):
        await used.client.aclose()


async def test_two_first_log_ins_of_one_person_add_him_once(
    context: Context, provider: TestProvider, databases: Databases
) -> None:
    provider.people["u-17"] = {"name": "Grace Hopper", "groups": ["maintainers"]}
    browser = Browser(app_for(context))
    back = provider.authorize(await leave(browser), "u-17")
    first = logged_in(context, "u-17", name="Grace Hopper", groups=["maintainers"])
    answer = await meanwhile(context, databases, first, lambda: browser.get(back))
    assert (answer.status_code, answer.headers.get("location")) == (303, "/desk")
    people = context.database.read_now(everybody)
    assert [person.id for person in people] == [made_id(provider.issuer, "u-17")]
    entries = context.database.read_now(lambda session: entries_of(session, "configuration"))
    assert [entry.kind for entry in entries].count("person_added") == 1
    await browser.client.aclose()


async def test_groups_are_those_of_the_later_of_two_log_ins(
    context: Context, provider: TestProvider, databases: Databases
) -> None:
    """Never what both have said together."""
    add_person(context, "grace", name="Grace Hopper", identities=(f"{provider.issuer}|u-17",))
    provider.people["u-17"] = {"groups": ["treasurers", "maintainers"]}
    browser = Browser(app_for(context))
    back = provider.authorize(await leave(browser), "u-17")
    first = logged_in(context, "u-17", groups=["auditors", "maintainers"])
    assert (await meanwhile(context, databases, first, lambda: browser.get(back))).status_code == 303
    groups = context.database.read_now(lambda session: groups_of(session, "grace"))
    assert groups == {"treasurers", "maintainers"}
    await browser.client.aclose()


async def test_a_log_in_with_a_password_that_is_just_being_changed_opens_nothing(
    context: Context, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was proved before the change, and would outlive the sessions that the change ends."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    add_person(context, "grace", name="Grace Hopper")
    browser = Browser(app_for(context))

    def changed(session: WriteSession) -> None:
        account = session.get_one(Account, "grace")
        new = passwords.hash_password("another one by now")
        assert change_password_hash(session, "grace", old=account.password_hash, new=new, now=context.clock())

    answer = await meanwhile(context, databases, changed, lambda: browser.log_in("grace"))
    assert (answer.status_code, WRONG in answer.text) == (403, True)
    assert context.database.read_now(lambda session: web_sessions_of(session, "grace")) == []
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    assert [entry.kind for entry in entries] == ["login_failed"]
    await browser.client.aclose()
