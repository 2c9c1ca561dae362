"""Story: a risk engine decides what it is sure of, and hands the rest to a human being with a remark.

The engine is examples/risk_engine, a client like any other; service, gate and client are the real ones.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from arap_service.client import AsyncResolver
from examples.risk_engine.engine import Engine
from examples.risk_engine.scoring import score
from tests.stories.bank import Bank, bank, disposition

NOON = datetime(2026, 4, 30, 12, tzinfo=UTC)
NIGHT = datetime(2026, 4, 30, 2, tzinfo=UTC)
POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{id: risk, title: Risk, resolvers: [resolver, second-resolver]}]
    scope: {may_vary: [/context/arguments_hash], words: Any transfer., within: 'call.arguments.amount < 100000'}
"""


@pytest.mark.parametrize(
    ("amount", "payee", "at", "verdict"),
    [
        (500, "ACME", NOON, "approve"),
        (5_000, "ACME", NOON, "approve"),
        (50_000, "ACME", NOON, "human"),
        (500, "Stranger", NOON, "human"),
        (5_000, "Stranger", NIGHT, "deny"),
        (None, "ACME", NIGHT, "deny"),
        (10_001, "Stranger", NOON, "deny"),
    ],
)
def test_points_lead_to_the_verdict(amount: int | None, payee: str, at: datetime, verdict: str) -> None:
    assert score(amount, payee, known={"ACME"}, at=at).verdict == verdict


@pytest.mark.anyio
async def test_engine_approves_denies_and_hands_over(service_url: str, tmp_path: Path) -> None:
    """The second resolver stands for the human: it decides what the engine has left, and reads the remark."""
    engines: list[Engine] = []
    remarks: list[str] = []

    async def review(told: Bank) -> None:
        if not engines:
            engines.append(Engine(told.resolver, known={"ACME"}, clock=lambda: NOON))
        await engines[0].round()
        left = await told.waiting()
        async with AsyncResolver(told.live.url, auth=told.live.credentials("second-resolver")) as human:
            for request in left:
                remarks.extend(comment["text"] for comment in request["comments"])
                # What is approved without a word about its scope is exactly what was asked; this one says how wide.
                version, wide = request["version"], ["/context/arguments_hash"]
                await human.decide(request["id"], "approve", version=version, reason="I know them.", may_vary=wide)

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        assert disposition(await told.transfer(500)) == "approved-executed"
        assert remarks == []
        assert disposition(await told.transfer(20_000, to="Stranger")) == "denied-not-executed"
        assert remarks == []
        assert disposition(await told.transfer(700, to="Newcomer")) == "approved-executed"
        assert remarks == ["Risk 35: payee not paid before. A human being should look at it."]
        assert told.ran == [("ACME", 500), ("Newcomer", 700)]
        ways = {}
        async for row in told.resolver.queue(status="approved"):
            detail = await told.resolver.get(row["id"])
            ways[detail["votes"][0]["voter"]] = detail["approval"]["may_vary"]
        assert ways == {"resolver": [], "second-resolver": ["/context/arguments_hash"]}
        [denied] = [each async for each in told.resolver.queue(status="denied")]
        [vote] = (await told.resolver.get(denied["id"]))["votes"]
        assert (vote["voter"], vote["reason"]) == ("resolver", "Risk 85: large amount, payee not paid before.")
