"""A request is about the call that was denied, and nothing that the denial does not prove decides it by itself.

Catalogue ARS-20 and X-42; design section 4.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from arap_service import requests
from arap_service.domain.errors import InvalidDenialBinding
from arap_service.evaluation import evaluate
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.requests import Submitted
from tests.requests.world import ARGUMENTS, GATE, World, machine, person, question

pytestmark = pytest.mark.anyio
SMALL = {"amount": 5, "to": "DE1"}
LARGE = {"amount": 500_000, "to": "DE1"}


@pytest.fixture
def world(shared_world: World) -> World:
    """Every test looks at requests of its own."""
    return shared_world


def call(arguments: Mapping[str, Any] = ARGUMENTS, tool: str = "wire_transfer", **changes: Any) -> dict[str, Any]:
    """The shown call of `question`, changed by the test."""
    return {"server": "bank", "tool": tool, "title": "A tool", "arguments": dict(arguments), **changes}


def showing(asked: Mapping[str, Any], shown: Mapping[str, Any] | None) -> dict[str, Any]:
    """`asked` with another shown call, or with none."""
    context = {name: value for name, value in asked["context"].items() if name != TOOL_CALL}
    return {**asked, "context": context if shown is None else {**context, TOOL_CALL: shown}}


OTHERS: dict[str, Mapping[str, Any] | None] = {
    "left out": None,
    "cut short": call({"to": "DE1"}, complete=False),
    "other values": call({**ARGUMENTS, "amount": 5}, complete=False),
    "called incomplete": call(complete=False),
    "retitled": call(title="Harmless"),
    "with a note": call(note="Approved by everybody"),
}


@pytest.mark.requirement("ARS-20")
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("path", ["token", "id"])
async def test_submission_that_shows_another_call_is_refused(world: World, name: str, path: str) -> None:
    """The hash binds the arguments; whether and how the call is shown is bound beside it."""
    asked = question()
    if path == "token":
        denial = (await world.body(asked))["denial"]
    else:
        denial = world.denial(evaluation_id=await world.recorded(asked))
    with pytest.raises(InvalidDenialBinding):
        await world.submit({**showing(asked, OTHERS[name]), "denial": denial})
    assert (await world.submit({**asked, "denial": denial})).task["status"] == "pending"


@pytest.mark.requirement("ARS-20")
async def test_call_that_was_shown_in_part_or_not_at_all_stays_as_it_was(world: World) -> None:
    """What an enforcement point withheld from the rules is not made up for afterwards, nor replaced."""
    part = showing(question(), call({"to": "DE1"}, complete=False))
    none = showing(question(), None)
    for asked, other in (
        (part, showing(part, call({"to": "DE2"}, complete=False))),
        (part, showing(part, call())),
        (none, showing(none, call())),
        (none, part),
    ):
        body = await world.body(asked)
        with pytest.raises(InvalidDenialBinding):
            await world.submit({**body, "context": other["context"]})
        assert (await world.submit(body)).task["status"] == "pending"


async def test_small_call_shown_for_a_large_one_approves_nothing(world: World) -> None:
    """The evaluator that approves small amounts never reads the small amount that was not denied."""
    asked = question("auto", arguments=LARGE)
    body = await world.body(asked)
    with pytest.raises(InvalidDenialBinding):
        await world.submit({**body, "context": showing(asked, call(SMALL, "auto", complete=False))["context"]})
    assert (await world.submit(body)).task["status"] == "pending"


async def rated(world: World, asked: Mapping[str, Any], *, caller: Any = GATE, **added: Any) -> Submitted:
    """A submission for `asked` to which `added` members of the context were added afterwards."""
    body = await world.body(asked, caller=caller)
    return await world.submit({**body, "context": {**body["context"], **added}}, caller=caller)


@pytest.mark.requirement("ARS-20")
async def test_evaluator_hears_what_is_bound_and_nothing_that_was_added(world: World) -> None:
    """A member that the evaluation did not have is not bound, so that it convinces no rule."""
    told = await rated(world, question("rated", arguments=LARGE, rating=1))
    assert (told.status_code, told.task["status"]) == (201, "approved")
    added = await rated(world, question("rated", arguments=LARGE), rating=1)
    assert (added.status_code, added.task["status"]) == (202, "pending")
    assert "evaluator_heard" not in await world.kinds(added.task["id"])
    assert (await requests.detail(world.ctx, person("ann"), added.task["id"])).votes == ()


@pytest.mark.requirement("ARS-20")
@pytest.mark.parametrize(("actor", "status"), [("trusted", "approved"), ("agent-b", "pending")])
async def test_evaluator_hears_of_an_actor_only_what_was_compared(world: World, actor: str, status: str) -> None:
    """The chain of actors is bound by issuer and subject; whatever else a link says is not."""
    caller = machine("gate", act=((None, actor),))
    asked = question("rated", arguments=LARGE)
    asked["subject"] = {"type": "user", "id": "alice", "properties": {"act": {"sub": actor}}}
    body = await world.body(asked, caller=caller)
    body["subject"] = {**asked["subject"], "properties": {"act": {"sub": actor, "level": 9}}}
    assert (await world.submit(body, caller=caller)).task["status"] == status


@pytest.mark.parametrize("shown", [None, call({"to": "DE1"}, "rated", complete=False)], ids=["none", "part"])
async def test_nothing_answers_for_arguments_that_nobody_was_shown(
    world: World, shown: Mapping[str, Any] | None
) -> None:
    """Catalogue X-42: neither an evaluator nor the sentence of the template puts a default in their place."""
    asked = showing(question("rated", arguments=LARGE), shown)
    submitted = await rated(world, asked)
    assert submitted.task["status"] == "pending"
    detail = await requests.detail(world.ctx, person("ann"), submitted.task["id"])
    assert (detail.complete, detail.arguments_hash) == (False, arguments_hash(LARGE))
    assert "Moves" not in detail.effect
    whole = await rated(world, question("rated", arguments=LARGE))
    assert (await requests.detail(world.ctx, person("ann"), whole.task["id"])).effect == "Moves 500000"


async def test_token_of_somebody_else_says_nothing_of_the_shown_call(world: World) -> None:
    """Other decision points do not claim what was shown, so that a call proves as much as its hash does."""
    asked = question("rated", arguments=SMALL)

    async def submitted(body: Mapping[str, Any]) -> Submitted:
        return await world.submit({**body, "denial": world.denial(binding_token=world.token(asked, template="rated"))})

    assert (await submitted(asked)).task["status"] == "approved"
    short = showing(asked, call({"amount": 1}, "rated", complete=False))
    for body in (showing(asked, None), short):
        pending = await submitted(body)
        assert pending.task["status"] == "pending"
        detail = await requests.detail(world.ctx, person("ann"), pending.task["id"])
        assert detail.complete is False
        assert "Moves" not in detail.effect


@pytest.mark.requirement("PDP-56")
async def test_approval_without_arguments_covers_no_call(world: World) -> None:
    """Catalogue X-02: an approval that was given without a look at arguments does not cover whichever come."""
    bare = {**question(arguments_hash=None), "resource": {"type": "account", "id": "wire_transfer"}}
    bare = showing(bare, None)
    submitted = await world.submit(await world.body(bare))
    detail = await world.decide(submitted.task["id"])
    assert detail.approval is not None
    told = (await requests.status(world.ctx, GATE, detail.id))["result"]["approval"]
    alone = {**bare, "context": {**bare["context"], "approval": told}}
    assert (await evaluate(world.ctx, GATE, alone))["decision"] is True
    for more in ({"arguments_hash": arguments_hash(LARGE), TOOL_CALL: call(LARGE)}, {"arguments_hash": "sha256:00"}):
        answer = await evaluate(world.ctx, GATE, {**alone, "context": {**alone["context"], **more}})
        assert (answer["decision"], answer["context"]["reason"]) == (False, "out_of_scope")


@pytest.mark.requirement("PDP-56")
async def test_tool_without_arguments_cannot_be_requested(world: World) -> None:
    """Catalogue X-02: the name of a tool alone is not what anybody should approve."""
    answer = await evaluate(world.ctx, GATE, showing(question(arguments_hash=None), None))
    assert answer["decision"] is False
    assert set(answer["context"]) == {"evaluation_id", "reason"}
    assert answer["context"]["reason"] == "arguments_unbound"
