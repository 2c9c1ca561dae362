"""What the body of a result states, in the words of several authors."""

import anyio
import pytest

from mcp_gate.conformance.catalogue import chosen
from mcp_gate.conformance.model import Verdict
from mcp_gate.conformance.running import Run
from tests.sep2848.plain_gate import Json, PlainGate
from tests.sep2848.subjects import PlainHands, PlainSubject, control

pytestmark = pytest.mark.anyio


class Says(PlainGate):
    """Ends every call with one text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def end_denied(self, task: Json, cause: str, text: str) -> None:
        super().end_denied(task, cause, self.text)

    def execute(self, task: Json) -> None:
        super().execute(task)
        task["result"]["content"] = [{"type": "text", "text": self.text}]


async def verdict(text: str, check: str) -> Verdict:
    gate = Says(text)
    run = Run(PlainHands(gate, control()), PlainSubject(gate), tokens=("alice", None))
    with anyio.fail_after(30):
        (outcome,) = await run.all(chosen([check]), lambda _: None)
    return outcome.verdict


@pytest.mark.parametrize(
    "text",
    [
        "The request was declined; the transfer hasn't been carried out.",
        "Denied. No transfer was made; the tool wasn't invoked.",
        "Denied. The tool has not yet been, and will not be, run.",
        "Nothing was executed.",
        "The review was completed, and the tool did not run.",
        "Refused without running it.",
    ],
)
async def test_a_denial_may_say_in_many_ways_that_the_tool_did_not_run(text: str) -> None:
    assert await verdict(text, "denied-body") is Verdict.PASS


@pytest.mark.parametrize(
    "text",
    [
        "The tool ran and 50000 were sent; it was not called again.",
        "It was executed. It was never called again.",
        "Denied.",
        "The tool did not fail.",
        "The transfer has been carried out, not invoked twice.",
    ],
)
async def test_a_denial_that_says_that_it_ran_or_nothing_of_it_is_found(text: str) -> None:
    assert await verdict(text, "denied-body") is Verdict.FAIL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 sent. The tool was executed.", Verdict.PASS),
        ("Not everything was sent; the tool ran.", Verdict.PASS),
        ("The tool hasn't been run.", Verdict.FAIL),
        ("The tool ran, or it was never carried out.", Verdict.FAIL),
    ],
)
async def test_an_execution_says_that_the_tool_ran_and_not_the_contrary(text: str, expected: Verdict) -> None:
    assert await verdict(text, "executed-body") is expected
