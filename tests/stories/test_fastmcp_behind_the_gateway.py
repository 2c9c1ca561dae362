"""Story: a server written with FastMCP, in an environment of its own, is gated without a line of it being changed.

The server is `examples/fastmcp_gateway/server.py` in its own process, the gateway the one of `gate.yaml` beside it;
only the approval service is a scripted one.
"""

from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from mcp import types

from mcp_gate.proxy import build
from mcp_gate.settings import parse_settings
from tests.gate.scripted_service import ScriptedService
from tests.gate.test_guarding import ByAction
from tests.gate.world import DISPOSITION, World, connected, create, ended, tasks_client

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fastmcp_gateway"
PYTHON = ROOT / ".venv-fastmcp" / "bin" / "python"


def document(folder: Path) -> dict[str, Any]:
    """The settings of the example, with absolute paths, files in `folder` and nothing to authenticate with."""
    settings: dict[str, Any] = yaml.safe_load((EXAMPLE / "gate.yaml").read_text(encoding="utf-8"))
    assert settings["upstream"]["command"] == str(PYTHON.relative_to(ROOT))
    upstream = {"command": str(PYTHON), "args": [str(EXAMPLE / "server.py")], "env": {"BOARD": str(folder / "board")}}
    parse_settings(settings)  # the example itself is a whole configuration
    return {
        **settings,
        "upstream": upstream,
        "backend": {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400},
        "database": f"sqlite:///{folder}/gate.sqlite",
        "key_file": str(folder / "keys.yaml"),
        "limits": {"poll_interval_seconds": 0.05},
    }


def board(folder: Path) -> str:
    return (folder / "board").read_text() if (folder / "board").exists() else ""


@pytest.mark.anyio
async def test_a_fastmcp_server_behind_the_gateway_posts_once_after_approval(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.fail("the environment of FastMCP is not there; `make .venv-fastmcp/.ready` makes it", pytrace=False)
    world = World(tmp_path, service=ScriptedService(rules={"post": "request"}))
    ByAction(world, {("resources/read", "board://lines"), ("prompts/get", "announce")})
    settings = parse_settings(document(tmp_path))
    gateway = build(settings, parts=world.parts(settings))
    with anyio.fail_after(60):
        async with connected(gateway.server, tasks_client()) as client:
            (tool,) = (await client.list_tools()).tools
            created = await create(client, "post", text="We are live")
            assert board(tmp_path) == ""
            world.service.approve()
            state = await ended(client, created.task_id)
            read = await client.read_resource("board://lines")
            prompt = await client.get_prompt("announce", {"what": "the release"})
    assert (tool.name, tool.description) == ("post", "Post a line for everybody to read.")
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert state["result"]["structuredContent"] == {"result": "Posted: We are live"}
    assert board(tmp_path) == "We are live\n"
    (content,) = read.contents
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "We are live\n"
    (message,) = prompt.messages
    assert isinstance(message.content, types.TextContent)
    assert message.content.text == "Write one line that announces the release."
