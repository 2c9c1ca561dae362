"""Story: the yes comes before the account that it needs; the call waits for the account and runs once it is there.

And while it waits, a revocation still is in time: nothing runs, whatever becomes of the account. Service, gate and
client are the real ones. PDP-73; SEP-2848, "clears once a grant provisions"; ARS-121.
"""

from pathlib import Path

import pytest
from sqlmodel import Session

from arap_service import audit
from tests.live import Live
from tests.stories.bank import Bank, bank, disposition

POLICY = """
version: 1
clients: [{{client: gate, may: 'subject.type == "identity"'}}]
entities: {{identity: {{alice: {{account: {account}}}}}}}
rules:
  - {{id: transfers, when: resource.id == "wire_transfer", request: transfer}}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    provisioned: subject_entity.?account.orValue(false) == true
    provisioned_retry_seconds: 1
    steps: [{{id: risk, title: Risk engine, resolvers: [resolver]}}]
"""
REVOKED = "The supplier was a fraud."


def set_up(live: Live) -> None:
    """The account is there now."""
    live.context.settings.policy_path.write_text(POLICY.format(account="true"), encoding="utf-8")
    assert live.context.policy.refresh()


@pytest.mark.anyio
@pytest.mark.requirement("PDP-73")
@pytest.mark.parametrize(
    ("is_revoked", "expected", "effects"),
    [(False, "approved-executed", [("ACME", 900)]), (True, "denied-not-executed", [])],
)
async def test_approved_call_waits_until_it_can_have_effect_and_a_revocation_is_still_in_time(
    service_url: str, tmp_path: Path, *, is_revoked: bool, expected: str, effects: list[tuple[str, int]]
) -> None:
    approvals: list[str] = []
    found: list[str] = []

    async def review(told: Bank) -> None:
        for request in await told.waiting():
            if approvals:  # the gate asks once more, since the rules say that somebody could say yes
                await told.resolver.decide(request["id"], "deny", version=request["version"], reason=REVOKED)
                continue
            decided = await told.resolver.decide(request["id"], "approve", version=request["version"])
            approvals.append(decided["approval"]["id"])
        if not approvals or found:
            return
        [approved] = [request async for request in told.resolver.queue(status="approved")]
        # The decision point has been asked with the approval, and has said that it cannot have effect yet.
        entries = await told.live.context.database.read(lambda session: kinds(session, approved["id"]))
        if "reevaluated" not in entries:
            return
        assert told.ran == []
        found.append(approved["id"])
        if is_revoked:
            await told.resolver.revoke(approvals[0], reason=REVOKED)
        set_up(told.live)

    async with bank(tmp_path, service_url, POLICY.format(account="false"), review=review) as told:
        result = await told.transfer(900)
        assert (disposition(result), told.ran) == (expected, effects)
        assert REVOKED not in str(result)


def kinds(session: Session, task_id: str) -> list[str]:
    """What the audit chain of a request records."""
    return [entry.kind for entry in audit.entries_of(session, task_id)]
