"""Story: a reviewer says no to this and yes to less; the agent reads the proposal and calls anew.

Service, gate and client are the real ones. Nothing that was bound changes by a proposal: the second call is a request
of its own. Design section 5, "Denial".
"""

import json
from pathlib import Path

import pytest

from tests.stories.bank import Bank, bank, disposition

POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
"""
LESS = {"to": "ACME", "amount": 90}


async def review(told: Bank) -> None:
    for request in await told.waiting():
        amount = next(value["text"] for value in request["arguments"] if value["pointer"] == "/amount")
        if int(amount) > 100:
            await told.resolver.decide(
                request["id"], "deny", version=request["version"], reason="Too much.", proposed_arguments=LESS
            )
        else:
            await told.resolver.decide(request["id"], "approve", version=request["version"])


@pytest.mark.anyio
async def test_agent_calls_anew_with_what_the_reviewer_proposed(service_url: str, tmp_path: Path) -> None:
    async with bank(tmp_path, service_url, POLICY, review=review, shows_words=True) as told:
        refused = await told.transfer(900)
        assert (disposition(refused), told.ran) == ("denied-not-executed", [])
        line = refused.content[-1].text
        proposed = json.loads(line[line.index("{") :])
        assert proposed == LESS
        done = await told.transfer(**proposed)
        assert (disposition(done), told.ran) == ("approved-executed", [("ACME", 90)])


@pytest.mark.anyio
async def test_proposal_stays_between_the_halves_where_words_of_deciders_are_not_allowed(
    service_url: str, tmp_path: Path
) -> None:
    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        refused = await told.transfer(900)
        assert "90" not in str(refused.content).replace("900", "")
        assert told.ran == []
