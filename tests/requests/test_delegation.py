"""What a client says about itself is a label, and what proves an actor is written down (ARS-J)."""

import json
from typing import Any

import pytest

from arap_service import requests
from arap_service.domain.errors import ActorUnverified, ArapError, InvalidDenialBinding
from tests.requests.world import World, machine, question
from tests.service import app_for, http

pytestmark = pytest.mark.anyio
BOT, CAR = ("https://idp.example", "bot"), ("https://idp.example", "car")


def actor(*chain: tuple[str, str]) -> dict[str, Any]:
    """An actor with whoever acts for it, as `client.actor` says it."""
    (issuer, name), *rest = chain
    nested = {"act": acting(*rest)} if rest else {}
    return {"id": name, "issuer": issuer, **nested}


def acting(*chain: tuple[str, str]) -> dict[str, Any]:
    """The same chain as an `act` claim."""
    (issuer, name), *rest = chain
    return {"iss": issuer, "sub": name, **({"act": acting(*rest)} if rest else {})}


@pytest.mark.requirement("ARS-101", "ARS-104")
async def test_what_a_client_says_about_itself_changes_nothing_but_a_label_in_the_audit(world: World) -> None:
    """Spoofed id, name and source: the same steps and voices, the authenticated client, and no word in the audit."""
    spoofed = {"id": "other-gate", "name": "Treasury", "source": {"step": "canary-source", "trusted": True}}
    plain = (await world.submit(await world.body())).task["id"]
    labelled = (await world.submit(await world.body(client=spoofed))).task["id"]
    rows = [await world.task(task_id) for task_id in (plain, labelled)]
    routed = [(row.status, row.client_id, row.submitter, row.template_id, row.agent, row.actors) for row in rows]
    assert routed[0] == routed[1]
    assert rows[1].client_id == "gate"
    boards = [(await requests.detail(world.ctx, REVIEWER, row.id)).steps for row in rows]
    assert boards[0] == boards[1]
    details = [json.loads((await world.audit(row.id))[0].detail) for row in rows]
    assert (details[0]["client"], details[0]["unverified"]) == ("gate", None)
    assert (details[1]["client"], details[1]["unverified"]["client"]) == ("gate", ["id", "name", "source"])
    assert "canary" not in json.dumps(details)
    assert "other-gate" not in json.dumps(details)


REVIEWER = machine("reviewer", "approval:read")


@pytest.mark.requirement("ARS-99", "ARS-100", "ARS-101")
@pytest.mark.parametrize(
    ("proven", "claimed", "outcome"),
    [
        ((BOT, CAR), (BOT, CAR), None),
        ((BOT,), (BOT,), None),
        ((BOT, CAR), (BOT,), InvalidDenialBinding),
        ((BOT,), (BOT, CAR), InvalidDenialBinding),
        ((CAR, BOT), (BOT, CAR), InvalidDenialBinding),
    ],
)
async def test_chain_is_the_denied_one_link_by_link_and_in_order(
    world: World,
    proven: tuple[tuple[str, str], ...],
    claimed: tuple[tuple[str, str], ...],
    outcome: type[ArapError] | None,
) -> None:
    """The denial was made for the chain `proven`, which the access token proves as well."""
    subject = {"type": "user", "id": "alice@corp.example", "properties": {"act": acting(*proven)}}
    caller = machine("gate", act=proven)
    body = await world.body({**question(), "subject": subject}, caller=caller, client={"actor": actor(*claimed)})
    if outcome is None:
        assert (await world.submit(body, caller=caller)).task["status"] == "pending"
        return
    with pytest.raises(outcome):
        await world.submit(body, caller=caller)


@pytest.mark.requirement("ARS-99")
@pytest.mark.parametrize("held", [(), (BOT,), (CAR, BOT), (BOT, ("https://other.example", "car"))])
async def test_chain_that_the_token_does_not_hold_whole_is_refused(
    world: World, held: tuple[tuple[str, str], ...]
) -> None:
    subject = {"type": "user", "id": "alice@corp.example", "properties": {"act": acting(BOT, CAR)}}
    body = await world.body({**question(), "subject": subject}, client={"actor": actor(BOT, CAR)})
    with pytest.raises(ActorUnverified):
        await world.submit(body, caller=machine("gate", act=held))


@pytest.mark.requirement("ARS-103")
async def test_description_says_what_a_subject_is_and_what_proves_an_actor(world: World) -> None:
    async with http(app_for(world.ctx)) as client:
        document = (await client.get("/openapi.json")).json()
    body = document["paths"]["/access/v1/request"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    subject, described = body["properties"]["subject"], body["properties"]["client"]
    assert subject["required"] == ["type", "id"]
    assert "`properties.act`" in subject["description"]
    for convention in ("`id` and `issuer` meaning `sub` and `iss`", "`act` claim of the access token", "are labels"):
        assert convention in described["description"]
