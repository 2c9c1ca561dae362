"""Logging in and out by an OpenID provider, and everything that must not count as that.

OpenID Connect Core 1.0, section 3.1; Back-Channel Logout 1.0; RFC 7636; RFC 9207; RFC 9700.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from arap_service.audit import entries_of
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.provider_people import made_id
from arap_service.requests.voters import decider_of
from arap_service.store.database import WriteSession
from arap_service.store.directory import add_identity, put_groups, put_person
from arap_service.store.people import find_person, groups_of, person_of_identity
from arap_service.store.sessions import web_sessions_of
from arap_service.web import passwords
from arap_service.web.login import LOGIN_CHAIN
from tests.clock import FakeClock
from tests.service import IDENTIFIER, app_for, service_context, settings_for
from tests.tokens import encoded, hmac_with_public_key, unsigned
from tests.web.desk import PASSWORD, QUICK, Browser, add_person
from tests.web.policy import POLICY
from tests.web.provider import CLIENT, LOGOUT_EVENT, TestProvider, key, leads_to, leave, log_in, running

pytestmark = pytest.mark.anyio
REFUSED = "You could not be logged in"
UNAVAILABLE = "Logging in is not possible now"


@pytest.fixture
def provider(clock: FakeClock) -> Iterator[TestProvider]:
    with running(TestProvider(clock)) as provider:
        yield provider


@pytest.fixture
def ways() -> dict[str, Any]:
    """Changes to the section `login`."""
    return {}


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_HASHER", QUICK)


@pytest.fixture
async def context(
    service_url: str, tmp_path: Path, clock: FakeClock, provider: TestProvider, ways: dict[str, Any]
) -> AsyncIterator[Context]:
    oidc = provider.settings(**ways.get("oidc", {}))  # the parameter is shared with the other engine
    changes = {"insecure_loopback": True, "login": {**ways, "oidc": oidc}}
    async with service_context(
        settings_for(tmp_path, database=service_url, policy=POLICY, **changes), clock=clock
    ) as opened:
        add_person(opened, "grace", name="Grace Hopper", groups=("maintainers",))
        yield opened


def known(context: Context, provider: TestProvider, person_id: str, sub: str) -> None:
    """Say that `sub` of the provider is this person."""
    context.database.write_now(lambda session: add_identity(session, person_id, iss=provider.issuer, sub=sub))


def logged(context: Context) -> list[tuple[str, str, str]]:
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    return [(entry.kind, entry.actor, entry.detail) for entry in entries]


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/desk")).status_code == 200


async def test_a_known_person_logs_in_and_arrives_where_he_wanted_to_go(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    known(context, provider, "grace", "u-17")
    answer = await log_in(browser, provider, "u-17", target="/desk/requests/task_1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk/requests/task_1")
    page = await browser.get("/desk")
    assert "Grace Hopper" in page.text
    assert logged(context) == [("login_succeeded", "grace", f'{{"by":"{provider.issuer}"}}')]


async def test_a_password_is_not_offered_to_whoever_logs_in_by_the_provider(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    """Not even where the person has a local account as well: which password he knows was not shown by this log-in."""
    known(context, provider, "grace", "u-17")
    await log_in(browser, provider, "u-17")
    page = await browser.get("/desk/account")
    assert "password" not in page.text
    typed = {"current": PASSWORD, "new": "löwenzahn & Kamille", "again": "löwenzahn & Kamille"}
    refused = [await browser.get("/desk/account/password")]
    refused.append(await browser.submit("/desk/account/password", seen=page, **typed))
    assert [answer.status_code for answer in refused] == [404, 404]
    assert "You have no password here" in refused[1].text
    assert (await Browser(app_for(context)).log_in("grace")).status_code == 303


async def test_the_page_on_the_way_shows_no_secret_and_asks_for_what_is_configured(
    browser: Browser, provider: TestProvider
) -> None:
    url = urlsplit(await leave(browser))
    asked = parse_qs(url.query)
    assert asked["scope"] == ["openid profile email"]
    assert asked["redirect_uri"] == [f"{IDENTIFIER}/login/callback"]
    assert {"state", "nonce", "code_challenge"} <= asked.keys()
    assert "prompt" not in asked
    secret = browser.client.cookies["__Host-arap-login"]
    assert secret not in url.geturl()


@pytest.mark.parametrize("ways", [{"oidc": {"create_people": False}}])
async def test_somebody_unknown_is_refused_even_with_the_address_of_somebody_known(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    context.database.write_now(
        lambda session: put_person(
            session, "grace", name="Grace", email="grace@id.example", active=True, now=context.clock()
        )
    )
    provider.people["u-99"] = {"email": "grace@id.example", "email_verified": True, "preferred_username": "grace"}
    answer = await log_in(browser, provider, "u-99")
    assert answer.status_code == 403
    assert REFUSED in answer.text
    assert not await is_in(browser)
    assert logged(context) == [("login_failed", "unknown", '{"code":"person_unknown"}')]


async def test_an_unknown_person_is_added_where_that_is_configured_under_an_id_that_nobody_chose(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    provider.people["grace"] = {"name": "Mallory\x00 Maker", "preferred_username": "grace", "groups": ["maintainers"]}
    assert (await log_in(browser, provider, "grace")).status_code == 303
    person = context.database.read_now(lambda session: person_of_identity(session, provider.issuer, "grace"))
    assert person is not None
    assert (person.id, person.name) == (made_id(provider.issuer, "grace"), "Mallory Maker")
    assert person.id != "grace"


@pytest.mark.parametrize("apart", [frozenset(), frozenset({"email", "email_verified"})], ids=["token", "userinfo"])
@pytest.mark.parametrize("is_verified", [False, "false", [], "absent"])
@pytest.mark.parametrize("ways", [{}, {"oidc": {"email_is_verified": True}}], ids=["of each", "of all"])
async def test_an_address_that_the_provider_has_not_checked_is_nobodys(
    browser: Browser,
    provider: TestProvider,
    context: Context,
    *,
    ways: dict[str, Any],
    is_verified: object,
    apart: frozenset[str],
) -> None:
    """Requests in the name of an address are shown to whose it is."""
    provider.userinfo_only = apart
    provider.people["u-66"] = {"email": "ada@id.example"}
    if is_verified != "absent":
        provider.people["u-66"]["email_verified"] = is_verified
    expected = "ada@id.example" if ways and is_verified == "absent" else None
    assert (await log_in(browser, provider, "u-66")).status_code == 303
    person = context.database.read_now(lambda session: find_person(session, made_id(provider.issuer, "u-66")))
    assert person is not None
    assert person.email == expected


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ({"oidc": {"email_claim": "upn"}}, None),
        ({"oidc": {"email_claim": "upn", "email_is_verified": True}}, "ada@id.example"),
    ],
)
async def test_what_the_provider_says_of_its_email_is_not_said_of_another_claim(
    browser: Browser, provider: TestProvider, context: Context, expected: str | None
) -> None:
    provider.people["u-66"] = {"upn": "ada@id.example", "email": "own@id.example", "email_verified": True}
    assert (await log_in(browser, provider, "u-66")).status_code == 303
    person = context.database.read_now(lambda session: find_person(session, made_id(provider.issuer, "u-66")))
    assert person is not None
    assert person.email == expected


async def test_an_identity_that_was_taken_away_is_not_given_back_by_logging_in(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    put_away = made_id(provider.issuer, "u-17")
    context.database.write_now(
        lambda session: put_person(session, put_away, name="Ada", email=None, active=True, now=context.clock())
    )
    assert (await log_in(browser, provider, "u-17")).status_code == 403


async def test_groups_are_replaced_whole_at_each_login_and_local_ones_stay(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    known(context, provider, "grace", "u-17")

    def groups() -> frozenset[str]:
        return context.database.read_now(lambda session: groups_of(session, "grace"))

    provider.people["u-17"] = {"groups": ["treasurers", "maintainers"]}
    await log_in(browser, provider, "u-17")
    assert groups() == {"maintainers", "treasurers"}
    context.database.write_now(lambda session: put_groups(session, "grace", ["local-only"]))
    assert groups() == {"maintainers", "treasurers", "local-only"}
    provider.people["u-17"] = {"groups": ["auditors", 7, "\x00"]}
    fresh = Browser(app_for(context))
    await log_in(fresh, provider, "u-17")
    assert groups() == {"auditors", "local-only"}
    provider.people["u-17"] = {"name": "no groups at all"}
    later = Browser(app_for(context))
    await log_in(later, provider, "u-17")
    assert groups() == {"local-only"}
    for used in (fresh, later):
        await used.client.aclose()


@pytest.mark.parametrize("ways", [{"oidc": {"groups": {"dep-7": "treasurers"}}}])
async def test_with_a_map_only_mapped_groups_count(browser: Browser, provider: TestProvider, context: Context) -> None:
    known(context, provider, "grace", "u-17")
    provider.people["u-17"] = {"groups": ["dep-7", "maintainers-of-everything"]}
    await log_in(browser, provider, "u-17")
    groups = context.database.read_now(lambda session: groups_of(session, "grace"))
    assert groups == {"maintainers", "treasurers"}


async def test_what_the_token_leaves_out_is_asked_for_and_must_be_about_the_same_person(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    known(context, provider, "grace", "u-17")
    provider.userinfo_only = frozenset({"groups", "name", "email"})
    provider.people["u-17"] = {"groups": ["treasurers"]}
    provider.userinfo_changes = {"sub": "somebody-else"}
    assert (await log_in(browser, provider, "u-17")).status_code == 403
    provider.userinfo_changes = {}
    assert (await log_in(browser, provider, "u-17")).status_code == 303
    assert "treasurers" in context.database.read_now(lambda session: groups_of(session, "grace"))


async def test_a_deactivated_person_does_not_get_in(browser: Browser, provider: TestProvider, context: Context) -> None:
    known(context, provider, "grace", "u-17")

    def deactivate(session: WriteSession) -> None:
        person = find_person(session, "grace")
        assert person is not None
        person.active = False

    context.database.write_now(deactivate)
    assert (await log_in(browser, provider, "u-17")).status_code == 403
    assert not await is_in(browser)


async def test_a_state_counts_once_and_for_the_browser_that_began(
    browser: Browser, app: FastAPI, provider: TestProvider, context: Context
) -> None:
    """Login CSRF: what was begun in one browser does not log another one in."""
    back = provider.authorize(await leave(browser), "u-17")
    victim = Browser(app)
    await victim.get("/login")
    assert (await victim.get(back)).status_code == 403
    assert not await is_in(victim)
    assert (await browser.get(back)).status_code == 303
    again = await browser.get(back)
    assert again.status_code == 403
    assert REFUSED in again.text
    await victim.client.aclose()


async def test_two_windows_of_one_browser_may_log_in_side_by_side(browser: Browser, provider: TestProvider) -> None:
    first, second = await leave(browser), await leave(browser)
    assert (await browser.get(provider.authorize(first, "u-17"))).status_code == 303
    assert second != first


async def test_a_login_takes_ten_minutes_at_most(browser: Browser, provider: TestProvider, clock: FakeClock) -> None:
    url = await leave(browser)
    clock.advance(600)
    assert (await browser.get(provider.authorize(url, "u-17"))).status_code == 403
    url = await leave(browser)
    clock.advance(599)
    assert (await browser.get(provider.authorize(url, "u-17"))).status_code == 303


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "forged"},
        {"state": None},
        {"code": None},
        {"code": "forged"},
        {"code": "x" * 5_000},
        {"iss": "https://other.example"},
        {"iss": None},
        {"error": "access_denied"},
    ],
    ids=str,
)
async def test_a_forged_way_back_logs_nobody_in(
    browser: Browser, provider: TestProvider, changes: dict[str, str | None]
) -> None:
    back = urlsplit(provider.authorize(await leave(browser), "u-17"))
    brought = {name: values[0] for name, values in parse_qs(back.query).items()} | changes
    query = urlencode({name: value for name, value in brought.items() if value is not None})
    answer = await browser.get(f"{back.path}?{query}")
    assert answer.status_code == 403
    assert REFUSED in answer.text
    assert not await is_in(browser)


async def test_a_parameter_that_stands_there_twice_counts_as_none(browser: Browser, provider: TestProvider) -> None:
    back = provider.authorize(await leave(browser), "u-17")
    assert (await browser.get(back + "&state=other")).status_code == 403


async def test_a_code_that_was_used_before_is_refused(browser: Browser, app: FastAPI, provider: TestProvider) -> None:
    """The other browser has a state of its own, but a code that was handed to the first one."""
    used = parse_qs(urlsplit(provider.authorize(await leave(browser), "u-17")).query)["code"][0]
    await browser.get("/login")
    other = Browser(app)
    url = urlsplit(provider.authorize(await leave(other), "u-18"))
    own = {name: values[0] for name, values in parse_qs(url.query).items()}
    answer = await other.get(f"{url.path}?{urlencode(own | {'code': used})}")
    assert answer.status_code == 403  # PKCE: the code belongs to the verifier of the first browser
    assert not await is_in(other)
    await other.client.aclose()


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"aud": []},
        {"aud": None},
        {"aud": [CLIENT, "other"]},
        {"aud": [CLIENT, "other"], "azp": "other"},
        {"azp": "other"},
        {"nonce": "other"},
        {"nonce": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"iat": None},
        {"iat": 99_999_999_999},
        {"nbf": 99_999_999_999},
        {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
        {"events": {LOGOUT_EVENT: {}}},
    ],
    ids=str,
)
async def test_an_id_token_with_a_wrong_claim_logs_nobody_in(
    browser: Browser, provider: TestProvider, changes: dict[str, Any]
) -> None:
    provider.claim_changes = changes
    assert (await log_in(browser, provider, "u-17")).status_code == 403
    assert not await is_in(browser)


async def test_an_audience_of_several_counts_when_it_says_that_we_are_meant(
    browser: Browser, provider: TestProvider
) -> None:
    provider.claim_changes = {"aud": [CLIENT, "other"], "azp": CLIENT}
    assert (await log_in(browser, provider, "u-17")).status_code == 303


@pytest.mark.parametrize("lie", ["none", "hmac", "unknown key", "same id", "not a token", "cut", "logout", "algorithm"])
async def test_an_id_token_that_is_not_signed_by_the_provider_logs_nobody_in(
    browser: Browser, provider: TestProvider, lie: str
) -> None:
    url = await leave(browser)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    claims = provider.claims(asked | {"sub": "u-17"})
    good = provider.signed(claims)
    provider.id_token = {
        "none": unsigned(provider.keys[0], claims, typ="JWT"),
        "hmac": hmac_with_public_key(provider.keys[0], claims, typ="JWT"),
        "unknown key": provider.signed(claims, signer=key("unknown")),
        "same id": provider.signed(claims, signer=key("first")),
        "not a token": "three.little.parts",
        "cut": good[:-8],
        "logout": provider.signed(claims, typ="logout+jwt"),
        "algorithm": f"{encoded({'alg': 'RS256', 'kid': 'first'})}.{good.split('.', 1)[1]}",
    }[lie]
    assert (await browser.get(provider.authorize(url, "u-17"))).status_code == 403
    assert not await is_in(browser)


async def test_a_rotated_key_is_found_and_a_withdrawn_one_is_not(
    browser: Browser, app: FastAPI, provider: TestProvider, clock: FakeClock
) -> None:
    await log_in(browser, provider, "u-17")
    old = provider.keys[0]
    provider.keys = [key("second")]
    second = Browser(app)
    assert (await log_in(second, provider, "u-17")).status_code == 303
    third = Browser(app)
    url = await leave(third)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    provider.id_token = provider.signed(provider.claims(asked | {"sub": "u-17"}), signer=old)
    assert (await third.get(provider.authorize(url, "u-17"))).status_code == 403
    for used in (second, third):
        await used.client.aclose()


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example"},
        {"authorization_endpoint": "http://id.example/authorize"},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "https://user@id.example/"},
    ],
    ids=str,
)
async def test_metadata_that_is_not_the_issuers_own_or_not_safe_is_not_used(
    browser: Browser, provider: TestProvider, changes: dict[str, Any]
) -> None:
    provider.metadata_changes = changes
    answer = await browser.submit("/login/provider", seen=await browser.get("/login"))
    assert answer.status_code == 503
    assert UNAVAILABLE in answer.text


async def test_a_provider_without_an_answer_is_told_counted_and_logged(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    url = await leave(browser)
    provider.token_status = 500
    with capture_logs() as told:
        answer = await browser.get(provider.authorize(url, "u-17"))
    assert answer.status_code == 503
    assert UNAVAILABLE in answer.text
    assert {"event": "login_provider_unavailable", "log_level": "warning", "code": "token_exchange"} in told
    assert context.metrics._provider_failures._value.get() == 1


async def test_a_refusal_shows_and_logs_nothing_of_what_was_brought(browser: Browser, provider: TestProvider) -> None:
    back = provider.authorize(await leave(browser), "u-17").replace("code-", "canary-")
    with capture_logs() as told:
        answer = await browser.get(back + "&error_description=canary-text")
    assert answer.status_code == 403
    assert "canary" not in answer.text
    assert "canary" not in str(told)


async def test_a_secret_that_the_provider_refuses_is_the_operators_business(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    url = await leave(browser)
    assert context.settings.login.oidc is not None
    object.__setattr__(context.settings.login.oidc, "client_secret", None)
    answer = await browser.get(provider.authorize(url, "u-17"))
    assert answer.status_code == 503


async def test_a_scanner_that_asks_for_the_way_back_uses_nothing_up(browser: Browser, provider: TestProvider) -> None:
    back = provider.authorize(await leave(browser), "u-17")
    assert (await browser.client.head(back)).status_code == 204
    assert (await browser.get(back)).status_code == 303


async def test_logging_out_ends_the_session_here_and_leads_to_the_provider(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    known(context, provider, "grace", "u-17")
    await log_in(browser, provider, "u-17")
    page = await browser.submit("/logout", seen=await browser.get("/desk/none"))
    asked = urlsplit(leads_to(page))
    assert f"{asked.scheme}://{asked.netloc}{asked.path}" == f"{provider.issuer}/logout"
    assert parse_qs(asked.query) == {"client_id": [CLIENT], "post_logout_redirect_uri": [f"{IDENTIFIER}/login"]}
    assert not await is_in(browser)
    assert logged(context)[-1] == ("logged_out", "grace", "{}")


async def test_logging_out_works_without_the_provider(
    browser: Browser, provider: TestProvider, clock: FakeClock
) -> None:
    await log_in(browser, provider, "u-17")
    seen = await browser.get("/desk/none")
    provider.metadata_changes = {"end_session_endpoint": None}
    clock.advance(601)  # what the provider says of itself is asked for anew
    answer = await browser.submit("/logout", seen=seen)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert not await is_in(browser)


async def said_out(browser: Browser, token: str | None, **headers: str) -> httpx2.Response:
    form = {} if token is None else {"logout_token": token}
    return await browser.client.post("/login/backchannel", data=form, headers=headers)


async def test_the_provider_ends_sessions_at_once_by_its_session_or_by_person(
    app: FastAPI, provider: TestProvider, context: Context
) -> None:
    known(context, provider, "grace", "u-17")
    stranger = Browser(app)
    for claims in ({"jti": "one", "sid": "sid-of-u-17"}, {"jti": "two", "sub": "u-17"}):
        hers, other = Browser(app), Browser(app)
        await log_in(hers, provider, "u-17")
        await log_in(other, provider, "u-18")
        answer = await said_out(stranger, provider.logout_token(**dict[str, Any](claims)))
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        assert not await is_in(hers)
        assert await is_in(other)
        assert logged(context)[-1] == ("logged_out", "grace", f'{{"by":"{provider.issuer}"}}')
        for used in (hers, other):
            await used.client.aclose()
    await stranger.client.aclose()


async def test_a_local_session_of_the_same_person_stays(app: FastAPI, provider: TestProvider, context: Context) -> None:
    known(context, provider, "grace", "u-17")
    local = Browser(app)
    await local.log_in("grace")
    assert (await said_out(local, provider.logout_token(sub="u-17"))).status_code == 200
    assert await is_in(local)
    await local.client.aclose()


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"events": None},
        {"events": {}},
        {"events": {LOGOUT_EVENT: None}},
        {"events": [LOGOUT_EVENT]},
        {"nonce": "x"},
        {"jti": None},
        {"sub": None},
        {"sub": 7},
        {"iat": 1},
        {"iat": None},
        {"iat": 99_999_999_999},
        {"exp": 1},
        {"typ": "at+jwt"},
        {"signer": key("first")},
        {"signer": key("unknown")},
    ],
    ids=lambda changes: str({name: "another key" if name == "signer" else value for name, value in changes.items()}),
)
async def test_a_word_that_is_not_the_providers_ends_nothing(
    browser: Browser, provider: TestProvider, changes: dict[str, Any]
) -> None:
    await log_in(browser, provider, "u-17")
    answer = await said_out(browser, provider.logout_token(**({"sub": "u-17"} | changes)))
    assert (answer.status_code, answer.json()) == (400, {"error": "invalid_request"})
    assert await is_in(browser)


async def test_a_word_of_the_provider_counts_once(browser: Browser, app: FastAPI, provider: TestProvider) -> None:
    word = provider.logout_token(sub="u-17")
    assert (await said_out(browser, word)).status_code == 200
    await log_in(browser, provider, "u-17")
    assert (await said_out(browser, word)).status_code == 400
    assert await is_in(browser)


async def test_an_id_token_ends_no_session(browser: Browser, provider: TestProvider) -> None:
    await log_in(browser, provider, "u-17")
    token = provider.signed(provider.claims({"sub": "u-17", "nonce": "n"}))
    assert (await said_out(browser, token)).status_code == 400
    assert await is_in(browser)


async def test_strangers_who_invent_key_ids_do_not_make_us_knock(browser: Browser, provider: TestProvider) -> None:
    await log_in(browser, provider, "u-17")
    before = provider.asked.count("/jwks")
    for number in range(5):
        await said_out(browser, provider.logout_token(signer=key(f"invented-{number}"), sub="u-17"))
    assert provider.asked.count("/jwks") == before


@pytest.mark.parametrize("body", [None, "", "not.a.token", "x" * 70_000])
async def test_a_logout_without_a_token_is_refused(browser: Browser, body: str | None) -> None:
    assert (await said_out(browser, body)).status_code == 400
    sent = await browser.client.post("/login/backchannel", content=b"{}", headers={"Content-Type": "application/json"})
    assert sent.status_code == 400


async def test_both_ways_are_offered_and_work(browser: Browser, provider: TestProvider) -> None:
    page = await browser.get("/login")
    assert 'action="/login"' in page.text
    assert "Log in with single sign-on" in page.text
    assert (await browser.log_in("grace")).status_code == 303


@pytest.mark.parametrize("ways", [{"local": False}])
async def test_without_local_accounts_there_is_no_form_and_no_way_around_it(
    browser: Browser, provider: TestProvider
) -> None:
    page = await browser.get("/login")
    assert 'type="password"' not in page.text
    answer = await browser.submit("/login", seen=page, name="grace", password="a long enough password")
    assert answer.status_code == 404
    assert not await is_in(browser)
    assert (await log_in(browser, provider, "u-17")).status_code == 303


async def test_logging_in_changes_the_secret_and_ends_the_session_before(
    browser: Browser, provider: TestProvider, context: Context
) -> None:
    """Session fixation: a secret that somebody else put into the browser is worth nothing afterwards."""
    known(context, provider, "grace", "u-17")
    url = await leave(browser)
    browser.client.cookies.set("__Host-arap-desk", "chosen-by-somebody-else", domain="approvals.example")
    await browser.get(provider.authorize(url, "u-17"))
    assert browser.client.cookies["__Host-arap-desk"] != "chosen-by-somebody-else"
    assert len(context.database.read_now(lambda session: web_sessions_of(session, "grace"))) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"groups_claim": "roles"},
        {"groups_claim": None},
        {"groups": {"maintainers": "staff"}},
        {"issuer": "https://other.example"},
        None,
    ],
    ids=str,
)
async def test_what_the_provider_said_of_groups_counts_only_while_it_is_read_the_same_way(
    browser: Browser, provider: TestProvider, context: Context, tmp_path: Path, changes: dict[str, Any] | None
) -> None:
    """From the start with another configuration on, until the person logs in anew; what was set here stays."""
    known(context, provider, "grace", "u-17")
    provider.people["u-17"] = {"groups": ["treasurers"], "roles": ["auditors"]}
    await log_in(browser, provider, "u-17")
    assert await may(context, "grace") == {"maintainers", "treasurers"}
    login = {} if changes is None else {"oidc": provider.settings(**changes)}
    settings = settings_for(
        tmp_path, database=context.settings.database, policy=POLICY, insecure_loopback=True, login=login
    )
    async with service_context(settings, clock=context.clock) as other:
        assert await may(other, "grace") == {"maintainers"}
        if changes is not None and "issuer" not in changes:
            later = Browser(app_for(other))
            assert (await log_in(later, provider, "u-17")).status_code == 303
            assert await may(other, "grace") == {"maintainers"} | (
                {"auditors"} if changes.get("groups_claim") else set()
            )
            await later.client.aclose()


async def may(context: Context, person_id: str) -> frozenset[str]:
    """The groups by which the person would be judged if he decided now."""
    caller = Caller(
        iss=IDENTIFIER, sub=person_id, client_id="desk", scopes=frozenset(), channel="desk", person_id=person_id
    )
    return await context.database.read(lambda session: decider_of(session, caller).person.groups)
