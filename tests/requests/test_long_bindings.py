"""What is offered can be requested, and what is approved can be used, however much was bound (PDP-39)."""

import json
from typing import Any

import pytest

from arap_service import requests
from arap_service.evaluation import evaluate
from arap_service.keys import MAX_TOKEN
from arap_service.short_tokens import RESERVE
from tests.requests.world import GATE, World, question
from tests.tokens import decoded

pytestmark = pytest.mark.anyio
INLINE = {"subject", "resource", "action", "context"}


@pytest.fixture
def world(shared_world: World) -> World:
    """Every test looks at requests of its own."""
    return shared_world


def asked_about(size: int) -> dict[str, Any]:
    """A question about a resource with a property of `size` characters."""
    return {**question(), "resource": {"type": "tool", "id": "wire_transfer", "properties": {"note": "z" * size}}}


async def largest_inline(world: World) -> int:
    """The largest property with which a binding token still holds everything inline."""
    size = 40_000
    token = (await world.body(asked_about(size)))["denial"]["binding_token"]
    return size + (MAX_TOKEN - RESERVE - len(token)) * 3 // 4 - 4


@pytest.mark.requirement("PDP-39", "PDP-69")
@pytest.mark.parametrize(
    "beyond", [-100_000, 0, 8, RESERVE, 100_000], ids=["small", "just inline", "just not", "near the limit", "large"]
)
async def test_large_question_can_be_requested_and_its_approval_used(world: World, beyond: int) -> None:
    """Where the objects make a token longer than any verifier reads, the hash stands for them."""
    edge = await largest_inline(world)
    asked = asked_about(max(edge + beyond, 10))
    body = await world.body(asked)
    token = body["denial"]["binding_token"]
    assert len(token) <= MAX_TOKEN
    claims = decoded(token.split(".")[1])
    assert INLINE.issubset(claims) is (beyond <= 0)
    assert INLINE.isdisjoint(claims) is (beyond > 0)
    assert "binding_hash" in claims

    detail = await world.decide((await world.submit(body)).task["id"])
    approval = (await requests.status(world.ctx, GATE, detail.id))["result"]["approval"]
    assert len(approval["state"]) <= MAX_TOKEN
    again = {**asked, "context": {**asked["context"], "approval": approval}}
    assert (await evaluate(world.ctx, GATE, again))["decision"] is True
    other = {**again, "resource": {"type": "tool", "id": "wire_transfer", "properties": {"note": "other"}}}
    assert (await evaluate(world.ctx, GATE, other))["context"]["reason"] == "out_of_scope"


@pytest.mark.requirement("PDP-39")
async def test_denial_that_no_token_can_bind_is_not_offered(world: World) -> None:
    """The names of the bound members are in every token, with or without the objects."""
    for added in ({"n" * MAX_TOKEN: 1}, {f"n{number}": number for number in range(8000)}):
        asked = question()
        asked["context"] |= added
        answer = await evaluate(world.ctx, GATE, asked)
        assert (answer["decision"], set(answer["context"])) == (False, {"evaluation_id", "reason"})


@pytest.mark.requirement("PDP-39")
async def test_call_that_no_submission_can_show_is_not_offered(world: World) -> None:
    """A submission with a number that has no canonical form is refused, so that nobody is sent to make one."""
    asked = question()
    call = {"server": "bank", "tool": "wire_transfer", "arguments": {"n": 2**60}, "complete": False}
    asked["context"]["urn:x-arap:tool_call"] = call
    answer = await evaluate(world.ctx, GATE, json.loads(json.dumps(asked)))
    assert (answer["decision"], set(answer["context"])) == (False, {"evaluation_id", "reason"})
