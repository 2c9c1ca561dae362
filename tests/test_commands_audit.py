"""The audit commands as an auditor meets them: in this process, on a database that a service has filled."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from pydantic import JsonValue
from sqlalchemy import delete
from sqlmodel import col
from typer.testing import CliRunner, Result

from arap_service import audit
from arap_service.cli import app
from arap_service.settings import Settings
from arap_service.store.database import Database
from arap_service.store.log_tables import AuditPlace
from arap_service.store.tables import AuditEntry, AuditHead
from tests.clock import FakeClock
from tests.peers import EVALUATION, POLICY, REQUEST, peers, question
from tests.service import IDENTIFIER, service_context, settings_for

SECRET_WORDS = "because the board said so"


@pytest.fixture
def config(service_url: str, tmp_path: Path, clock: FakeClock) -> Path:
    """The configuration of a service whose one request was approved, used and reported on."""
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    (tmp_path / "evaluation").write_text(anyio.run(told, settings, clock))
    written = {
        "identifier": IDENTIFIER,
        "database": service_url,
        "policy_path": str(settings.policy_path),
        "key_file": str(settings.key_file),
        "builtin_issuer": {"enabled": True},
    }
    path = tmp_path / "arap.yaml"
    path.write_text(yaml.safe_dump(written))
    return path


async def told(settings: Settings, clock: FakeClock) -> str:
    """The evaluation id of a denial, of which everything has become that can."""
    async with service_context(settings, clock=clock) as context:
        both = peers(context)
        asked = question()
        body = await both.denied(asked) | {"requested_access": {"business_justification": SECRET_WORDS}}
        task = (await both.gate.post(REQUEST, json=body)).json()["task"]
        clock.advance(1)
        assert (await both.decide(task["id"], reason="fine with me")).status_code == 200
        clock.advance(1)
        approval = (await both.gate.get(f"{REQUEST}/{task['id']}")).json()["result"]["approval"]
        again = asked | {"context": asked["context"] | {"approval": approval}}
        assert (await both.gate.post(EVALUATION, json=again)).json()["decision"] is True
        clock.advance(1)
        report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:03Z", "generation": 1}
        assert (await both.gate.post(f"{REQUEST}/{task['id']}/report", json=report)).status_code == 204
        await both.aclose()
        return str(body["denial"]["evaluation_id"])


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments], catch_exceptions=False)


def succeeded(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def failed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert all(line.startswith("arap: ") for line in result.stderr.splitlines())
    return result.stderr


def tampered(config: Path, *statements: Any) -> None:
    database = Database.open(yaml.safe_load(config.read_text())["database"])
    database.write_now(lambda session: [session.execute(statement) for statement in statements])
    database.close()


@pytest.mark.requirement("ARS-123", "PDP-78")
def test_whole_story_is_told_from_the_evaluation_id(config: Path, tmp_path: Path) -> None:
    """Design section 5: denial, request, votes, approval, re-evaluation and execution report, in their order."""
    evaluation_id = (tmp_path / "evaluation").read_text()
    told = [json.loads(line) for line in succeeded("show", evaluation_id, "-c", str(config), "--json").splitlines()]
    kinds = [each["kind"] for each in told]
    assert kinds == [
        "denied_requestable",
        "task_submitted",
        "vote_cast",
        "task_approved",
        "reevaluated",
        "execution_reported",
    ]
    assert {each["evaluation_id"] for each in told} == {evaluation_id}
    words = succeeded("show", evaluation_id, "-c", str(config)).splitlines()
    assert [line.split()[1] for line in words] == kinds
    assert words[0].startswith("2026-04-30T20:00:00Z  denied_requestable")
    assert 'disposition="approved-executed"' in words[-1]
    assert "nothing is on record" in failed("show", "ev_unknown", "-c", str(config))


@pytest.mark.requirement("ARS-123")
def test_export_is_verified_with_nothing_but_the_file_and_the_keys(config: Path, tmp_path: Path) -> None:
    """The database is out of reach meanwhile; a changed byte, another service's keys and a cut end are found."""
    export, keys, where = tmp_path / "audit.jsonl", tmp_path / "public.json", ("-c", str(config))
    keys.write_text(succeeded("keys", *where))
    succeeded("export", str(export), *where)
    assert export.stat().st_mode & 0o077 == 0
    assert SECRET_WORDS not in export.read_text()
    assert "fine with me" not in export.read_text()
    assert "is there already" in failed("export", str(export), *where)
    config.unlink()
    said = succeeded("verify", str(export), "--jwks", str(keys))
    assert said.endswith("entries are under 1 signed checkpoints.\n")
    assert "--jwks" in failed("verify", str(export))

    lines = export.read_bytes().splitlines(keepends=True)
    export.write_bytes(b"".join(lines).replace(b"wire_transfer", b"fire_transfer", 1))
    assert "was changed" in failed("verify", str(export), "--jwks", str(keys))
    export.write_bytes(b"".join(lines[:-2]))
    assert "has no end" in failed("verify", str(export), "--jwks", str(keys))
    export.write_bytes(b"no export\n")
    assert "line 1: is not JSON" in failed("verify", str(export), "--jwks", str(keys))
    export.write_bytes(b"".join(lines))
    for other, what in (('{"keys": []}', "is not signed by a key"), ("[]", "holds no keys"), ("{", "is not JSON")):
        keys.write_text(other)
        assert what in failed("verify", str(export), "--jwks", str(keys))


@pytest.mark.requirement("ARS-123")
def test_removed_chain_is_found_in_the_database_once_a_checkpoint_covers_it(config: Path, tmp_path: Path) -> None:
    where = ("-c", str(config))
    assert "0 entries are under 0 signed" in succeeded("verify", *where)
    witness = tmp_path / "witness.jws"
    witness.write_text(succeeded("checkpoint", *where))
    assert "under 1 signed checkpoints" in succeeded("verify", *where, "--witness", str(witness))
    chain = (tmp_path / "evaluation").read_text()
    tampered(
        config,
        delete(AuditEntry).where(col(AuditEntry.chain) == chain),
        delete(AuditHead).where(col(AuditHead.chain) == chain),
    )
    assert f"audit: chain {chain}: entry 1 is missing" in failed("verify", *where)
    tampered(config, delete(AuditPlace).where(col(AuditPlace.chain) == chain))
    assert "of the log is missing" in failed("verify", *where)
    assert "of the log is missing" in failed("verify", *where, "--witness", str(witness))
    witness.write_text("nonsense")
    assert "no checkpoint that this service has signed" in failed("verify", *where, "--witness", str(witness))


def test_sealed_words_are_exported_only_when_asked_for_and_that_is_on_record(config: Path, tmp_path: Path) -> None:
    where = ("-c", str(config))
    plain = succeeded("export", *where)
    assert SECRET_WORDS not in plain
    assert "revealed" not in plain
    lines = [json.loads(line) for line in succeeded("export", "--reveal", *where).splitlines()]
    revealed = [line for line in lines if line["type"] == "revealed"]
    [task] = [line for line in revealed if "task" in line]
    assert task["request"]["requested_access"]["business_justification"] == SECRET_WORDS
    assert list(task["reasons"].values()) == ["fine with me"]
    [denial] = [line for line in revealed if "denial" in line]
    assert denial["about"]["subject"]["id"] == "alice@example.com"
    [record] = [line for line in lines if line.get("kind") == "sealed_revealed"]
    assert (record["chain"], record["actor"]) == ("audit", "command line")
    assert "whole" in succeeded("verify", *where)


def test_export_is_written_to_no_file_that_was_put_in_its_way(config: Path, tmp_path: Path) -> None:
    """A folder that others can write to: what they prepare there must not become what they can read."""
    target, bait = tmp_path / "audit.jsonl", tmp_path / "bait"
    bait.write_text("")
    (tmp_path / "audit.jsonl.part").symlink_to(bait)
    (tmp_path / f".audit.jsonl.{os.getpid()}.part").symlink_to(bait)
    assert "File exists" in failed("export", "--reveal", str(target), "-c", str(config))
    assert not target.exists()
    (tmp_path / f".audit.jsonl.{os.getpid()}.part").unlink()
    succeeded("export", "--reveal", str(target), "-c", str(config))
    assert (target.stat().st_mode & 0o777, bait.read_text()) == (0o600, "")
    assert not list(tmp_path.glob(".audit*"))


def test_an_id_that_two_decision_points_gave_is_shown_for_the_one_that_is_named(
    config: Path, tmp_path: Path, clock: FakeClock
) -> None:
    evaluation_id = (tmp_path / "evaluation").read_text()
    foreign: dict[str, JsonValue] = {"denial": {"iss": "https://north.example"}}
    database = Database.open(yaml.safe_load(config.read_text())["database"])
    database.write_now(
        lambda session: audit.append(
            session,
            "task_north",
            kind="task_submitted",
            actor="gate",
            detail=foreign,
            now=clock(),
            evaluation_id=evaluation_id,
        )
    )
    database.close()
    assert {IDENTIFIER, "https://north.example"} <= {
        line.removeprefix("arap: ") for line in failed("show", evaluation_id, "-c", str(config)).splitlines()
    }
    ours = succeeded("show", evaluation_id, "-c", str(config), "--json", "--issuer", IDENTIFIER)
    theirs = succeeded("show", evaluation_id, "-c", str(config), "--json", "--issuer", "https://north.example")
    assert "task_north" not in ours
    assert {json.loads(line)["chain"] for line in theirs.splitlines()} == {"task_north"}
