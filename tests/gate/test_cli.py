"""The commands: what they print, what they leave behind, and how they fail (design section 8)."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcp_gate.cli import checkpoint_from, run_command
from mcp_gate.client import TaskRecords
from tests.gate.gateways import ROOT, http_gateway, stdio_upstream
from tests.gate.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs one command to its end: status, what it showed, what it said."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_command(arguments)
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


Cli = Callable[..., tuple[int, str, str]]
ANONYMOUS: dict[str, Any] = {"insecure_loopback": True, "anonymous": {"iss": "i", "sub": "s", "client": "c"}}


async def run(cli: Cli, *arguments: str) -> tuple[int, str, str]:
    """Run a command beside the servers of this test, in a thread with a loop of its own."""
    return await anyio.to_thread.run_sync(lambda: cli(*arguments))


def write_config(directory: Path, **changes: Any) -> Path:
    """A gateway's configuration; JSON is YAML."""
    document = {
        "server_name": "treasury",
        "backend": {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400},
        "upstream": stdio_upstream(directory),
        "front": {"stdio": True},
        "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
        "database": f"sqlite:///{directory}/gate.sqlite",
        "key_file": str(directory / "keys.yaml"),
        "limits": {"poll_interval_seconds": 0.05},
        **changes,
    }
    path = directory / "gate.yaml"
    path.write_text(json.dumps(document))
    return path


def test_migrate_prepares_what_check_then_finds_in_order(tmp_path: Path, cli: Cli) -> None:
    config = str(write_config(tmp_path))
    before = cli("check", "--config", config)
    migrated = cli("migrate", "--config", config)
    after = cli("check", "--config", config)
    assert before[0] == 2
    assert "key_file" in before[2]
    assert (migrated[0], after[0], after[1]) == (0, 0, "ok\n")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"stdio": None}, "stdio.principal"),
        ({"upstream": None}, "upstream is missing"),
        ({"backend": {"identifier": "https://pdp.example"}}, "idempotency_retention_seconds"),
        ({"upstream": {"command": "/nonexistent/server"}}, "/nonexistent/server"),
        ({"database": "sqlite:////nonexistent/gate.sqlite"}, "database"),
    ],
)
def test_a_fault_of_the_configuration_is_one_line(
    tmp_path: Path, cli: Cli, changes: dict[str, Any], named: str
) -> None:
    status, _, said = cli("proxy", "--config", str(write_config(tmp_path, **changes)))
    (line,) = said.splitlines()
    assert line.startswith("mcp-gate: ")
    assert named in line
    assert status == 2


def test_a_port_that_is_taken_is_one_line(tmp_path: Path, cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = write_config(tmp_path, front={"http": f"127.0.0.1:{port}"}, **ANONYMOUS)
        status, _, said = cli("proxy", "--config", str(config))
    assert status == 2
    assert f"front.http: 127.0.0.1:{port}" in said


async def test_a_gateway_ends_with_its_supervisor(tmp_path: Path) -> None:
    """`--die-with-stdin`: however the supervisor dies, its end of the pipe closes."""
    config = write_config(tmp_path, front={"http": "127.0.0.1:0"}, **ANONYMOUS)
    with anyio.fail_after(60):
        process = await anyio.open_process(
            [sys.executable, "-m", "mcp_gate", "proxy", "--config", str(config), "--die-with-stdin"],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        async with process:
            assert process.stdin is not None
            await process.stdin.aclose()
            assert await process.wait() == 0


async def test_call_keeps_the_task_id_and_shows_the_result(world: World, tmp_path: Path, cli: Cli) -> None:
    records = tmp_path / "records"
    async with http_gateway(world) as gateway:
        token = tmp_path / "token"
        token.write_text(gateway.issuer.token())
        common = ["--token-file", str(token), "--records", str(records)]
        status, said, _ = await run(cli, "call", gateway.url, "read", "account=007", *common)
        assert status == 0
        assert '"account": "007"' in said  # the schema says text, so it stays text

        status, said, progress = await run(
            cli, "call", gateway.url, "wire", "to=acct-991", "amount=5", "--no-wait", *common
        )
        task_id = said.splitlines()[-1]
        assert status == 3
        assert "not run" in progress
        assert [record.task_id for record in TaskRecords(records).all()] == [task_id]

        status, _, progress = await run(cli, "task", "get", task_id, *common)
        assert status == 3
        world.service.approve()
        status, said, _ = await run(cli, "task", "get", task_id, "--wait", *common)
        assert status == 0
        assert "Transfer of 5 to acct-991 completed." in said
        _, listed, _ = await run(cli, "task", "list", "--records", str(records))
    assert "completed" in listed
    assert task_id in listed
    assert gateway.issuer.token().split(".")[0] not in listed


async def test_a_task_is_cancelled_from_the_command_line(
    world: World, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with http_gateway(world) as gateway:
        common = ["--token-env", "GATE_TOKEN", "--records", str(tmp_path / "records")]
        monkeypatch.setenv("GATE_TOKEN", gateway.issuer.token())
        _, said, _ = await run(cli, "call", gateway.url, "wire", "to=a", "amount=5", "--no-wait", *common)
        task_id = said.splitlines()[-1]
        status, _, progress = await run(cli, "task", "cancel", task_id, *common)
        waited = await run(cli, "task", "get", task_id, "--wait", *common)
    assert status == 0
    assert "cancelled" in progress
    assert waited[0] == 2
    assert "the tool did not run" in waited[2]
    assert world.effects == []


WARNING = "may have run"


async def test_call_warns_of_a_repetition_only_where_the_tool_may_have_run(
    world: World, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A denial says that nothing ran, a tool's own error speaks for itself; an approved call that failed is neither."""
    world.service.rules |= {"broken": "permit", "refuse": "request"}
    world.service.born = "approved"
    async with http_gateway(world) as gateway:
        monkeypatch.setenv("GATE_TOKEN", gateway.issuer.token())
        common = ["--token-env", "GATE_TOKEN", "--records", str(tmp_path / "records")]
        denied = await run(cli, "call", gateway.url, "die", *common)
        failed = await run(cli, "call", gateway.url, "broken", "text=because", *common)
        approved = await run(cli, "call", gateway.url, "refuse", "code=-32050", *common)
    assert [ended[0] for ended in (denied, failed, approved)] == [1, 1, 1]
    assert "did not run" in denied[1]
    assert [WARNING in ended[2] for ended in (denied, failed, approved)] == [False, False, True]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["call", "http://127.0.0.1:9/mcp", "read", "account=a"], "cannot talk to the server"),
        (["call", "no-such-program --now", "read"], "cannot start the server 'no-such-program --now'"),
        (["task", "get", "tsk_1"], "--server"),
        (["call", "http://127.0.0.1:9/mcp", "read", "--token-env", "NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
        (["call", "http://127.0.0.1:9/mcp", "read", "--token-file", "/nonexistent"], "/nonexistent"),
        (["proxy", "--config", "/nonexistent.yaml"], "/nonexistent.yaml"),
    ],
)
def test_a_fault_of_a_command_is_one_line(tmp_path: Path, cli: Cli, arguments: list[str], named: str) -> None:
    more = ["--records", str(tmp_path)] if arguments[0] != "proxy" else []
    status, _, said = cli(*arguments, *more)
    assert status == 2
    assert named in said
    assert len(said.splitlines()) == 1


async def test_an_argument_that_is_not_key_value_is_named(
    world: World, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with http_gateway(world) as gateway:
        monkeypatch.setenv("GATE_TOKEN", gateway.issuer.token())
        common = ["--token-env", "GATE_TOKEN", "--records", str(tmp_path)]
        status, _, said = await run(cli, "call", gateway.url, "read", "account", *common)
    assert status == 2
    assert "'account' is not key=value" in said


def test_a_checkpoint_kills_this_process_at_the_named_passage(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    checkpoint = checkpoint_from("claim.committed:2")
    for name in ("claim.committed", "invoke.started", "claim.committed", "claim.committed"):
        checkpoint(name)
    assert killed == [(os.getpid(), signal.SIGKILL)]
    checkpoint_from(None)("claim.committed")
    assert len(killed) == 1


def test_a_checkpoint_freezes_this_process_at_the_named_passage_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[signal.Signals] = []
    monkeypatch.setattr(os, "kill", lambda _, number: sent.append(number))
    checkpoint = checkpoint_from("outcome.stored", stop="invoke.started")
    for name in ("claim.committed", "invoke.started", "invoke.started", "outcome.stored"):
        checkpoint(name)
    assert sent == [signal.SIGSTOP, signal.SIGKILL]
