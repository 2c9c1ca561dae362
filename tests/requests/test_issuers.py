"""Evaluations of several decision points under one name: each is somebody's, and none is a name of our own records."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from arap_service.auditing.reading import AuditFilter, entries, issuers_of
from arap_service.domain.errors import InvalidDenialBinding, InvalidRequest
from arap_service.keys import BINDING_TYP, TrustedIssuers
from tests.requests.bundles import asked, denied, rows
from tests.requests.world import World, machine, question
from tests.tokens import FixedKeys, key, signed

pytestmark = pytest.mark.anyio

NORTH, SOUTH = "https://north.example", "https://south.example"
KEYS = {NORTH: key("north-1"), SOUTH: key("south-1")}


@pytest.fixture
def federated(world: World) -> World:
    """The world, with two decision points elsewhere whose tokens count."""
    sources = {**world.ctx.trust.binding.sources, **{issuer: FixedKeys(made) for issuer, made in KEYS.items()}}
    return replace(world, ctx=replace(world.ctx, trust=replace(world.ctx.trust, binding=TrustedIssuers(sources))))


def denial_of(world: World, about: Mapping[str, Any], issuer: str, evaluation_id: str) -> dict[str, Any]:
    """A denial that a decision point elsewhere has minted `evaluation_id` for."""
    # What is shown of a call is a claim of our own, which nobody else makes.
    claims = world.claims(about, iss=issuer, evaluation_id=evaluation_id, without=["template", "shown_call"])
    token = signed(KEYS[issuer], claims, typ=BINDING_TYP)
    return {"evaluation_id": evaluation_id, "binding_token": token, "expires_at": claims["denial_expires_at"]}


@pytest.mark.requirement("ARS-35", "ARS-37")
async def test_two_decision_points_that_mint_one_name_do_not_keep_each_other_out(federated: World) -> None:
    about = question()
    first = await federated.submit({**about, "denial": denial_of(federated, about, NORTH, "ev-1")})
    second = await federated.submit({**about, "denial": denial_of(federated, about, SOUTH, "ev-1")})
    assert first.task["id"] != second.task["id"]
    with pytest.raises(InvalidDenialBinding):  # that one denial is under request, whatever token says so
        await federated.submit({**about, "denial": denial_of(federated, about, SOUTH, "ev-1")})


@pytest.mark.requirement("ARS-35", "ARS-37")
async def test_items_of_two_decision_points_may_have_one_name(federated: World) -> None:
    def item(resource: str, issuer: str) -> dict[str, Any]:
        one = asked(resource)
        return {
            "resource": one["resource"],
            "action": one["action"],
            "denial": denial_of(federated, one, issuer, "ev-1"),
        }

    shared = {name: asked()[name] for name in ("subject", "context")}
    made = await federated.submit({**shared, "items": [item("wire_transfer", NORTH), item("merge", SOUTH)]})
    assert [row.binding_iss for row in await rows(federated, made.task["id"])] == [NORTH, SOUTH]
    about = asked("payroll")
    with pytest.raises(InvalidDenialBinding):
        await federated.submit({**about, "denial": denial_of(federated, about, SOUTH, "ev-1")})


@pytest.mark.requirement("ARS-123")
async def test_what_became_of_an_evaluation_is_told_apart_by_who_gave_it_its_id(federated: World) -> None:
    """A decision point elsewhere may give its evaluation the id of one of ours, by chance or on purpose."""
    about, auditor = question(), machine("auditor", "audit:read")
    ours = await federated.body(about)
    evaluation_id = ours["denial"]["evaluation_id"]
    mine = str((await federated.submit(ours)).task["id"])
    theirs = await federated.submit({**about, "denial": denial_of(federated, about, NORTH, evaluation_id)})
    read = partial(entries, federated.ctx, auditor)
    with pytest.raises(InvalidRequest) as unclear:
        await read(AuditFilter(evaluation=evaluation_id))
    assert unclear.value.extra["pointer"] == "/issuer"
    own = federated.ctx.settings.identifier
    assert await issuers_of(federated.ctx, auditor, evaluation_id) == (own, NORTH)
    stories = {own: {evaluation_id, mine}, NORTH: {theirs.task["id"]}, SOUTH: set()}
    for issuer, chains in stories.items():
        found = await read(AuditFilter(evaluation=evaluation_id, issuer=issuer))
        assert {entry.chain for entry in found.items} == chains


@pytest.mark.requirement("ARS-37")
async def test_a_denial_on_record_is_not_kept_out_by_a_foreign_one_of_its_name(federated: World) -> None:
    about = question()
    evaluation_id = await federated.recorded(about)
    body = {**about, "denial": federated.denial(evaluation_id=evaluation_id)}
    foreign = await federated.submit({**about, "denial": denial_of(federated, about, NORTH, evaluation_id)})
    ours = await federated.submit(body)
    assert ours.task["id"] != foreign.task["id"]
    assert (await federated.submit(body)).task["id"] == ours.task["id"]


@pytest.mark.requirement("ARS-13", "ARS-17")
async def test_a_foreign_token_that_names_our_denial_takes_nothing_of_its_record(federated: World) -> None:
    ours = await denied(federated, question("payroll"))
    about = question()
    body = {**about, "denial": denial_of(federated, about, NORTH, ours["denial"]["evaluation_id"])}
    task = await federated.task((await federated.submit(body)).task["id"])
    assert (task.rule_id, task.reason, task.template_id) == ("rule-transfer", "needs_approval", "transfer")
    mine = {**question("payroll"), "denial": ours["denial"]}
    task = await federated.task((await federated.submit(mine)).task["id"])
    assert (task.rule_id, task.reason) == ("rule-quorum", "needs_two")
