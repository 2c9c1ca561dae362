"""`mcp-gate explain`: the question that a running gate would ask, and nothing sent unless asked to."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_gate.cli import run_command
from tests.gate.live import serving
from tests.gate.scripted_service import ScriptedService
from tests.gate.world import World, connected

CLAIMS = {"iss": "https://issuer.example", "sub": "bob", "client_id": "agent-9", "aud": "https://gate.example"}
MAPPING = {
    "evaluation": {"action": {"name": "read"}, "resource": {"type": "account", "id": "$params.arguments.account"}}
}


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        run_command([str(argument) for argument in arguments])
    code = ended.value.code
    return 0 if code is None else int(code)


def made(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix in {".yaml", ".sqlite"}}


def rewrite(config: Path, base: str) -> None:
    config.write_text(config.read_text().replace("https://pdp.example", base) + "insecure_loopback: true\n")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    document = {
        "server_name": "treasury",
        "backend": {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400},
        "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
        "database": f"sqlite:///{tmp_path}/never.sqlite",
        "key_file": str(tmp_path / "never.yaml"),
    }
    path = tmp_path / "gate.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.anyio
async def test_what_is_shown_is_what_a_running_gate_asks(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    async with connected(world.server()) as client:
        await client.call_tool("read", {"account": "acct-1"})
    capsys.readouterr()
    assert run("explain", "--config", config, "read", "account=acct-1") == 0
    asked = world.service.sent_to("/evaluation")[0].json()
    shown = json.loads(capsys.readouterr().out)
    assert shown == asked
    assert made(tmp_path) == {"gate.yaml", "gate.sqlite", "keys.yaml"}


@pytest.mark.parametrize("source", ["claims", "token"])
def test_the_caller_may_be_given_by_claims_or_by_a_token(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    given = tmp_path / "given"
    payload = base64.urlsafe_b64encode(json.dumps(CLAIMS).encode()).decode().rstrip("=")
    given.write_text(json.dumps(CLAIMS) if source == "claims" else f"e30.{payload}.x")
    option = "--claims" if source == "claims" else "--token-file"
    assert run("explain", "--config", config, option, given, "resources/read", "uri=file:///a") == 0
    assert json.loads(capsys.readouterr().out) == {
        "subject": {"type": "identity", "id": "bob"},
        "action": {"name": "resources/read"},
        "resource": {"type": "resource", "id": "file:///a"},
        "context": {"agent": "agent-9", "server": "treasury"},
    }


def test_a_mapping_that_the_tool_declares_is_read_from_its_listing(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = tmp_path / "tools.json"
    schema = {"type": "object", "x-authzen-mapping": MAPPING}
    listing.write_text(
        json.dumps({"tools": [{"name": "other", "inputSchema": {}}, {"name": "read", "inputSchema": schema}]})
    )
    assert run("explain", "--config", config, "--listing", listing, "read", "account=acct-1") == 0
    assert json.loads(capsys.readouterr().out)["resource"] == {"type": "account", "id": "acct-1"}
    assert run("explain", "--config", config, "--listing", listing, "read") == 2
    assert "-32602" in capsys.readouterr().err


def test_several_questions_are_shown_as_a_list(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [{"action": {"name": name}, "resource": {"type": "object", "id": "o"}} for name in ("read", "write")]
    mapping = {"evaluations": {"evaluations": entries}}
    config.write_text(config.read_text() + yaml.safe_dump({"tools": {"copy": {"mapping": mapping}}}))
    assert run("explain", "--config", config, "copy", "n=1") == 0
    assert [asked["action"]["name"] for asked in json.loads(capsys.readouterr().out)] == ["read", "write"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("rule", "status", "answer"),
    [
        ("permit", 0, {"decision": True}),
        ("deny", 1, {"decision": False, "reason": "approval_required", "requestable": False}),
        ("request", 1, {"decision": False, "reason": "approval_required", "requestable": True}),
    ],
)
async def test_the_decision_point_is_asked_on_demand(
    config: Path, capsys: pytest.CaptureFixture[str], rule: str, status: int, answer: dict[str, Any]
) -> None:
    from anyio import to_thread  # noqa: PLC0415 - the command runs an event loop of its own

    service = ScriptedService(rules={"read": rule})
    async with serving(service.app()) as base:
        service.host = base
        rewrite(config, base)
        arguments = ("explain", "--config", config, "--evaluate", "read", "account=a")
        assert await to_thread.run_sync(lambda: run(*arguments)) == status
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == answer
    assert service.sent_to("/requests") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--claims", "missing.json", "read"),
        ("--claims", "{config}", "read"),
        ("--token-file", "{config}", "read"),
        ("--token-file", "{config}", "--claims", "{config}", "read"),
        ("--listing", "{config}", "read"),
        ("read", "account"),
        ("resources/read",),
        ("--token-file", "{deep}", "read"),
        ("read", "account={brackets}"),
        ("read", "account=NaN"),
        ("read", "account=1e999"),
    ],
)
def test_a_fault_is_one_line(config: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    brackets = "[" * 100_000
    deep = config.with_name("deep.jwt")
    deep.write_text(f"a.{base64.urlsafe_b64encode(brackets.encode()).decode()}.c")
    places = {"{config}": str(config), "{deep}": str(deep)}
    given = [places.get(argument, argument.replace("{brackets}", brackets)) for argument in arguments]
    assert run("explain", "--config", config, *given) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("mcp-gate: ")


def test_what_a_listing_says_gives_a_terminal_no_orders(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = tmp_path / "listing.json"
    listing.write_text(json.dumps({"name": "read", "title": "a\x9b2J\u202eb", "inputSchema": {"type": "object"}}))
    assert run("explain", "--config", config, "--listing", listing, "read") == 0
    shown = capsys.readouterr().out
    assert "a\\u009b2J\\u202eb" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)
