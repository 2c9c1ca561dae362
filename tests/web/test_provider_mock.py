"""Logging in at `oidc-provider-mock`, a provider of somebody else's that runs in this process."""

import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from fastapi import FastAPI
from werkzeug.serving import make_server

from arap_service.context import Context
from arap_service.provider_people import made_id
from arap_service.store.people import find_person
from arap_service.surroundings import utc_now
from tests.service import service_context, settings_for
from tests.web.desk import Browser
from tests.web.policy import POLICY
from tests.web.provider import leads_to, leave

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it imports what its own library calls old
    import oidc_provider_mock

# What it uses of its own library is called old there.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")]


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    person = oidc_provider_mock.User(
        sub="u-17",
        claims={"name": "Ada Lovelace", "email": "ada@id.example", "email_verified": True, "groups": ["maintainers"]},
    )
    app = oidc_provider_mock.app(require_nonce=True, user_claims=[person])
    app.debug = False
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
async def context(service_url: str, tmp_path: Path, issuer: str) -> AsyncIterator[Context]:
    oidc: dict[str, Any] = {
        "issuer": issuer,
        "client_id": "desk",
        "client_secret": "any will do",
        "groups_claim": "groups",
    }
    changes = {"insecure_loopback": True, "login": {"local": False, "oidc": {**oidc, "create_people": True}}}
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, **changes)
    async with service_context(settings, clock=utc_now) as opened:
        yield opened


async def authorized(url: str, sub: str) -> str:
    """Log in on the page of the provider; the address that the browser is sent back to."""
    async with httpx2.AsyncClient() as away:
        answer = await away.post(url, data={"sub": sub})
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


async def test_a_person_logs_in_is_added_and_logs_out_on_both_sides(
    browser: Browser, app: FastAPI, context: Context, issuer: str
) -> None:
    back = await authorized(await leave(browser), "u-17")
    assert (await browser.get(back)).status_code == 303
    assert "Ada Lovelace" in (await browser.get("/desk")).text
    account = await browser.get("/desk/account")
    assert "maintainers" in account.text
    person = context.database.read_now(lambda session: find_person(session, made_id(issuer, "u-17")))
    assert person is not None
    assert person.email == "ada@id.example"
    out = await browser.submit("/logout", seen=account)
    assert leads_to(out).startswith(f"{issuer}/oauth2/end_session?")
    assert (await browser.get("/desk")).status_code == 303


async def test_a_code_of_another_log_in_has_another_nonce_and_is_refused(
    browser: Browser, app: FastAPI, issuer: str
) -> None:
    """This provider does not check PKCE, so here it is the nonce that protects."""
    other = Browser(app)
    theirs = parse_qs(urlsplit(await authorized(await leave(other), "u-17")).query)["code"][0]
    back = urlsplit(await authorized(await leave(browser), "u-18"))
    state = parse_qs(back.query)["state"][0]
    answer = await browser.get(f"/login/callback?code={theirs}&state={state}")
    assert answer.status_code == 403
    assert (await browser.get("/desk")).status_code == 303
    await other.client.aclose()
