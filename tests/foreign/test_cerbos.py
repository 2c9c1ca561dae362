"""A real Cerbos before the rules: it decides, and the rules say which of its denials may be requested.

Cerbos gives no reason with a denial, so the rules convert those without one. It offers no search.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from arap_service.context import Context
from arap_service.domain.errors import SearchUnsupported
from arap_service.evaluation import evaluate, evaluations
from arap_service.search import search_subjects
from arap_service.store import migrate
from arap_service.surroundings import utc_now
from tests import legs
from tests.bench.cerbos import cerbos
from tests.databases import Databases
from tests.foreign.test_combinations import combination
from tests.foreign.world import RULES
from tests.gate.world import connected, create, ended, tasks_client
from tests.pdp import GATE, approved, denied, presenting, question
from tests.service import service_context, settings_for

pytestmark = [pytest.mark.anyio, pytest.mark.cerbos]

POLICY = """
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: tool
  version: default
  rules:
    - actions: ["tools/call"]
      effect: EFFECT_ALLOW
      roles: ["*"]
      condition:
        match:
          any:
            of:
              - expr: R.id == "read"
              - expr: R.attr.amount <= 25000
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    legs.need(legs.CERBOS)
    with cerbos(tmp_path_factory.mktemp("cerbos"), install=False, policy=POLICY) as url:
        yield url


@pytest.fixture
async def ctx(base: str, databases: Databases, tmp_path: Path) -> AsyncIterator[Context]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    settings = settings_for(
        tmp_path,
        database=url,
        policy=RULES.replace("[over_limit]", "[], unexplained: true"),
        insecure_loopback=True,
        upstream={"identifier": base, "timeout_seconds": 10},
    )
    async with service_context(settings, clock=utc_now) as context:
        yield context


def transfer(amount: int) -> dict[str, Any]:
    tool = {"type": "tool", "id": "wire_transfer", "properties": {"amount": amount}}
    return question(resource=tool)


@pytest.mark.requirement("PDP-59", "PDP-67")
async def test_cerbos_permits_denies_and_is_overcome_by_an_approval_of_just_that(ctx: Context) -> None:
    assert (await evaluate(ctx, GATE, transfer(10)))["decision"] is True
    plain = await evaluate(ctx, GATE, question("ledger-2"))
    assert (plain["decision"], plain["context"]["reason"]) == (False, "policy_denied")

    assert (await denied(ctx, transfer(50_000)))["access_request"]["template"] == "auto"
    approval = await approved(ctx, transfer(50_000))
    assert (await evaluate(ctx, GATE, presenting(transfer(50_000), approval)))["decision"] is True
    other = await evaluate(ctx, GATE, presenting(transfer(50_001), approval))
    assert (other["decision"], other["context"]["reason"]) == (False, "out_of_scope")


async def test_a_batch_is_decided_by_cerbos(ctx: Context) -> None:
    amounts = [10, 50_000] * 10
    answer = await evaluations(ctx, GATE, {"evaluations": [transfer(amount) for amount in amounts]})
    assert [each["decision"] for each in answer["evaluations"]] == [amount == 10 for amount in amounts]


async def test_cerbos_offers_no_search(ctx: Context) -> None:
    asked = {"subject": {"type": "user"}, "resource": {"type": "tool", "id": "read"}, "action": {"name": "tools/call"}}
    with pytest.raises(SearchUnsupported):
        await search_subjects(ctx, GATE, asked)


@pytest.mark.parametrize("ars", ["ours", "foreign"])
async def test_the_flow_of_the_gate_passes_with_cerbos_behind_it(
    base: str, databases: Databases, tmp_path: Path, ars: str
) -> None:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    with anyio.fail_after(55):
        async with (
            combination("behind", ars, tmp_path, url, real=base) as combined,
            connected(combined.world.server(), tasks_client()) as client,
        ):
            assert not (await client.call_tool("read", {"account": "a1"})).is_error
            assert (await client.call_tool("sees", {})).is_error
            task = await create(client, "wire", to="acct-991", amount=5)
            await combined.decide("approve")
            state = await ended(client, task.task_id)
    assert state["status"] == "completed"
    assert combined.world.effects == ["acct-991 5"]
