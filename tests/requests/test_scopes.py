"""A scope that a template widened: shown, narrowed by whoever approves, signed, and applied in a fresh decision."""

from typing import Any

import pytest

from arap_service import requests
from arap_service.domain.errors import InputInvalid, InvalidRequest
from arap_service.evaluation import evaluate
from arap_service.keys import APPROVAL_TYP
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.views import ScopeView
from tests.requests.world import GATE, World, person, question

pytestmark = pytest.mark.anyio
WIDE = ("/context/arguments_hash", "/context/cost_centre")
WORDS = "Any payment up to 50000, from any cost centre."


def pay(amount: int = 50000, **context: Any) -> dict[str, Any]:
    arguments = {"amount": amount, "to": "DE1"}
    return question("pay", arguments=arguments, **{"cost_centre": "7", **context})


async def approved(world: World, *scopes: tuple[str, ...] | None) -> dict[str, Any]:
    """An approval by two, each of whom leaves this wide, as the gate gets it."""
    task_id = str((await world.submit(await world.body(pay()))).task["id"])
    for who, scope in zip(("ann", "bob"), scopes, strict=True):
        await world.decide(task_id, who, may_vary=scope)
    answer = await requests.status(world.ctx, GATE, task_id)
    approval: dict[str, Any] = answer["result"]["approval"]
    return approval


async def allowed(world: World, asked: dict[str, Any], approval: dict[str, Any]) -> bool:
    context = {**asked["context"], "approval": approval}
    answer = await evaluate(world.ctx, GATE, {**asked, "context": context})
    if not answer["decision"]:
        assert answer["context"]["reason"] == "out_of_scope"
    return bool(answer["decision"])


@pytest.mark.requirement("PDP-67", "PDP-69")
async def test_widened_approval_covers_what_may_vary_within_its_bound_and_nothing_else(terms: World) -> None:
    approval = await approved(terms, None, None)
    assert await allowed(terms, pay(), approval)
    assert await allowed(terms, pay(49, cost_centre="8"), approval)
    assert not await allowed(terms, pay(50001), approval)
    assert not await allowed(terms, pay(server="other"), approval)
    claims = terms.ctx.keys.verify(approval["state"], typ=APPROVAL_TYP, issuers=terms.ctx.trust.approval)
    within = "call.?arguments.?amount.orValue(1.0e9) <= 50000"
    assert claims["urn:x-arap:scope"] == {"may_vary": list(WIDE), "within": within}
    assert claims["context"]["arguments_hash"] == arguments_hash({"amount": 50000, "to": "DE1"})


@pytest.mark.requirement("PDP-67")
@pytest.mark.parametrize("scopes", [((), None), (None, ()), (WIDE[:1], WIDE[1:])])
async def test_narrowed_to_nothing_it_covers_exactly_what_was_asked(terms: World, scopes: Any) -> None:
    """What one approver leaves wide and another does not is not wide."""
    approval = await approved(terms, *scopes)
    assert await allowed(terms, pay(), approval)
    assert not await allowed(terms, pay(49), approval)
    assert not await allowed(terms, pay(cost_centre="8"), approval)
    claims = terms.ctx.keys.verify(approval["state"], typ=APPROVAL_TYP, issuers=terms.ctx.trust.approval)
    assert "urn:x-arap:scope" not in claims


@pytest.mark.requirement("PDP-67")
async def test_a_program_that_says_nothing_of_the_scope_approves_exactly_what_was_asked(terms: World) -> None:
    """What the template widened is in words for people; over the resolver API it has to be said."""
    by_api = person("ann", channel="api")
    for said, is_wide in ((None, False), (WIDE, True)):
        task_id = str((await terms.submit(await terms.body(pay()))).task["id"])
        await terms.decide(task_id, by_api, may_vary=said)
        await terms.decide(task_id, "bob")
        approval = (await requests.status(terms.ctx, GATE, task_id))["result"]["approval"]
        assert await allowed(terms, pay(), approval)
        assert await allowed(terms, pay(49), approval) == is_wide


async def test_narrowed_to_fewer_members_only_those_vary(terms: World) -> None:
    approval = await approved(terms, WIDE[1:], None)
    assert await allowed(terms, pay(cost_centre="8"), approval)
    assert not await allowed(terms, pay(49), approval)


@pytest.mark.requirement("PDP-67", "PDP-66")
async def test_signed_scope_and_record_must_both_cover_it(terms: World) -> None:
    """The state of a wide approval does not widen a narrow one."""
    wide, narrow = await approved(terms, None, None), await approved(terms, (), None)
    context = {**pay()["context"], "approval": {"id": narrow["id"], "state": wide["state"]}}
    answer = await evaluate(terms.ctx, GATE, {**pay(), "context": context})
    assert answer["context"]["reason"] == "approval_unverifiable"


@pytest.mark.parametrize("hidden", [{"complete": False}, {"arguments": {"amount": 1}, "complete": False}])
async def test_bound_that_reads_what_is_not_proven_does_not_hold(terms: World, hidden: dict[str, Any]) -> None:
    approval = await approved(terms, None, None)
    asked = pay(49)
    asked["context"][TOOL_CALL] |= hidden
    assert not await allowed(terms, asked, approval)


async def test_reviewer_sees_how_wide_it_is_and_what_others_have_narrowed(terms: World) -> None:
    task_id = str((await terms.submit(await terms.body(pay()))).task["id"])
    before = await requests.detail(terms.ctx, person("ann"), task_id)
    assert before.scope == ScopeView(words=WORDS, may_vary=WIDE)
    after = await terms.decide(task_id, "ann", may_vary=WIDE[1:])
    assert after.scope == ScopeView(words=WORDS, may_vary=WIDE[1:])
    granted = await terms.decide(task_id, "bob", may_vary=WIDE)
    assert granted.approval is not None
    assert granted.approval.may_vary == WIDE[1:]
    cast = [entry for entry in await terms.audit(task_id) if entry.kind in {"vote_cast", "task_approved"}]
    assert ['"may_vary":["/context/cost_centre"]' in entry.detail for entry in cast] == [True, False, True]


async def test_nobody_can_widen(terms: World) -> None:
    task_id = str((await terms.submit(await terms.body(pay()))).task["id"])
    for wish, pointer in (((*WIDE, "/resource/id"), 2), (("/context/server",), 0)):
        with pytest.raises(InputInvalid) as refused:
            await terms.decide(task_id, may_vary=wish)
        assert refused.value.extra["errors"] == [{"pointer": f"/scope/may_vary/{pointer}", "code": "not_allowed"}]
    with pytest.raises(InvalidRequest):
        await terms.decide(task_id, "ann", "deny", may_vary=())
    assert await terms.version(task_id) == 1


async def test_resource_may_be_another_where_the_template_says_so(terms: World) -> None:
    def data(name: str, kind: str = "dataset") -> dict[str, Any]:
        return {
            "subject": {"type": "user", "id": "alice"},
            "resource": {"type": kind, "id": name, "properties": {"region": name}},
            "action": {"name": "read"},
            "context": {"agent": "bot"},
        }

    task_id = str((await terms.submit(await terms.body(data("sales")))).task["id"])
    await terms.decide(task_id)
    approval = (await requests.status(terms.ctx, GATE, task_id))["result"]["approval"]
    assert await allowed(terms, data("costs"), approval)
    other = {**data("costs"), "action": {"name": "write"}}
    assert not await allowed(terms, other, approval)
