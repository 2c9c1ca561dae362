"""Saying on the command line who decides in whose place, and taking it back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from arap_service.audit import entries_of
from arap_service.cli import app
from arap_service.key_file import write_new_ring
from arap_service.policy_source import CHAIN
from arap_service.store.database import Database
from tests.peers import POLICY

PEOPLE = """
people:
  - {id: kim, name: Kim Lee, groups: [board]}
  - {id: maria, name: Maria, groups: [treasury]}
  - {id: gone, name: Gone, active: false}
"""
UNTIL = "2035-01-01T18:00:00+09:00"


@pytest.fixture
def database(service_url: str) -> Iterator[Database]:
    opened = Database.open(service_url)
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path, service_url: str) -> Path:
    write_new_ring(tmp_path / "keys.json")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "people.yaml").write_text(PEOPLE, encoding="utf-8")
    path = tmp_path / "arap.yaml"
    settings = {
        "identifier": "https://approvals.example",
        "database": service_url,
        "policy_path": "policy.yaml",
        "key_file": "keys.json",
        "builtin_issuer": {"enabled": True},
    }
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert run(path, "import", str(tmp_path / "people.yaml")).exit_code == 0
    return path


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["people", *arguments, "--config", str(config)])


def test_a_delegation_is_made_listed_and_ended(config: Path, database: Database) -> None:
    begin = ("--from", "2034-12-31T00:00:00Z")
    made = run(
        config, "delegate", "kim", "maria", "--until", UNTIL, *begin, "--group", "board", "--template", "transfer"
    )
    assert made.exit_code == 0, made.stderr
    delegation_id, rest = made.stdout.split("  ", 1)
    period = "2034-12-31T00:00:00Z to 2035-01-01T09:00:00Z"
    assert rest == f"planned  maria for kim  {period}  only group board, template transfer\n"
    assert run(config, "delegations").stdout == made.stdout == run(config, "delegations", "--person", "maria").stdout
    assert run(config, "delegations", "--person", "gone").stdout == ""
    ended = run(config, "end-delegation", delegation_id)
    assert (ended.exit_code, ended.stdout) == (0, made.stdout.replace("planned", "ended"))
    assert run(config, "delegations").stdout == ""
    assert run(config, "delegations", "--past").stdout == ended.stdout
    assert run(config, "end-delegation", delegation_id).exit_code == 1
    kinds = [each.kind for each in database.read_now(lambda session: entries_of(session, CHAIN))]
    assert kinds[-2:] == ["delegation_made", "delegation_ended"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("kim", "maria", "--until", "2035-01-01"), "--until is a moment with a time zone"),
        (("kim", "maria", "--until", UNTIL, "--from", "tomorrow"), "--from is a moment with a time zone"),
        (("kim", "gone", "--until", UNTIL), "no such active person"),
        (("kim", "maria", "--until", "2020-01-01T00:00:00Z"), "end comes after"),
        (("kim", "maria", "--until", UNTIL), "366 days"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(config: Path, arguments: tuple[str, ...], problem: str) -> None:
    said = run(config, "delegate", *arguments)
    assert (said.exit_code, said.stderr.count("\n"), problem in said.stderr) == (1, 1, True)
    assert run(config, "delegations").stdout == ""
