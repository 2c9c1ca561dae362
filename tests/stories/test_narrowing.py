"""Story: the rules would let an approval cover any small transfer; the reviewer makes it exactly this one.

Service, gate and client are the real ones; afterwards the same enforcement point presents the approval for another
transfer. Left wide it covers that, narrowed it does not, and it never covers more than the rules bound. PDP-67.
"""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.records import Part, task_seal, tuple_of
from arap_service.store.tables import Task
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
    scope:
      may_vary: [/context/arguments_hash]
      within: 'call.?arguments.?amount.orValue(1000000) <= 1000'
      words: Any transfer of at most 1000.
"""


async def answer(told: Bank, request: dict[str, Any], amount: int) -> bool:
    """Whether the approval of `request` allows a transfer of this amount, asked by the gate's own client."""
    context = told.live.context
    task = await context.database.read(lambda session: session.get(Task, request["id"]))
    assert task is not None
    about = tuple_of(Part(task), task_seal(task, context.ring))
    arguments = {"to": "ACME", "amount": amount}
    async with httpx2.AsyncClient(auth=told.live.credentials("gate")) as gate:
        status = (await gate.get(f"{told.live.url}/access/v1/request/{request['id']}")).json()
        call = {"server": "treasury", "tool": "wire_transfer", "arguments": arguments}
        changed = {"arguments_hash": arguments_hash(arguments), TOOL_CALL: call}
        asked = {
            "subject": about.subject,
            "resource": about.resource,
            "action": about.action,
            "context": {**about.context, **changed, "approval": status["result"]["approval"]},
        }
        found = (await gate.post(f"{told.live.url}/access/v1/evaluation", json=asked)).json()
    return bool(found["decision"])


@pytest.mark.anyio
@pytest.mark.requirement("PDP-67")
@pytest.mark.parametrize(
    ("wide", "others"),
    [([], False), (None, False), (["/context/arguments_hash"], True)],
    ids=["exact", "silent", "wide"],
)
async def test_approval_covers_other_transfers_only_as_far_as_the_reviewer_left_it_wide(
    service_url: str, tmp_path: Path, *, wide: list[str] | None, others: bool
) -> None:
    seen: list[dict[str, Any]] = []

    async def review(told: Bank) -> None:
        for request in await told.waiting():
            seen.append(request)
            await told.resolver.decide(request["id"], "approve", version=request["version"], may_vary=wide)

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        result = await told.transfer(900)
        assert (disposition(result), told.ran) == ("approved-executed", [("ACME", 900)])
        [request] = seen
        assert request["scope"] == {
            "words": "Any transfer of at most 1000.",
            "may_vary": ["/context/arguments_hash"],
        }
        assert await answer(told, request, 900) is True
        assert await answer(told, request, 90) is others
        assert await answer(told, request, 9000) is False
