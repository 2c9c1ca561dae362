"""Logging in and out at the certified implementation from npm, `oidc-provider`, as a browser does it.

What it publishes, signs and demands is its own; only people and the client are ours. OpenID Connect Core 1.0,
RP-Initiated Logout 1.0, Back-Channel Logout 1.0.
"""

import queue
import re
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urljoin

import httpx2
import pytest

from arap_service.context import Context
from arap_service.store.directory import add_identity
from arap_service.store.migrate import upgrade
from arap_service.store.people import groups_of
from arap_service.store.sessions import web_sessions_of
from arap_service.surroundings import utc_now
from tests.node.programs import FOLDER, PATIENCE_SECONDS, node, plain_environment
from tests.service import IDENTIFIER, app_for, service_context, settings_for
from tests.web.desk import Browser, add_person
from tests.web.policy import POLICY
from tests.web.provider import CLIENT, CLIENT_SECRET, leads_to, leave

pytestmark = [pytest.mark.anyio, pytest.mark.node]
BACK = f"{IDENTIFIER}/login/callback"


@dataclass(frozen=True, slots=True)
class Running:
    """The provider, and what it has said about sessions that ended."""

    issuer: str
    words: "queue.Queue[str]"


@pytest.fixture
def running(programs: None, tmp_path: Path) -> Iterator[Running]:
    words: queue.Queue[str] = queue.Queue()

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            words.put(parse_qs(body)["logout_token"][0])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        said_to = f"http://127.0.0.1:{listener.server_port}/"
        script = [node(), "clients/openid_provider.mjs", CLIENT, CLIENT_SECRET, BACK, f"{IDENTIFIER}/login", said_to]
        try:
            with subprocess.Popen(
                script,
                cwd=FOLDER,
                env=plain_environment(tmp_path),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
                watchdog.start()
                try:
                    lines = (line for line in process.stdout if line.startswith("Serving "))
                    yield Running(next(lines).removeprefix("Serving ").strip(), words)
                finally:
                    watchdog.cancel()
                    process.stdin.close()
                    process.wait(PATIENCE_SECONDS)
        finally:
            listener.shutdown()
            thread.join()


@pytest.fixture
async def context(running: Running, tmp_path: Path) -> AsyncIterator[Context]:
    url = f"sqlite:///{tmp_path / 'arap.db'}"
    upgrade(url)
    oidc = {
        "issuer": running.issuer,
        "client_id": CLIENT,
        "client_secret": CLIENT_SECRET,
        "scopes": ["openid", "profile", "email", "groups"],
        "groups_claim": "groups",
    }
    changes = {"insecure_loopback": True, "login": {"oidc": oidc}}
    async with service_context(settings_for(tmp_path, database=url, policy=POLICY, **changes), clock=utc_now) as opened:
        add_person(opened, "grace", name="Grace Hopper", groups=("maintainers",))
        opened.database.write_now(lambda session: add_identity(session, "grace", iss=running.issuer, sub="u-17"))
        yield opened


class Away:
    """The same browser on the pages of the provider: follows its redirects and fills in its forms."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._client = httpx2.AsyncClient(base_url=issuer, timeout=30)

    async def log_in(self, url: str, sub: str) -> str:
        """Log in and agree; the address that the browser is sent back to."""
        page = await self._until(await self._client.get(url))
        while isinstance(page, httpx2.Response):
            fields = {"prompt": "login", "login": sub, "password": "x"} if 'name="login"' in page.text else {}
            page = await self._submit(page, **(fields or {"prompt": "consent"}))
        return page

    async def log_out(self, url: str) -> str:
        """Say yes to logging out there; the address that the browser is sent back to."""
        page = await self._until(await self._client.get(url))
        assert isinstance(page, httpx2.Response)
        hidden = dict(re.findall(r'name="(xsrf)" value="([^"]+)"', page.text))
        back = await self._submit(page, **hidden, logout="yes")
        assert isinstance(back, str)
        return back

    async def close(self) -> None:
        await self._client.aclose()

    async def _submit(self, page: httpx2.Response, **fields: str) -> httpx2.Response | str:
        form = re.search(r'<form[^>]*action="([^"]+)"', page.text)
        assert form is not None, page.text
        return await self._until(await self._client.post(urljoin(str(page.url), unescape(form[1])), data=fields))

    async def _until(self, answer: httpx2.Response) -> httpx2.Response | str:
        while answer.is_redirect:
            where = urljoin(str(answer.url), answer.headers["location"])
            if not where.startswith(self._issuer):
                return where
            answer = await self._client.get(where)
        assert answer.status_code == 200, answer.text
        return answer


async def test_a_person_logs_in_decides_afresh_and_is_logged_out_by_the_provider(
    running: Running, context: Context
) -> None:
    browser, away = Browser(app_for(context)), Away(running.issuer)
    back = await away.log_in(await leave(browser), "u-17")
    assert back.startswith(f"{BACK}?")
    assert "iss=" in back
    answer = await browser.get(back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk")
    assert "Grace Hopper" in (await browser.get("/desk")).text
    assert context.database.read_now(lambda session: groups_of(session, "grace")) == {"maintainers", "treasurers"}
    assert (await browser.get(back)).status_code == 403  # a second time it counts for nothing

    # Once more for a decision that demands it: the provider must ask, although its own session still lasts.
    page = await browser.get("/desk/again")
    afresh = leads_to(await browser.submit("/desk/again/provider", seen=page, next="/desk"))
    before = browser.client.cookies["__Host-arap-desk"]
    assert (await browser.get(await away.log_in(afresh, "u-17"))).status_code == 303
    assert browser.client.cookies["__Host-arap-desk"] != before
    [row] = context.database.read_now(lambda session: web_sessions_of(session, "grace"))
    assert abs((utc_now() - row.authenticated_at).total_seconds()) < 60

    # Logging out there ends the session of another browser here, by the word of the provider alone.
    leaving = leads_to(await browser.submit("/logout", seen=await browser.get("/desk/none")))
    other = Browser(app_for(context))
    assert (await other.get(await away.log_in(await leave(other), "u-17"))).status_code == 303
    assert (await other.get("/desk")).status_code == 200
    assert (await away.log_out(leaving)) == f"{IDENTIFIER}/login"
    word = running.words.get(timeout=10)
    said = await browser.client.post("/login/backchannel", data={"logout_token": word})
    assert said.status_code == 200, said.text
    assert (await other.get("/desk")).status_code == 303
    again = await browser.client.post("/login/backchannel", data={"logout_token": word})
    assert again.status_code == 400
    for used in (browser.client, other.client, away):
        await (used.close() if isinstance(used, Away) else used.aclose())


async def test_somebody_whom_only_the_provider_knows_is_refused(running: Running, context: Context) -> None:
    browser, away = Browser(app_for(context)), Away(running.issuer)
    answer = await browser.get(await away.log_in(await leave(browser), "u-18"))
    assert answer.status_code == 403
    assert "You could not be logged in" in answer.text
    assert (await browser.get("/desk")).status_code == 303
    await browser.client.aclose()
    await away.close()
