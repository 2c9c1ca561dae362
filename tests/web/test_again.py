"""A decision that demands a fresh log-in: refused without one, on every way, and made after it; design.md section 3."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from fastapi import FastAPI

from arap_service import requests
from arap_service.audit import entries_of
from arap_service.context import Context
from arap_service.domain.callers import Caller, Channel, Scope
from arap_service.domain.errors import StepUpRequired
from arap_service.domain.step_up import is_fresh, step_up_seconds
from arap_service.store.database import WriteSession
from arap_service.store.directory import add_identity
from arap_service.store.people_tables import Account
from arap_service.store.sessions import web_sessions_of
from arap_service.web import passwords
from tests.clock import START, FakeClock
from tests.service import app_for, bearer, http, service_context, settings_for
from tests.web.desk import PASSWORD, QUICK, Browser, add_person, ask, decide
from tests.web.provider import TestProvider, leads_to, log_in, running

pytestmark = pytest.mark.anyio
POLICY = """
version: 1
clients: [{client: gate, may: 'true'}]
rules: [{id: commit-needs-review, when: 'true', request: commit}]
templates:
  commit:
    title: Commit
    explanation: Something is committed.
    step_up: 120
    standing_days: 10
    steps: [{id: review, title: Review, groups: [maintainers], resolvers: [resolver]}]
"""
REASON = "Because <it> is canary-right"


@pytest.fixture
def provider(clock: FakeClock) -> Iterator[TestProvider]:
    with running(TestProvider(clock)) as provider:
        yield provider


@pytest.fixture
async def context(
    service_url: str, tmp_path: Path, clock: FakeClock, provider: TestProvider, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Context]:
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    changes = {"insecure_loopback": True, "login": {"oidc": provider.settings(groups_claim=None)}}
    async with service_context(
        settings_for(tmp_path, database=service_url, policy=POLICY, **changes), clock=clock
    ) as opened:
        for person_id, name in (("grace", "Grace Hopper"), ("linus", "Linus Example")):
            add_person(opened, person_id, name=name, groups=("maintainers",))
        yield opened


async def requested(app: FastAPI, context: Context) -> str:
    async with http(app, headers=bearer(context, "gate")) as gate:
        return await ask(gate, "git_commit", {"message": "Fix rounding"})


def typed(context: Context, person_id: str) -> list[bytes | None]:
    found = context.database.read_now(lambda session: web_sessions_of(session, person_id))
    return [row.typed_sealed for row in found]


async def status(browser: Browser, task_id: str) -> str:
    page = await browser.get(f"/desk/requests/{task_id}")
    return "pending" if "Your decision</h2>" in page.text else "decided"


async def refused_and_led(browser: Browser, task_id: str) -> str:
    """Decide with a log-in that is too old; where that leads to."""
    answer = await decide(browser, task_id, "approve", reason=REASON, lifetime="300")
    assert answer.status_code == 303, answer.text
    assert "canary" not in answer.headers["location"]
    assert answer.headers["location"] == f"/desk/again?next=%2Fdesk%2Frequests%2F{task_id}"
    return str(answer.headers["location"])


async def test_a_fresh_log_in_decides_at_once(grace: Browser, app: FastAPI, context: Context, clock: FakeClock) -> None:
    task_id = await requested(app, context)
    clock.advance(120)
    answer = await decide(grace, task_id, "approve")
    assert answer.headers["location"] == f"/desk/requests/{task_id}"
    assert await status(grace, task_id) == "decided"


async def test_an_older_log_in_decides_nothing_until_the_password_is_typed_and_the_form_sent_again(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    task_id = await requested(app, context)
    clock.advance(121)
    where = await refused_and_led(grace, task_id)
    assert await status(grace, task_id) == "pending"
    [sealed] = typed(context, "grace")
    assert sealed is not None
    assert b"canary" not in sealed
    before = grace.client.cookies["__Host-arap-desk"]
    page = await grace.get(where)
    assert 'value="grace"' in page.text
    wrong = await grace.submit("/desk/again", seen=page, password="not the password", next=f"/desk/requests/{task_id}")
    assert wrong.status_code == 403
    back = await grace.submit("/desk/again", seen=page, password=PASSWORD, next=f"/desk/requests/{task_id}")
    assert (back.status_code, back.headers["location"]) == (303, f"/desk/requests/{task_id}")
    assert grace.client.cookies["__Host-arap-desk"] != before  # a secret that was stolen before is worth nothing now
    shown = await grace.get(f"/desk/requests/{task_id}")
    assert "Because &lt;it&gt; is canary-right" in shown.text
    assert "Nothing has been decided yet" in shown.text
    assert '<option value="300" selected>' in shown.text
    assert "Your decision</h2>" in shown.text
    assert (await decide(grace, task_id, "approve")).status_code == 303
    assert await status(grace, task_id) == "decided"
    assert typed(context, "grace") == [None]


async def test_a_secret_from_before_the_log_in_opens_nothing_afterwards(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    stolen = grace.client.cookies["__Host-arap-desk"]
    await grace.submit("/desk/again", seen=await grace.get("/desk/again"), password=PASSWORD, next="/desk")
    thief = Browser(app)
    thief.client.cookies.set("__Host-arap-desk", stolen, domain="approvals.example")
    assert (await thief.get("/desk")).status_code == 303
    await thief.client.aclose()


async def test_the_password_of_somebody_else_does_not_do(grace: Browser, app: FastAPI, context: Context) -> None:
    """The account is that of the session, whatever the form says."""
    his = "another long password"
    hashed = QUICK.hash(his)
    context.database.write_now(lambda session: setattr(session.get_one(Account, "linus"), "password_hash", hashed))
    linus = Browser(app)
    assert (await linus.log_in("linus", password=his)).status_code == 303, "it is the one that he has"
    page = await grace.get("/desk/again")
    other = await grace.submit("/desk/again", seen=page, name="linus", password=his, next="/desk")
    assert other.status_code == 403
    await linus.client.aclose()


async def test_what_was_typed_is_kept_for_a_quarter_of_an_hour_and_for_that_request(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    first, second = await requested(app, context), await requested(app, context)
    clock.advance(121)
    await refused_and_led(grace, first)
    assert "canary" not in (await grace.get(f"/desk/requests/{first}")).text  # not before he has proved himself
    await grace.submit("/desk/again", seen=await grace.get("/desk/again"), password=PASSWORD, next="/desk")
    assert "canary" not in (await grace.get(f"/desk/requests/{second}")).text
    assert "canary" in (await grace.get(f"/desk/requests/{first}")).text
    clock.advance(15 * 60 + 1)
    assert "canary" not in (await grace.get(f"/desk/requests/{first}")).text


async def test_denying_demands_it_as_well_and_the_refusal_is_on_record(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    task_id = await requested(app, context)
    clock.advance(121)
    answer = await decide(grace, task_id, "deny", reason="no")
    assert answer.headers["location"].startswith("/desk/again")
    entries = context.database.read_now(lambda session: entries_of(session, task_id))
    assert (entries[-1].kind, '"code":"step_up_required"' in entries[-1].detail) == ("decision_refused", True)


async def test_a_standing_rule_demands_it_as_well_and_leads_there(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    task_id = await requested(app, context)
    await decide(grace, task_id, "approve")
    clock.advance(121)
    page = await grace.get(f"/desk/requests/{task_id}")
    answer = await grace.submit(f"/desk/requests/{task_id}/rule", seen=page, days="3")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/desk/again?next=%2Fdesk%2Frequests%2F{task_id}")
    assert context.database.read_now(lambda session: entries_of(session, "standing_rules")) == []


async def by_provider(app: FastAPI, provider: TestProvider, context: Context) -> Browser:
    def known(session: WriteSession) -> None:
        add_identity(session, "grace", iss=provider.issuer, sub="u-17")
        add_identity(session, "linus", iss=provider.issuer, sub="u-18")

    context.database.write_now(known)
    browser = Browser(app)
    await log_in(browser, provider, "u-17")
    return browser


async def test_at_the_provider_the_person_is_asked_anew_and_what_was_typed_is_there_afterwards(
    app: FastAPI, context: Context, provider: TestProvider, clock: FakeClock
) -> None:
    hers = await by_provider(app, provider, context)
    task_id = await requested(app, context)
    clock.advance(121)
    page = await hers.get(await refused_and_led(hers, task_id))
    away = leads_to(await hers.submit("/desk/again/provider", seen=page, next=f"/desk/requests/{task_id}"))
    asked = parse_qs(urlsplit(away).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    back = await hers.get(provider.authorize(away, "u-17"))
    assert back.headers["location"] == f"/desk/requests/{task_id}"
    assert "canary-right" in (await hers.get(f"/desk/requests/{task_id}")).text
    assert (await decide(hers, task_id, "approve")).headers["location"] == f"/desk/requests/{task_id}"
    await hers.client.aclose()


@pytest.mark.parametrize(
    "answer", [("u-17", "old"), ("u-17", None), ("u-18", "now")], ids=["old", "unsaid", "somebody else"]
)
async def test_a_provider_that_did_not_ask_or_somebody_else_who_answered_proves_nothing(
    app: FastAPI, context: Context, provider: TestProvider, clock: FakeClock, answer: tuple[str, str | None]
) -> None:
    sub, auth_time = answer
    hers = await by_provider(app, provider, context)
    clock.advance(121)
    away = leads_to(await hers.submit("/desk/again/provider", seen=await hers.get("/desk/again"), next="/desk"))
    if auth_time != "now":
        old = None if auth_time is None else int((clock() - timedelta(seconds=121)).timestamp())
        provider.claim_changes = {"auth_time": old}
    assert (await hers.get(provider.authorize(away, sub))).status_code == 403
    task_id = await requested(app, context)
    await refused_and_led(hers, task_id)
    await hers.client.aclose()


async def test_a_login_of_which_the_provider_does_not_say_when_it_was_is_not_fresh(
    app: FastAPI, context: Context, provider: TestProvider
) -> None:
    provider.claim_changes = {"auth_time": None}
    hers = await by_provider(app, provider, context)
    await refused_and_led(hers, await requested(app, context))
    await hers.client.aclose()


@pytest.mark.parametrize("channel", ["api", "desk", "cli"])
async def test_every_way_of_deciding_demands_it_of_people(
    app: FastAPI, context: Context, clock: FakeClock, channel: Channel
) -> None:
    task_id = await requested(app, context)

    def caller(proved: int | None) -> Caller:
        return Caller(
            iss="https://id.example",
            sub="grace",
            client_id="tool",
            scopes=frozenset({Scope.APPROVAL_READ, Scope.APPROVAL_RESOLVE}),
            channel=channel,
            person_id="grace",
            proved_at=None if proved is None else clock() - timedelta(seconds=proved),
        )

    for proved in (None, 121, -1):
        with pytest.raises(StepUpRequired) as refused:
            await requests.decide(context, caller(proved), task_id, decision="approve", version=1)
        assert refused.value.extra == {"code": "step_up_required", "max_age": 120}
    decided = await requests.decide(context, caller(120), task_id, decision="approve", version=1)
    assert decided.status == "approved"


async def test_a_machine_that_the_step_names_is_not_asked_for_it(app: FastAPI, context: Context) -> None:
    task_id = await requested(app, context)
    async with http(app, headers=bearer(context, "resolver")) as resolver:
        answer = await resolver.post(
            f"/resolver/v1/requests/{task_id}/decisions", json={"decision": "approve", "version": 1}
        )
    assert answer.status_code == 200, answer.text


def test_what_fresh_means() -> None:
    at = START - timedelta(seconds=300)
    assert [step_up_seconds(said) for said in (True, False, 60)] == [300, None, 60]
    assert is_fresh(at, seconds=300, now=START)
    assert not is_fresh(at - timedelta.resolution, seconds=300, now=START)
    assert not is_fresh(START + timedelta.resolution, seconds=300, now=START)
    assert not is_fresh(None, seconds=300, now=START)


async def test_the_page_says_beforehand_that_a_fresh_log_in_is_needed(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    page: httpx2.Response = await grace.get(f"/desk/requests/{await requested(app, context)}")
    assert "at most 2 minutes old" in page.text
    assert app_for(context) is not app
