"""An office for stories in the browser: one desk, one browser, people with sessions, and the gate that asks and runs.

The gate is written out over HTTP, as in `tests/stories/test_rest_round_trip.py`; nobody logs in by a form, since the
log-in has tests of its own. See `test_login.py`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext

from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Membership
from arap_service.store.sessions import remove_web_sessions_of
from arap_service.web import passwords, sessions
from arap_service.workers import expire_due, keep_step_times
from tests.browser.keyboard import Keyboard
from tests.browser.server import RunningDesk, running_desk
from tests.service import bearer
from tests.web.desk import QUICK, add_person

ADA: Final = {"type": "user", "id": "ada"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that somebody has to decide: the question of the gate, and the request that became of it."""

    id: str
    question: dict[str, Any]

    @property
    def path(self) -> str:
        """Where the link in a mail leads."""
        return f"/desk/requests/{self.id}"


@dataclass(slots=True)
class Office:
    """A desk and one window of a browser, in which people take turns; `ran` are the calls that went through."""

    desk: RunningDesk
    context: BrowserContext
    ran: list[Mapping[str, Any]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def become(self, person: str, path: str = "/desk") -> Keyboard:
        """This person, freshly logged in, opens a page."""
        page = self.context.pages[0]
        page.goto("about:blank")  # nothing of the page before refreshes itself while the person changes
        self.context.clear_cookies()
        self.context.add_cookies([self._session(person)])
        page.goto(path)
        return Keyboard(page)

    def ask(
        self, tool: str, wanted: Mapping[str, Any] | None = None, /, server: str = "bank", **arguments: Any
    ) -> Asked:
        """The gate wants to run a tool for Ada, is denied, and asks for an approval."""
        question = _question(tool, server, arguments)
        self.desk.clock.advance(1)  # so that lists have an order
        denial = self._denied(question)
        access = {} if wanted is None else {"requested_access": dict(wanted)}
        task = self._post("/access/v1/request", {**question, "denial": denial, **access})["task"]
        return Asked(task["id"], question)

    def ask_for_things(self, kind: str, *names: str) -> Asked:
        """One request for several things that are no calls."""
        about = {"subject": ADA, "action": {"name": "open"}}
        things = [{**about, "resource": {"type": kind, "id": name}, "context": {}} for name in names]
        self.desk.clock.advance(1)
        items = [
            {"resource": thing["resource"], "action": thing["action"], "denial": self._denied(thing)}
            for thing in things
        ]
        task = self._post("/access/v1/request", {"subject": ADA, "context": {}, "items": items})["task"]
        return Asked(task["id"], things[0])

    def denied(self, tool: str, /, server: str = "bank", **arguments: Any) -> Asked:
        """The gate is denied and asks for nothing; the id is that of the denial."""
        question = _question(tool, server, arguments)
        return Asked(self._denied(question)["evaluation_id"], question)

    def run(self, asked: Asked) -> bool:
        """The gate looks how the request stands and runs the call if policy lets it; whether it ran."""
        answer = self._get(f"/access/v1/request/{asked.id}")
        if answer["task"]["status"] != "approved":
            return False
        if not self.allows(asked, **asked.question["context"][TOOL_CALL]["arguments"]):
            return False
        self.ran.append(asked.question["context"][TOOL_CALL]["arguments"])
        said = {"disposition": "approved-executed", "at": self.desk.clock().isoformat(), "generation": 1}
        self._post(f"/access/v1/request/{asked.id}/report", said)
        return True

    def allows(self, asked: Asked, **arguments: Any) -> bool:
        """Whether the approval of a request allows the same call with these arguments."""
        approval = self._get(f"/access/v1/request/{asked.id}")["result"]["approval"]
        call = {**asked.question["context"][TOOL_CALL], "arguments": arguments}
        given = {"arguments_hash": arguments_hash(arguments), TOOL_CALL: call, "approval": approval}
        question = {**asked.question, "context": {**asked.question["context"], **given}}
        return bool(self._post("/access/v1/evaluation", question)["decision"])

    def told(self, asked: Asked) -> dict[str, Any]:
        """What the requester's side learns of the decision."""
        found: dict[str, Any] = self._get(f"/access/v1/request/{asked.id}")["task"]
        return found

    def set_rules(self, policy: str) -> None:
        """Put other rules into force."""
        self.desk.context.settings.policy_path.write_text(policy, encoding="utf-8")
        assert self.desk.context.policy.refresh()

    def _denied(self, question: Mapping[str, Any]) -> dict[str, Any]:
        denied = self._post("/access/v1/evaluation", question)["context"]
        offer = denied["access_request"]
        binding = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
        return {"evaluation_id": denied["evaluation_id"], **binding}

    def _session(self, person: str) -> Any:
        context, secret = self.desk.context, self.desk.context.new_id("desk")
        now = context.clock()
        proved = sessions.Proved(
            person_id=person, iss=context.settings.identifier, sub=person, at=now, browser="Chrome on Linux"
        )

        def work(session: WriteSession) -> None:
            login = context.settings.login
            remove_web_sessions_of(session, person)
            sessions.begin(session, proved, settings=login, secret=secret, old=None, now=now)

        context.database.write_now(work)
        # Browsers treat this machine as a safe place; the interface for cookies wants to hear it.
        url = self.desk.url.replace("http:", "https:")
        return {"name": sessions.COOKIE, "value": secret, "url": url, "httpOnly": True, "secure": True}

    def _get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._call("POST", path, body)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        async def over_http() -> httpx2.Response:
            headers = bearer(self.desk.context, "gate")
            async with httpx2.AsyncClient(base_url=self.desk.url, headers=headers, timeout=60) as gate:
                return await gate.request(method, path, json=body)

        answer = self.desk.portal.call(over_http)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


@contextmanager
def open_office(
    browser: Browser,
    folder: Path,
    policy: str,
    people: Mapping[str, tuple[str, ...]],
    *,
    script: bool = True,
    **changes: Any,
) -> Iterator[Office]:
    """An office with these people in these groups; Ada is who asks. Broken rules of a page fail it at its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_HASHER", QUICK)
        with running_desk(folder, policy=policy, **changes) as desk:
            for person, groups in people.items():
                _employ(desk, person, groups)
            add_person(desk.context, "ada", name="Ada Asker", identities=("https://id.example|ada",))
            context = browser.new_context(base_url=desk.url, timezone_id="UTC", java_script_enabled=script)
            try:
                office = Office(desk, context)
                page = context.new_page()
                page.set_default_timeout(40_000)
                page.on("pageerror", lambda error: office.complaints.append(str(error)))
                page.on("console", lambda said: _complain(office, said.text))
                yield office
                assert office.complaints == []
            finally:
                context.close()


def _employ(desk: RunningDesk, person: str, groups: tuple[str, ...]) -> None:
    if person not in {"grace", "linus"}:  # whom every desk of these tests has
        add_person(desk.context, person, name=person.title(), groups=groups)
        return
    desk.context.database.write_now(
        lambda session: session.add_all(Membership(person_id=person, group_name=group) for group in groups)
    )


def _question(tool: str, server: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    call = {"server": server, "tool": tool, "arguments": dict(arguments)}
    return {
        "subject": ADA,
        "resource": {"type": "tool", "id": tool},
        "action": {"name": "tools/call"},
        "context": {"arguments_hash": arguments_hash(arguments), "server": server, TOOL_CALL: call},
    }


def _complain(office: Office, said: str) -> None:
    if "Content Security Policy" in said:
        office.complaints.append(said)


def later(office: Office, **span: float) -> None:
    """Let time pass, and the service do what is due by then."""
    office.desk.clock.advance(timedelta(**span).total_seconds())
    for work in (keep_step_times, expire_due):
        office.desk.portal.call(work, office.desk.context)
