"""Clients that are not ours against one gate, by the very commands of docs/clients.md.

SEP-2848, "Reference Implementation": clients built only on `io.modelcontextprotocol/tasks`.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.node.programs import PATIENCE_SECONDS, ROOT, need_programs, node, plain_environment

pytestmark = pytest.mark.timeout(300)

PAGE: Final = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
BLOCKS: Final[dict[str, str]] = dict(re.findall(r"^```sh ([\w-]+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
URL: Final = "http://127.0.0.1:8402/mcp"
DISPOSITION: Final = "io.modelcontextprotocol/tool-approval-disposition"
SCRIPTED: Final = ["sdk", "fastmcp", pytest.param("ext-tasks", marks=pytest.mark.node)]
FROM_NPM: Final = frozenset({"ext-tasks", "mcpdo", "inspector"})
Follow = Callable[[str], Path]


@pytest.fixture
def follow(fixture_url: str, tmp_path: Path) -> Follow:
    """Run the commands of a block, as they are but for the port; the folder with what they wrote."""

    def run(name: str) -> Path:
        if name in FROM_NPM:
            need_programs()
        block = BLOCKS[name].replace(URL, fixture_url)
        # The page's commands are run at the top of the repository; here they write elsewhere.
        for there in (".venv", ".venv-fastmcp", "examples", "tests"):
            (tmp_path / there).symlink_to(ROOT / there)
        if name == "ext-tasks":
            block = f'node() {{ "{node()}" "$@"; }}\n{block}'
        done = subprocess.run(
            ["bash", "-eu", "-c", block],
            cwd=tmp_path,
            env=plain_environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return tmp_path

    return run


def read(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return document


def assert_executed(result: dict[str, Any], text: str) -> None:
    assert [block["text"] for block in result["content"]] == [text, "The call was approved and the tool ran once."]
    assert result["isError"] is False
    assert result["_meta"][DISPOSITION] == "approved-executed"


def assert_denied(result: dict[str, Any]) -> None:
    assert [block["text"] for block in result["content"]] == ["The approval was denied. The tool did not run."]
    assert result["isError"] is True
    assert result["_meta"][DISPOSITION] == "denied-not-executed"


def test_the_page_has_no_command_that_no_test_runs() -> None:
    assert set(BLOCKS) == {"serve", "sdk", "fastmcp", "ext-tasks", "mcpdo", "inspector"}
    assert len(BLOCKS) == PAGE.count("```sh")
    assert BLOCKS["serve"] == "make serve-conformance PORT=8402\n"  # the fixture is started like this


@pytest.mark.requirement("PEP-10", "PEP-85", "PEP-90", "PEP-114", "PEP-119")
@pytest.mark.parametrize("label", SCRIPTED)
def test_a_client_gets_what_was_approved_denied_cancelled_asked_and_left(follow: Follow, label: str) -> None:
    folder = follow(label)
    first, second = read(folder, "first"), read(folder, "second")
    assert_executed(first["approve"]["result"], f"Computed {label} after 0 s.")
    assert_denied(first["deny"]["result"])
    assert_executed(first["input"]["result"], f"Deleted {label}.")
    assert {name: first[name]["status"] for name in ("approve", "deny", "input", "cancel")} == {
        "approve": "completed",
        "deny": "completed",
        "input": "completed",
        "cancel": "cancelled",
    }
    assert second["resume"]["status"] == "completed"
    assert_executed(second["resume"]["result"], f"Computed {label}, left after 1 s.")


@pytest.mark.node
def test_mcpdo_gets_it_too_and_takes_up_what_others_left(follow: Follow) -> None:
    folder = follow("mcpdo")
    assert_executed(read(folder, "approve"), "Computed mcpdo after 0 s.")
    assert_denied(read(folder, "deny"))
    assert (folder / "deny.status").read_text() == "status 5\n"
    assert read(folder, "asked")["elicitationPending"]["message"] == "Really delete this file?"
    assert_executed(read(folder, "input"), "Deleted mcpdo.")
    assert read(folder, "cancel")["task"]["status"] == "cancelled"
    left = read(folder, "resume")["task"]["raw"]
    assert left["status"] == "completed"
    assert_executed(left["result"], "Computed left after 0 s.")


@pytest.mark.node
def test_the_one_shot_inspector_calls_and_cannot_do_more(follow: Follow) -> None:
    folder = follow("inspector")
    assert_executed(read(folder, "approve")["result"], "Computed cli after 0 s.")
    assert_denied(read(folder, "deny")["result"])
    assert (folder / "deny.status").read_text() == "status 5\n"
    assert "Unsupported method: tasks/get" in (folder / "refused.json").read_text()
    assert (folder / "refused.status").read_text() == "status 1\n"
