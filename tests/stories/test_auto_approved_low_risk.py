"""Story: what a rule of the template calls small needs nobody; what it holds back waits for somebody; all on record.

Service, gate and client are the real ones. ARS-114, ARS-117.
"""

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
    evaluators:
      - {id: small, when: 'call.?arguments.?amount.orValue(1000000) <= 100', decision: approve, reason: a small amount}
      - {id: stranger, when: 'call.?arguments.?to.orValue("") != "ACME"', decision: hold, reason: a new payee}
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
"""


@pytest.mark.anyio
async def test_small_transfer_runs_without_anybody_and_a_held_one_waits(service_url: str, tmp_path: Path) -> None:
    decided: list[str] = []

    async def review(told: Bank) -> None:
        for request in await told.waiting():
            decided.append(request["id"])
            await told.resolver.decide(request["id"], "deny", version=request["version"], reason="Who is this?")

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        assert disposition(await told.transfer(90)) == "approved-executed"
        assert (told.ran, decided) == ([("ACME", 90)], [])
        [done] = [found async for found in told.resolver.queue(status="approved")]
        record = await told.resolver.get(done["id"])
        assert [(vote["voter"], vote["kind"], vote["decision"]) for vote in record["votes"]] == [
            ("small", "evaluator", "approve")
        ]
        assert disposition(await told.transfer(90, to="Stranger")) == "denied-not-executed"
        assert (told.ran, len(decided)) == ([("ACME", 90)], 1)
