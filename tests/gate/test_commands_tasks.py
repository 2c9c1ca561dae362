"""`mcp-gate tasks`: what an operator sees of tasks, and what he does not. Provenance: design section 8; PEP-131."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio.to_thread
import pytest

from mcp_gate.cli import run_command
from tests.gate.test_cli import write_config
from tests.gate.world import World, cancel, connected, create, tasks_client

pytestmark = pytest.mark.anyio
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs `mcp-gate tasks …` on the database of the world: status, what it showed, what it said."""
    config = write_config(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_command(["tasks", *arguments, "--config", str(config)])
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


async def test_open_tasks_are_listed_and_shown_without_their_arguments(tmp_path: Path, cli: Cli) -> None:
    world = World(tmp_path)
    async with connected(world.server(), tasks_client()) as client:
        task_id = (await create(client, "wire", to="canary-account", amount=1)).task_id

        def look() -> tuple[str, str, str]:
            return cli("list")[1], cli("list", "--json")[1], cli("show", task_id)[1]

        listed, as_json, shown = await anyio.to_thread.run_sync(look)
        await cancel(client, task_id)
        after = await anyio.to_thread.run_sync(lambda: (cli("list")[1], cli("list", "--phase", "done", "--json")[1]))
    assert task_id in listed
    assert "pending" in listed
    (row,) = json.loads(as_json)
    assert (row["id"], row["tool"], row["sub"], row["phase"]) == (task_id, "wire", "alice", "pending")
    assert row["created_at"].endswith("Z")
    assert json.loads(shown)["record"]
    assert "canary" not in listed + as_json + shown
    assert after[0] == "No task is open.\n"
    assert [row["ending"] for row in json.loads(after[1])] == ["cancelled"]


def test_an_unknown_task_and_a_database_that_was_not_prepared_are_one_line(cli: Cli, tmp_path: Path) -> None:
    status, out, err = cli("list")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "does not exist; run `mcp-gate migrate`" in err
    assert not list(tmp_path.glob("*.sqlite*"))
    with pytest.raises(SystemExit):
        run_command(["migrate", "--config", str(tmp_path / "gate.yaml")])
    status, out, err = cli("show", "tsk_unknown")
    assert status == 2
    assert "there is no such task" in err
    assert cli("list", "--tool", "x")[1].endswith("There is no such task.\n")
