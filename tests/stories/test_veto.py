"""Story: two have to agree, and one of two who may stop it does; the other's yes moves no money.

Service, gate and client are the real ones; both reviewers are machines with identities of their own. ARS-114.
"""

from pathlib import Path

import pytest

from arap_service.client import AsyncResolver
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
    steps:
      - {id: risk, title: Risk engine, resolvers: [resolver]}
      - {id: fraud, title: Fraud desk, resolvers: [second-resolver]}
"""


@pytest.mark.anyio
@pytest.mark.requirement("ARS-114")
@pytest.mark.parametrize(("second", "expected"), [("deny", "denied-not-executed"), ("approve", "approved-executed")])
async def test_one_veto_outranks_every_approval(service_url: str, tmp_path: Path, second: str, expected: str) -> None:
    seen: list[str] = []

    async def review(told: Bank) -> None:
        for request in await told.waiting():
            first = await told.resolver.decide(request["id"], "approve", version=request["version"])
            seen.append(first["status"])
            assert told.ran == []
            async with AsyncResolver(told.live.url, auth=told.live.credentials("second-resolver")) as other:
                decision = "deny" if second == "deny" else "approve"
                await other.decide(request["id"], decision, version=first["version"], reason="A known fraudster.")  # type: ignore[arg-type]

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        result = await told.transfer(900)
    assert (seen, disposition(result)) == (["pending"], expected)
    assert told.ran == ([] if second == "deny" else [("ACME", 900)])
