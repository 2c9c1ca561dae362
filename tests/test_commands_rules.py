"""The commands of standing rules and reviews, as a person runs them who logs in for it."""

import os
from pathlib import Path

import anyio
import pytest
import yaml
from typer.testing import CliRunner, Result

from arap_service import requests
from arap_service.cli import app
from arap_service.context import Context
from arap_service.domain.callers import Scope
from arap_service.protocol.arap import format_instant
from arap_service.requests.reviews import list_reviews
from arap_service.requests.standing_rules import list_rules, propose_rule
from tests.clock import FakeClock
from tests.requests.terms import TERMS, open_terms
from tests.requests.world import GATE, READER, World, person, question
from tests.service import IDENTIFIER
from tests.web.desk import PASSWORD, add_person

URGENT = {"emergency": True, "business_justification": "The vault is on fire."}


@pytest.fixture
def config(service_url: str, tmp_path: Path, clock: FakeClock) -> Path:
    """A service with a proposed rule and a review that waits."""
    policy = anyio.run(prepare, tmp_path, service_url, clock)
    written = {
        "identifier": IDENTIFIER,
        "database": service_url,
        "policy_path": str(policy),
        "key_file": str(tmp_path / "keys.json"),
        "builtin_issuer": {"enabled": True},
        "desk": {"administrators": ["admins"]},
    }
    path = tmp_path / "arap.yaml"
    path.write_text(yaml.safe_dump(written))
    return path


async def prepare(folder: Path, url: str, clock: FakeClock) -> Path:
    async with open_terms(folder, url, clock) as world:
        people(world.ctx)
        plain = str((await world.submit(await world.body(question("plain")))).task["id"])
        await world.decide(plain, person("ann"))
        await propose_rule(world.ctx, person("ann"), plain)
        await use_emergency(world)
        return world.ctx.settings.policy_path


def people(ctx: Context) -> None:
    for name, groups in {"ann": ("treasury",), "lea": ("legal", "admins"), "mo": ("board", "admins")}.items():
        add_person(ctx, name, name=name.title(), groups=groups)


async def use_emergency(world: World) -> None:
    body = await world.body(question("unlock"), requested_access=URGENT)
    task_id = str((await world.submit(body)).task["id"])
    await world.decide(task_id, person("lea"))
    said = {"disposition": "approved-executed", "at": format_instant(world.clock()), "generation": 1}
    await requests.report(world.ctx, GATE, task_id, said)


def run(*words: str, login: str = "mo", password: str = PASSWORD) -> Result:
    env = {**os.environ, "ARAP_PASSWORD": password}
    return CliRunner().invoke(app, [*words, "--as", login], env=env)


def test_administrator_confirms_and_ends_a_rule(config: Path, tmp_path: Path, clock: FakeClock) -> None:
    where = ("--config", str(config))
    listed = run("rules", "list", *where)
    assert (listed.exit_code, "proposed" in listed.output, "proposed by Ann" in listed.output) == (0, True, True)
    rule_id = listed.output.split()[0]
    for login, code in (("ann", 1), ("mo", 0)):
        assert run("rules", "confirm", rule_id, *where, login=login).exit_code == code
    assert "active" in run("rules", "list", "--status", "active", *where).output
    assert run("rules", "end", rule_id, *where, login="ann").exit_code == 0
    again = run("rules", "end", rule_id, *where)
    assert (again.exit_code, "Traceback" in again.output) == (1, False)


def test_review_is_closed_by_somebody_without_a_part(config: Path) -> None:
    where = ("--config", str(config))
    listed = run("reviews", "list", "--state", "overdue", *where)
    assert (listed.exit_code, "approved by Lea" in listed.output) == (0, True)
    approval_id = listed.output.split()[0]
    own = run("reviews", "close", approval_id, "justified", "--note", "fine", *where, login="lea")
    assert (own.exit_code, "counted_in_another_step" in own.output) == (1, True)
    assert run("reviews", "close", approval_id, "justified", "--note", "fine", *where).exit_code == 0
    assert run("reviews", "list", "--state", "open", *where).output == ""


@pytest.mark.parametrize(("login", "password"), [("mo", "wrong"), ("nobody", PASSWORD)])
def test_nobody_gets_in_without_the_password_of_an_account(
    config: Path, tmp_path: Path, clock: FakeClock, *, login: str, password: str
) -> None:
    refused = run("rules", "list", "--config", str(config), login=login, password=password)
    assert (refused.exit_code, "Account or password is wrong." in refused.output) == (1, True)


def test_what_the_commands_changed_is_what_the_api_shows(config: Path, tmp_path: Path, clock: FakeClock) -> None:
    rule_id = run("rules", "list", "--config", str(config)).output.split()[0]
    assert run("rules", "confirm", rule_id, "--config", str(config)).exit_code == 0

    url = yaml.safe_load(config.read_text())["database"]

    async def shown() -> tuple[list[str], list[bool]]:
        async with open_terms(tmp_path, url, clock, policy=TERMS) as world:
            rules = await list_rules(world.ctx, person("mo", scopes=frozenset({Scope.ADMIN})))
            waiting = await list_reviews(world.ctx, READER, state="open")
            return [rule.confirmed_by or "" for rule in rules.items], [each.may_close for each in waiting.items]

    assert anyio.run(shown) == (["Mo"], [False])
