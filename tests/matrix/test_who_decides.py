"""One table of who may decide, tried on every way to decide: the desk, the API, the command line, a link in a message.

Issue 5: "the web forbids self-approval and the command line allows it: one rule, four transports, one test matrix".
What came of each attempt is read from the record of the request, so that no way can tell one thing and do another.
Answers to a task over MCP (`tasks/update`) decide nothing, whoever sends them; that is shown in `tests/gate`.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from typer.testing import CliRunner

from arap_service import requests
from arap_service.cli import app as commands
from arap_service.context import Context
from arap_service.keys import ACCESS_TYP, Use
from arap_service.requests.delegations import Wanted, delegate_in
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, Identity, Membership, Person
from arap_service.surroundings import utc_now
from arap_service.web import passwords
from tests.requests.world import ISSUER, World, person, question
from tests.service import CLIENTS, app_for, http, service_context, settings_for
from tests.web.desk import PASSWORD, QUICK, Browser

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

RULES = """
version: 1
entities:
  user: {alice: {manager: mia}}
  tool: {wire_transfer: {owner: [otto]}}
clients: [{client: gate, may: 'true'}]
rules: [{id: ask, when: 'true', request: work}]
templates:
  work:
    title: Work
    explanation: Somebody has to agree.
    reason_required: []
    evaluators:
      - {id: small-sums, when: 'call.?arguments.?amount.orValue(1000) <= 1', decision: approve, reason: a small sum}
    steps:
      - id: decide
        title: Decide
        quorum: 4
        groups: [treasury]
        relations: [{of: subject, is: manager}, {of: resource, is: owner}]
        who: person.id == "lou"
        resolvers: [risk-engine]
"""
MAY = "may"
PEOPLE: Mapping[str, tuple[str, ...]] = {
    "alice": ("treasury",),
    "susan": ("treasury",),
    "agnes": ("treasury",),
    "mia": (),
    "otto": (),
    "lou": (),
    "bob": ("treasury",),
    "dora": (),
    "dean": (),
    "rita": ("treasury",),
    "gone": ("treasury",),
    "zoe": ("other",),
}
ALSO: Mapping[str, tuple[str, str]] = {
    "susan": (ISSUER, "gate"),  # she is who the submitting client is
    "agnes": ("https://agents.example", "bot"),  # and she the agent
}
TABLE: Mapping[str, str] = {
    "alice": "is_subject",
    "susan": "is_submitter",
    "agnes": "is_actor",
    "mia": MAY,  # manager of the subject
    "otto": MAY,  # owner of the resource
    "lou": MAY,  # named by an expression
    "bob": MAY,  # member of the group
    "dora": MAY,  # deputy of a member
    "dean": "absent_may_not",  # deputy of the subject
    "rita": "already_decided",  # by her other account
    "gone": "not_active",
    "zoe": "not_assigned",
    "risk-engine": MAY,  # the resolver that the step names
    "other-engine": "not_assigned",
    "small-sums": "not_assigned",  # a machine that bears the name of an evaluator
}
MACHINES = frozenset({"risk-engine", "other-engine", "small-sums"})

Attempt = Callable[[str, str, int], Awaitable[None]]


def seed(session: WriteSession) -> None:
    """Everybody, with an account of the same name and an identity at the issuer; Rita has two of each."""
    now = utc_now()
    hashed = QUICK.hash(PASSWORD)
    for who, groups in PEOPLE.items():
        session.add(Person(id=who, name=who.title(), active=who != "gone", created_at=now))
        session.flush()
        for name in (who, f"{who}-2") if who == "rita" else (who,):
            session.add(Account(login=name, person_id=who, password_hash=hashed, created_at=now, changed_at=now))
            session.add(Identity(iss=ISSUER, sub=f"{name}@corp.example", person_id=who))
        session.add_all(Membership(person_id=who, group_name=group) for group in groups)
        if who in ALSO:
            iss, sub = ALSO[who]
            session.add(Identity(iss=iss, sub=sub, person_id=who))


@dataclass(frozen=True)
class Office:
    """A service with everybody in it, and the configuration that commands read."""

    world: World
    config: Path

    @property
    def ctx(self) -> Context:
        return self.world.ctx

    def token(self, who: str) -> str:
        """An access token of a person, or of a machine."""
        issued = int(utc_now().timestamp())
        login = "rita-2" if who == "rita" else who
        claims = {
            "iss": ISSUER,
            "sub": who if who in MACHINES else f"{login}@corp.example",
            "client_id": who if who in MACHINES else "phone-app",
            "aud": self.ctx.settings.identifier,
            "iat": issued,
            "exp": issued + 600,
            "jti": self.ctx.new_id("at"),
            "scope": "approval:read approval:resolve",
        }
        return self.ctx.keys.sign(Use.ACCESS_TOKEN, claims, ACCESS_TYP)

    async def outcome(self, task_id: str) -> str | None:
        """What the record says of the last attempt: that it counted, the rule against it, or nothing at all."""
        told = [each for each in await self.world.audit(task_id) if each.kind in {"vote_cast", "decision_refused"}]
        if not told:
            return None
        return MAY if told[-1].kind == "vote_cast" else str(json.loads(told[-1].detail)["code"])

    async def tried(self, attempt: Attempt) -> dict[str, str | None]:
        """What comes of it when everybody tries to decide a request of his own in this way."""
        found: dict[str, str | None] = {}
        for who in TABLE:
            task_id = await self.world.pending()
            if who == "rita":
                await requests.decide(self.ctx, person("rita"), task_id, decision="approve", version=1)
            before = len(await self.world.audit(task_id))
            await attempt(who, task_id, await self.world.version(task_id))
            is_tried = len(await self.world.audit(task_id)) > before
            found[who] = await self.outcome(task_id) if is_tried else None
        return found


@pytest.fixture
async def office(service_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    """Everybody is there, Bob and Alice have deputies, and the time is the real one, since commands read the clock."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    settings = settings_for(tmp_path, database=service_url, policy=RULES)
    config = tmp_path / "arap.json"
    config.write_text(
        json.dumps(
            {
                "identifier": settings.identifier,
                "database": service_url,
                "policy_path": str(settings.policy_path),
                "key_file": str(settings.key_file),
                "builtin_issuer": {"enabled": True, "clients": CLIENTS},
            }
        ),
        encoding="utf-8",
    )
    async with service_context(settings, clock=utc_now) as ctx:
        await ctx.database.write(seed)
        for absent, deputy in (("bob", "dora"), ("alice", "dean")):
            now = utc_now()
            wanted = Wanted(person_id=absent, deputy_id=deputy, starts_at=now, ends_at=now + timedelta(hours=9))
            work = partial(
                delegate_in,
                wanted=wanted,
                policy=ctx.policy.current(),
                actor="test",
                new_id=ctx.new_id("dlg"),
                now=now,
            )
            await ctx.database.write(work)
        yield Office(World(ctx, None), config)  # type: ignore[arg-type]  # the clock here is the real one


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.requirement("ARS-115", "ARS-116", "ARS-117", "GOV-09", "GOV-12")
async def test_over_the_api(office: Office, decision: str) -> None:
    async with http(app_for(office.ctx)) as client:

        async def attempt(who: str, task_id: str, version: int) -> None:
            answer = await client.post(
                f"/resolver/v1/requests/{task_id}/decisions",
                json={"decision": decision, "version": version},
                headers={"Authorization": f"Bearer {office.token(who)}"},
            )
            assert (answer.status_code == 200) == (TABLE[who] == MAY), (who, answer.text)

        assert await office.tried(attempt) == TABLE


@pytest.mark.requirement("ARS-115", "ARS-116", "GOV-09", "GOV-12")
async def test_at_the_desk(office: Office) -> None:
    app = app_for(office.ctx)

    async def attempt(who: str, task_id: str, version: int) -> None:
        browser = Browser(app)
        await browser.log_in("rita-2" if who == "rita" else who)
        seen = await browser.get(f"/desk/requests/{task_id}")
        if "form_token" in seen.text:
            fields = {"decision": "approve", "version": str(version), "reason": "", "lifetime": ""}
            await browser.submit(f"/desk/requests/{task_id}/decision", seen=seen, **fields)
        await browser.client.aclose()

    # Who is not active is not let in, and a machine has no account.
    expected = {**TABLE, "gone": None, **dict.fromkeys(MACHINES)}
    assert await office.tried(attempt) == expected


@pytest.mark.parametrize("by", ["password", "token"])
@pytest.mark.requirement("ARS-115", "ARS-116", "ARS-117", "GOV-09", "GOV-12")
async def test_on_the_command_line(office: Office, by: str) -> None:
    async def attempt(who: str, task_id: str, version: int) -> None:
        login = "rita-2" if who == "rita" else who
        secret = {"ARAP_TOKEN": office.token(who)} if by == "token" else {"ARAP_PASSWORD": PASSWORD}
        arguments = ["requests", "approve", task_id, "--version", str(version), "--config", str(office.config)]
        arguments += [] if by == "token" else ["--as", login]
        done = await anyio.to_thread.run_sync(partial(CliRunner().invoke, commands, arguments, env=secret))
        assert (done.exit_code == 0) == (TABLE[who] == MAY and (by == "token" or who not in MACHINES)), done.output
        assert PASSWORD not in done.output

    expected: Mapping[str, str | None] = TABLE
    if by == "password":
        expected = {**TABLE, "gone": None, **dict.fromkeys(MACHINES)}
    assert await office.tried(attempt) == expected


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.requirement("GOV-09")
async def test_by_opening_a_link_nobody_decides(office: Office, method: str) -> None:
    """Whatever a message, a scanner or a preview puts behind the address."""
    app = app_for(office.ctx)

    async def attempt(who: str, task_id: str, version: int) -> None:
        browser = Browser(app)
        await browser.log_in(who)
        for path in (f"/desk/requests/{task_id}/decision", f"/desk/requests/{task_id}"):
            await browser.client.request(method, path, params={"decision": "approve", "version": version})
        await browser.client.aclose()

    assert set((await office.tried(attempt)).values()) == {None}


async def test_an_evaluator_speaks_when_a_request_is_made_and_on_no_other_way(office: Office) -> None:
    small = await office.world.submit(
        await office.world.body(question("wire_transfer", arguments={"amount": 1, "to": "DE1"}))
    )
    assert small.task["status"] == "approved"
    found = await requests.detail(office.ctx, person("bob"), str(small.task["id"]))
    assert [(vote.voter, vote.kind, vote.decision) for vote in found.votes] == [("small-sums", "evaluator", "approve")]
    large = await requests.detail(office.ctx, person("bob"), await office.world.pending())
    assert (large.status, large.votes) == ("pending", ())


async def test_an_operator_who_says_not_who_he_is_decides_nothing(office: Office) -> None:
    task_id = await office.world.pending()
    for arguments, env, problem in (
        (["approve", task_id], {}, "say who you are"),
        (["approve", task_id, "--as", "bob"], {"ARAP_PASSWORD": "wrong"}, "Account or password is wrong."),
        (["list"], {"ARAP_TOKEN": "x.y.z"}, "access token"),
    ):
        run = partial(CliRunner().invoke, commands, ["requests", *arguments, "--config", str(office.config)], env=env)
        done = await anyio.to_thread.run_sync(run)
        assert (done.exit_code, problem in done.stderr) == (1, True), done.output
    assert (await office.world.version(task_id), await office.outcome(task_id)) == (1, None)


async def test_an_operator_sees_what_is_his_to_decide(office: Office) -> None:
    task_id = await office.world.pending()

    async def said(*arguments: str, who: str = "bob") -> str:
        given = ["requests", *arguments, "--as", who, "--config", str(office.config)]
        env = {"ARAP_PASSWORD": PASSWORD}
        done = await anyio.to_thread.run_sync(partial(CliRunner().invoke, commands, given, env=env))
        assert done.exit_code == 0, done.output
        return str(done.stdout)

    assert (await said("list")).startswith(f"{task_id}  until ")
    assert await said("list", who="zoe") == ""
    assert (await said("list", "--all", who="zoe")).startswith(task_id)
    assert json.loads(await said("list", "--json"))["id"] == task_id
    shown = await said("show", task_id)
    assert "\n  /to: DE1\n" in shown
    assert shown.endswith("you may decide it\n")
    assert json.loads(await said("show", task_id, "--json"))["version"] == 1
    assert "you may not decide it (is_subject)" in await said("show", task_id, who="alice")
    denied = await said("deny", task_id, "--reason", "No.")
    assert denied.startswith(f"{task_id}  pending  version 1  ")  # it says what it decides on
    assert "\n  /to: DE1\n" in denied
    assert denied.endswith(f"\n{task_id}  denied  version 2\n")
    assert "it has ended" in await said("show", task_id)
