"""The second story: the end-to-end example of the tool-approval SEP, with a gate inside the MCP server.

A transfer of 50,000 to acct-991 over a threshold of 25,000 becomes a task, is approved and runs once. Every message on
the client's wire is written to a transcript. SEP-2848, "End-to-end example".
"""

from pathlib import Path
from typing import Final

from examples.demo.agent import Agent, connected
from examples.demo.decisions import Wish
from examples.demo.story import Stage, answers, expect_result, follow, is_error, require, shown, text_of
from examples.demo.world import Cast, gate_settings, python_module, write_service
from mcp_gate.client import Disposition, disposition

ROOT: Final = Path(__file__).parent.parent.parent
RULES: Final = ROOT / "examples" / "treasury" / "rules.yaml"
CAST: Final = Cast(
    agent="payments-agent",
    subject="ap-clerk@treasury.example",
    gate="treasury-gate",
    reviewer="tomas",
    reviewer_name="Tomas Lind",
    group="treasurers",
)
TRANSFER: Final[dict[str, object]] = {"to": "acct-991", "amount": 50000}
TRANSCRIPT: Final = "transcript.jsonl"


def set_up(stage: Stage) -> None:
    """Start the approval service and the treasury."""
    write_service(stage.world, RULES.read_text(encoding="utf-8"))
    stage.start_service()
    start_server(stage)


async def tell(stage: Stage) -> None:
    """Tell it.

    Raises:
        StoryFailed: Something went otherwise than it must.
    """
    world, narrator = stage.world, stage.narrator
    transcript = world.path(TRANSCRIPT)
    async with connected(world, hear=stage.seen.hear, transcript=transcript) as agent:
        with narrator.chapter("Up to the threshold a transfer runs at once"):
            await transfer_little(stage, agent)
        with narrator.chapter("Over the threshold it needs somebody's yes"):
            await transfer_much(stage, agent)
    narrator.done(f"every message between client and server is in {shown(transcript)}")


def start_server(stage: Stage) -> None:
    """Start the treasury server, which has the gate inside."""
    world = stage.world
    ledger = world.path("ledger.jsonl")
    settings = world.write("gate.yaml", gate_settings(world, server_name="treasury"))
    serve = python_module("examples.treasury.server", "--config", settings, "--ledger", ledger, "--die-with-stdin")
    stage.narrator.step("starting the treasury server: an MCP server of ours with the gate as an extension")
    stage.supervisor.start("treasury", serve, ready=answers(f"{world.gate}/healthz"))
    stage.narrator.done(f"the treasury server is up at {world.mcp}")


async def transfer_little(stage: Stage, agent: Agent) -> None:
    """A transfer that policy permits runs without anybody."""
    answer = await agent.call("wire_transfer", {"to": "acct-102", "amount": 900})
    text = expect_result(answer)
    require(not is_error(answer), f"the small transfer should have run: {text}")
    stage.narrator.done(f"wire_transfer of 900 ran: {text}")


async def transfer_much(stage: Stage, agent: Agent) -> None:
    """The SEP's transfer becomes a task, is approved, and runs once."""
    ledger = stage.world.path("ledger.jsonl")
    before = transfers(ledger)
    wish = Wish("approve", None, "the account, the amount, and who asks through which agent")
    result = await follow(stage, agent, "wire_transfer", TRANSFER, wish=wish)
    require(disposition(result) is Disposition.APPROVED_EXECUTED, f"it should have run: {text_of(result)}")
    require(transfers(ledger) == before + 1, "the ledger should have exactly one new entry")
    stage.narrator.quote(text_of(result))
    stage.narrator.done("the ledger has exactly one new entry:")
    stage.narrator.quote(ledger.read_text(encoding="utf-8"))


def transfers(ledger: Path) -> int:
    """How many transfers left the bank."""
    return len(ledger.read_text(encoding="utf-8").splitlines()) if ledger.exists() else 0
