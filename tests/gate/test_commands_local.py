"""The local backend from end to end: a call becomes a task, an approver decides by command, the tool runs once.

Provenance: design section 8, `local`; SEP-2848, "An approval backend".
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import yaml
from mcp.server.mcpserver import MCPServer

from mcp_gate.cli import run_command
from mcp_gate.extension import Gate
from mcp_gate.settings import load_settings
from mcp_gate.settings_local import Local
from tests.gate.local.desk import LOCAL, SECRET
from tests.gate.upstream_server import add_tools
from tests.gate.world import World, connected, create, get_raw, tasks_client

pytestmark = pytest.mark.anyio
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The settings of a gate whose approvals are decided here."""
    path = tmp_path / "gate.yaml"
    document = {
        "server_name": "treasury",
        "local": LOCAL,
        "database": f"sqlite:///{tmp_path}/gate.sqlite",
        "key_file": str(tmp_path / "keys.yaml"),
        "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
        "limits": {"poll_interval_seconds": 0.05},
    }
    path.write_text(json.dumps(document))
    (tmp_path / "secret").write_text(f"{SECRET} rita\n")
    return path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], config: Path) -> Cli:
    """Runs a command with the settings: status, what it showed, what it said."""

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_command([command, "--config", str(config), *arguments])
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


def server(config: Path) -> MCPServer[Any]:
    """An MCP server with a gate, as an author writes it."""
    gate = Gate(load_settings(config))
    made: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())
    add_tools(made, config.parent / "effects")
    gate.bind(made)
    return made


async def run(cli: Cli, *arguments: str) -> tuple[int, str, str]:
    """Run a command beside the server, in a thread with a loop of its own."""
    return await anyio.to_thread.run_sync(lambda: cli(*arguments))


async def ended(client: Any, task_id: str) -> dict[str, Any]:
    """The task, once it has ended."""
    while (told := await get_raw(client, task_id))["status"] in {"working", "input_required"}:
        await anyio.lowlevel.checkpoint()
    return told


async def test_a_call_is_approved_on_the_command_line_and_runs_once(config: Path, cli: Cli) -> None:
    world = World(config.parent)
    async with connected(server(config), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
        listed = json.loads((await run(cli, "pending", "--json"))[1])
        (waiting,) = listed
        assert waiting["tool"] == "wire"
        assert waiting["asked_by"] == "alice through agent-7"
        assert waiting["may_decide"] == ["rita", "adele"]
        shown = json.loads((await run(cli, "pending", waiting["id"]))[1])
        assert shown["arguments"] == {"to": "acct-991", "amount": 50_000}
        assert shown["arguments_are_whole"] is True
        assert world.effects == []
        decided = await run(
            cli, "decide", waiting["id"], "--approve", "--as", "rita", "--secret-file", str(config.parent / "secret")
        )
        assert decided[0] == 0, decided
        assert "is approved, to be used until" in decided[1]
        told = await ended(client, created.task_id)
    assert told["status"] == "completed"
    assert len(world.effects) == 1
    late = ("--deny", "--as", "rita", "--reason", "x", "--secret-file", str(config.parent / "secret"))
    again = await run(cli, "decide", waiting["id"], *late)
    assert (again[0], again[1]) == (2, "")
    assert "approved already" in again[2]


async def test_a_denied_call_never_runs(config: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret comes by standard input."""
    world = World(config.parent)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET} rita\n"))
    async with connected(server(config), tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=50_000)
        (waiting,) = json.loads((await run(cli, "pending", "--json"))[1])
        decided = await run(cli, "decide", waiting["id"], "--deny", "--as", "rita", "--reason", "not today")
        assert decided[:2] == (0, f"{waiting['id']} is denied\n")
        told = await ended(client, created.task_id)
    assert told["status"] == "completed"
    assert told["result"]["isError"] is True
    assert world.effects == []
    assert json.loads((await run(cli, "pending", "--json"))[1]) == []
    assert (await run(cli, "pending"))[1] == "Nothing waits for a decision.\n"


async def test_a_wrong_secret_is_one_line_and_decides_nothing(config: Path, cli: Cli) -> None:
    (config.parent / "secret").write_text("guess")
    async with connected(server(config), tasks_client()) as client:
        await create(client, "wire", to="acct-991", amount=50_000)
        (waiting,) = json.loads((await run(cli, "pending", "--json"))[1])
        given = ("--approve", "--as", "rita", "--secret-file", str(config.parent / "secret"))
        status, out, err = await run(cli, "decide", waiting["id"], *given)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "no approver has this name and secret" in err
        assert "guess" not in err
        assert len(json.loads((await run(cli, "pending", "--json"))[1])) == 1


async def test_what_a_terminal_would_obey_is_shown_as_escapes(config: Path, cli: Cli) -> None:
    """A caller cannot make an approver see another call than the one that he approves."""
    async with connected(server(config), tasks_client()) as client:
        await create(client, "wire", to="acct\u202e\x1b[2J\u200b\U000e0041\x7f", amount=1)
        (waiting,) = json.loads((await run(cli, "pending", "--json"))[1])
        shown = (await run(cli, "pending", waiting["id"]))[1]
    assert all(char == "\n" or char.isprintable() for char in shown)
    assert json.loads(shown)["arguments"]["to"] == "acct\u202e\x1b[2J\u200b\U000e0041\x7f"


def test_a_new_approver_gets_a_secret_that_the_settings_hold_only_as_a_hash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run_command(["approver", "rita"])
    told = capsys.readouterr()
    secret = told.err.strip().rpartition(" ")[2]
    assert len(secret) >= 43
    assert secret not in told.out
    assert "secret_hash: sha256:" in told.out
    uncommented = told.out.replace("  # rules:", "  rules:").replace("  #   -", "    -")
    local = Local.model_validate(yaml.safe_load(uncommented)["local"])
    assert local.rules[0].approvers == tuple(local.approvers) == ("rita",)


@pytest.mark.parametrize("command", [("pending",), ("decide", "lreq_1", "--approve", "--as", "rita")])
def test_a_gate_with_another_backend_says_who_decides(config: Path, cli: Cli, command: tuple[str, ...]) -> None:
    document = json.loads(config.read_text())
    del document["local"]
    document["backend"] = {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400}
    config.write_text(json.dumps(document))
    status, out, err = cli(*command)
    assert (status, out) == (2, "")
    assert "local: is missing" in err
