"""Bringing people in, seeing beforehand what that changes, and saying which principals a person is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from arap_service.audit import entries_of
from arap_service.cli import app
from arap_service.directory import CHAIN
from arap_service.key_file import write_new_ring
from arap_service.scim import ENTERPRISE
from arap_service.store.database import Database
from arap_service.store.directory import put_groups
from arap_service.store.people import everybody, find_person, groups_of, groups_said, identities_of, manager_of
from arap_service.store.people_tables import WebSession
from arap_service.store.sessions import web_sessions_of
from tests.clock import START
from tests.peers import POLICY
from tests.test_scim import group, user

ISS = "https://login.example"
PEOPLE = """
people:
  - {id: kim, name: Kim Lee, groups: [board]}
  - {id: maria, name: Maria, email: maria@example.com, groups: [treasury], manager: kim}
"""


@pytest.fixture
def database(service_url: str) -> Iterator[Database]:
    opened = Database.open(service_url)
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path, service_url: str) -> Path:
    write_new_ring(tmp_path / "keys.json")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    path = tmp_path / "arap.yaml"
    settings = {
        "identifier": "https://approvals.example",
        "database": service_url,
        "policy_path": "policy.yaml",
        "key_file": "keys.json",
        "builtin_issuer": {"enabled": True},
    }
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["people", *arguments, "--config", str(config)])


def imported(config: Path, text: str, *options: str, name: str = "people.yaml") -> Result:
    path = config.parent / name
    path.write_text(text, encoding="utf-8")
    return run(config, "import", str(path), *options)


def test_managers_come_in_with_people_in_any_order_and_go_with_the_next_file(config: Path, database: Database) -> None:
    turned = PEOPLE.replace("id: kim,", "id: kim, manager: maria,")
    assert imported(config, turned).exit_code == 0
    assert database.read_now(lambda session: manager_of(session, "maria")) == "kim"
    assert database.read_now(lambda session: manager_of(session, "kim")) == "maria"
    assert imported(config, PEOPLE).exit_code == 0
    assert database.read_now(lambda session: manager_of(session, "kim")) is None


@pytest.mark.parametrize(
    ("manager", "problem"), [("maria", "his own manager"), ("nobody", "there is no person nobody")]
)
def test_a_manager_must_be_somebody_else_who_is_known(
    config: Path, database: Database, manager: str, problem: str
) -> None:
    said = imported(config, PEOPLE.replace("manager: kim", f"manager: {manager}"))
    assert said.exit_code == 1
    assert problem in said.stderr
    assert database.read_now(lambda session: len(everybody(session))) == 0


def test_a_dry_run_says_what_would_change_and_changes_nothing(config: Path, database: Database) -> None:
    said = imported(config, PEOPLE, "--dry-run")
    assert said.stdout.splitlines() == [
        "add kim (Kim Lee), groups board",
        "add maria (Maria), groups treasury",
        "Nothing was changed.",
    ]
    assert database.read_now(lambda session: len(everybody(session))) == 0
    imported(config, PEOPLE)
    before = database.read_now(lambda session: len(entries_of(session, CHAIN)))
    changed = PEOPLE.replace("[treasury], manager: kim", "[board]").replace("name: Kim Lee", "name: Kim Li, active: no")
    said = imported(config, changed, "--dry-run")
    assert said.stdout.splitlines() == [
        "change kim: name Kim Li, no longer active",
        "change maria: into board, out of treasury, manager none",
        "Nothing was changed.",
    ]
    assert database.read_now(lambda session: groups_of(session, "maria")) == {"treasury"}
    assert database.read_now(lambda session: len(entries_of(session, CHAIN))) == before


def test_a_dry_run_finds_what_the_import_would_refuse(config: Path) -> None:
    imported(config, PEOPLE)
    run(config, "link", "kim", "--iss", ISS, "--sub", "u-1")
    taken = PEOPLE.replace("manager: kim", f"identities: [{{iss: '{ISS}', sub: u-1}}]")
    said = imported(config, taken, "--dry-run")
    assert (said.exit_code, "already belongs to kim" in said.stderr) == (1, True)


def test_who_is_missing_is_named_and_deactivated_only_when_asked_for(config: Path, database: Database) -> None:
    imported(config, PEOPLE)
    only_maria = "people: [{id: maria, name: Maria, email: maria@example.com, groups: [treasury]}]"
    said = imported(config, only_maria)
    assert "Not in the file and left as they are: kim" in said.stdout

    def is_active(person_id: str) -> bool:
        person = database.read_now(lambda session: find_person(session, person_id))
        assert person is not None
        return person.active

    assert is_active("kim")
    said = imported(config, only_maria, "--deactivate-missing", "--dry-run")
    assert "deactivate kim, who is not in the file" in said.stdout
    assert is_active("kim")
    said = imported(config, only_maria, "--deactivate-missing")
    assert "deactivate kim, who is not in the file" in said.stdout
    assert not is_active("kim")
    assert is_active("maria")
    said = imported(config, "people: []", "--deactivate-missing")
    assert (said.exit_code, is_active("maria")) == (1, True)


def test_a_scim_file_brings_in_people_whom_their_provider_knows(config: Path, database: Database) -> None:
    boss, clerk = user("1", "kim"), user("2", "maria", **{ENTERPRISE: {"manager": {"value": "1"}}})
    text = json.dumps({"Resources": [boss, clerk, group("g", "treasury", "2")]})
    said = imported(config, text, "--issuer", ISS, name="people.json")
    assert said.exit_code == 0, said.stderr
    assert database.read_now(lambda session: manager_of(session, "maria")) == "kim"
    assert database.read_now(lambda session: groups_of(session, "maria")) == {"treasury"}
    found = database.read_now(lambda session: [(each.iss, each.sub) for each in identities_of(session, "maria")])
    assert found == [(ISS, "2")]


def test_groups_that_the_provider_named_stay_when_a_file_is_brought_in(config: Path, database: Database) -> None:
    imported(config, PEOPLE)
    database.write_now(lambda session: put_groups(session, "maria", ["treasury", "from-there"], source=ISS))
    imported(config, PEOPLE.replace("[treasury]", "[]"))
    assert database.read_now(lambda session: groups_said(session, "maria", by=ISS)) == {"treasury", "from-there"}
    assert database.read_now(lambda session: groups_of(session, "maria")) == set()


def test_a_principal_is_linked_once_and_belongs_to_one_person(config: Path, database: Database) -> None:
    imported(config, PEOPLE)
    assert run(config, "link", "maria", "--iss", ISS, "--sub", "u-1").stdout == "u-1 is maria now.\n"
    assert run(config, "link", "maria", "--iss", ISS, "--sub", "u-1").stdout == "u-1 is maria already.\n"
    said = run(config, "link", "kim", "--iss", ISS, "--sub", "u-1")
    assert (said.exit_code, "belongs to maria" in said.stderr) == (1, True)
    assert run(config, "link", "nobody", "--iss", ISS, "--sub", "u-2").exit_code == 1
    kinds = [entry.kind for entry in database.read_now(lambda session: entries_of(session, CHAIN))]
    assert kinds.count("identity_linked") == 1


def test_a_principal_that_is_taken_away_is_logged_out(config: Path, database: Database) -> None:
    imported(config, PEOPLE)
    for sub in ("u-1", "u-2"):
        run(config, "link", "maria", "--iss", ISS, "--sub", sub)
    row = {"person_id": "maria", "iss": ISS, "csrf": "c", "method": "provider"}
    moments = dict.fromkeys(("created_at", "seen_at", "expires_at", "authenticated_at"), START)
    database.write_now(
        lambda session: session.add_all(
            WebSession.model_validate({**row, **moments, "digest": sub, "sub": sub}) for sub in ("u-1", "u-2")
        )
    )
    assert run(config, "unlink", "kim", "--iss", ISS, "--sub", "u-1").exit_code == 1
    assert run(config, "unlink", "maria", "--iss", ISS, "--sub", "u-1").stdout == "u-1 is not maria any more.\n"
    assert [each.sub for each in database.read_now(lambda session: identities_of(session, "maria"))] == ["u-2"]
    assert [each.sub for each in database.read_now(lambda session: web_sessions_of(session, "maria"))] == ["u-2"]


def test_a_local_account_stays_that_of_its_person(config: Path) -> None:
    imported(config, PEOPLE)
    added = CliRunner().invoke(app, ["account", "add", "maria", "--person", "maria", "--config", str(config)])
    assert added.exit_code == 0
    said = run(config, "unlink", "maria", "--iss", "https://approvals.example", "--sub", "maria")
    assert (said.exit_code, "local account" in said.stderr) == (1, True)
