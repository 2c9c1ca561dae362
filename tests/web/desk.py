"""A desk for tests: the real application on a real database, with people who have accounts, and a browser of sorts."""

import re
from collections.abc import Mapping
from typing import Any, Final

import argon2
import httpx2
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, Identity, Membership, Person
from tests.service import bearer, http

PASSWORD: Final = "a long enough password"
# Real passwords take as long as they should; dozens of log-ins in tests need not.
QUICK: Final = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
_HASH: Final = QUICK.hash(PASSWORD)
SAME_SITE: Final = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
_TOKEN: Final = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


def add_person(
    context: Context, person_id: str, *, name: str, groups: tuple[str, ...] = (), identities: tuple[str, ...] = ()
) -> None:
    """A person with an account of the same name and `PASSWORD`; `identities` are `iss|sub`."""
    now = context.clock()

    def work(session: WriteSession) -> None:
        session.add(Person(id=person_id, name=name, created_at=now))
        session.flush()
        session.add(Account(login=person_id, person_id=person_id, password_hash=_HASH, created_at=now, changed_at=now))
        session.add_all(Membership(person_id=person_id, group_name=group) for group in groups)
        for identity in identities:
            iss, _, sub = identity.partition("|")
            session.add(Identity(iss=iss, sub=sub, person_id=person_id))

    context.database.write_now(work)


def form_token(page: httpx2.Response) -> str:
    """The token of the first form on a page."""
    found = _TOKEN.search(page.text)
    assert found is not None, "the page has no form"
    return found[1]


def cookie_of(response: httpx2.Response, name: str) -> str | None:
    """The `Set-Cookie` line for `name`."""
    return next((line for line in response.headers.get_list("set-cookie") if line.startswith(name + "=")), None)


class Browser:
    """Keeps cookies, follows no redirect by itself, and fills in forms as a browser on the same site would."""

    def __init__(self, app: FastAPI) -> None:
        self.client = http(app)

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open a page."""
        return await self.client.get(path, headers=headers)

    async def post(
        self, path: str, fields: Mapping[str, Any], *, headers: Mapping[str, str] = SAME_SITE
    ) -> httpx2.Response:
        """Send a form, exactly as given."""
        return await self.client.post(path, data=dict(fields), headers=dict(headers))

    async def submit(self, path: str, *, seen: httpx2.Response, **fields: str) -> httpx2.Response:
        """Send a form of the page `seen`."""
        return await self.post(path, {"form_token": form_token(seen), **fields})

    async def log_in(self, name: str, *, password: str = PASSWORD) -> httpx2.Response:
        """Fill in the log-in form."""
        return await self.submit("/login", seen=await self.get("/login"), name=name, password=password, next="/desk")


async def ask(
    gate: httpx2.AsyncClient,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    server: str = "git",
    subject: str = "ada",
    justification: str | None = None,
) -> str:
    """Ask for a call that needs approval, over HTTP as any enforcement point does; the id of the request."""
    call = {"server": server, "tool": tool, "arguments": dict(arguments)}
    about = {
        "subject": {"type": "user", "id": subject},
        "resource": {"type": "tool", "id": tool},
        "action": {"name": "tools/call"},
        "context": {"arguments_hash": arguments_hash(arguments), "server": server, TOOL_CALL: call},
    }
    denied = (await gate.post("/access/v1/evaluation", json=about)).json()
    assert denied["decision"] is False, denied
    told = denied["context"]
    access = told["access_request"]
    denial = {
        "evaluation_id": told["evaluation_id"],
        "evaluated_at": told["evaluated_at"],
        "reason": told["reason"],
        "binding_token": access["binding_token"],
        "expires_at": access["expires_at"],
    }
    wanted = {} if justification is None else {"requested_access": {"business_justification": justification}}
    answer = await gate.post("/access/v1/request", json={**about, "denial": denial, **wanted})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task"]["id"])


async def commit_request(app: FastAPI, context: Context, message: str = "Fix rounding") -> str:
    """A request that one maintainer decides."""
    async with http(app, headers=bearer(context, "gate")) as gate:
        return await ask(gate, "git_commit", {"repo_path": "/srv/ledger", "message": message})


async def transfer_request(app: FastAPI, context: Context) -> str:
    """A request that two people decide; one of its values is a secret."""
    arguments = {"amount": 50_000, "to": "acct-991", "token": "hunter2-hunter2"}
    async with http(app, headers=bearer(context, "gate")) as gate:
        return await ask(gate, "wire_transfer", arguments, server="bank")


async def decide(browser: Browser, task_id: str, decision: str, **fields: str) -> httpx2.Response:
    """Open the request and send its form at once."""
    seen = await browser.get(f"/desk/requests/{task_id}")
    return await browser.submit(
        f"/desk/requests/{task_id}/decision", seen=seen, decision=decision, **({"version": "1"} | fields)
    )


async def report(app: FastAPI, context: Context, task_id: str) -> None:
    """What the enforcement point says after the call has run."""
    said = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}
    async with http(app, headers=bearer(context, "gate")) as gate:
        answer = await gate.post(f"/access/v1/request/{task_id}/report", json=said)
    assert answer.is_success, answer.text
