"""What a service says that stands behind another decision point: design section 4, external PDP."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from sqlmodel import select
from structlog.testing import capture_logs

from arap_service.context import Context
from arap_service.evaluation import evaluate, evaluations
from arap_service.settings_parts import UpstreamSettings
from arap_service.store.tables import AuditEntry
from arap_service.upstream import Upstream
from arap_service.yaml_files import SettingsInvalid
from tests.clock import FakeClock
from tests.foreign.decision_point import IDENTIFIER, ForeignDecisionPoint
from tests.foreign.world import RULES, behind
from tests.pdp import GATE, approved, change_rules, denied, presenting, question
from tests.service import service_context, settings_for

pytestmark = pytest.mark.anyio


@pytest.fixture
def other() -> ForeignDecisionPoint:
    return ForeignDecisionPoint()


@pytest.fixture
async def ctx(
    other: ForeignDecisionPoint, service_url: str, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[Context]:
    async with behind(other, tmp_path, database=service_url, clock=clock) as context:
        yield context


def down(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(503)


async def test_its_permit_stands_and_its_obligations_come_along(ctx: Context, other: ForeignDecisionPoint) -> None:
    other.permit("wire_transfer", mask=["iban"], evaluation_id="theirs")
    answer = await evaluate(ctx, GATE, question())
    assert answer["decision"] is True
    assert answer["context"]["mask"] == ["iban"]
    assert ctx.keys.evaluation_kind(answer["context"]["evaluation_id"]) == "permit"


async def test_it_is_asked_the_question_as_it_came(ctx: Context, other: ForeignDecisionPoint) -> None:
    await evaluate(ctx, GATE, question())
    assert other.asked == [question()]


async def test_a_permit_of_our_rules_gives_nothing_that_it_denies(ctx: Context, other: ForeignDecisionPoint) -> None:
    other.deny("ours_alone", "over_limit", reason_user={"en": "Too much."}, reason_admin={"en": "policy 7"})
    answer = await evaluate(ctx, GATE, question("ours_alone"))
    assert answer["decision"] is False
    del answer["context"]["evaluation_id"]
    assert answer["context"] == {"reason": "over_limit", "reason_user": {"en": "Too much."}}


async def test_a_denial_whose_reason_is_listed_may_be_requested(ctx: Context, other: ForeignDecisionPoint) -> None:
    other.deny("wire_transfer", "over_limit")
    context = await denied(ctx, question())
    assert context["reason"] == "approval_required"
    assert context["access_request"]["template"] == "auto"


@pytest.mark.parametrize("reason", ["market_closed", None])
async def test_a_denial_whose_reason_is_not_listed_is_plain(
    ctx: Context, other: ForeignDecisionPoint, reason: str | None
) -> None:
    other.deny("wire_transfer", reason)
    answer = await evaluate(ctx, GATE, question())
    assert "access_request" not in answer["context"]
    assert answer["context"]["reason"] == reason or "policy_denied"


@pytest.mark.requirement("PDP-59", "PDP-61", "PDP-70")
async def test_with_an_approval_a_fresh_convertible_denial_or_permit_permits_and_nothing_else_does(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    other.deny("wire_transfer", "over_limit")
    approval = await approved(ctx, question())
    asked = presenting(question(), approval)

    answer = await evaluate(ctx, GATE, asked)
    assert answer["decision"] is True
    assert answer["context"]["approval"]["id"] == approval["id"]

    other.permit("wire_transfer", mask=["iban"])
    answer = await evaluate(ctx, GATE, asked)
    assert answer["decision"] is True
    assert answer["context"]["mask"] == ["iban"]

    other.deny("wire_transfer", "market_closed")
    answer = await evaluate(ctx, GATE, asked)
    assert answer["decision"] is False
    assert (answer["context"]["reason"], answer["context"]["next_action"]) == ("policy_denied", "none")
    assert all("approval" not in seen["context"] for seen in other.asked)


@pytest.mark.requirement("PDP-70")
async def test_what_our_rules_deny_is_denied_without_asking_it(ctx: Context, other: ForeignDecisionPoint) -> None:
    other.deny("wire_transfer", "over_limit")
    approval = await approved(ctx, question())
    other.permit("wire_transfer")
    other.asked.clear()
    change_rules(ctx, ctx.settings.policy_path, "{suspended: false}", "{suspended: true}")
    assert (await evaluate(ctx, GATE, question()))["decision"] is False
    answer = await evaluate(ctx, GATE, presenting(question(), approval))
    assert answer["decision"] is False
    assert answer["context"]["next_action"] == "none"
    assert other.asked == []


async def test_an_approval_waits_while_it_cannot_be_asked_and_counts_afterwards(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    other.deny("wire_transfer", "over_limit")
    asked = presenting(question(), approval := await approved(ctx, question()))
    other.script = down
    with capture_logs() as logs:
        answer = await evaluate(ctx, GATE, asked)
    assert answer["decision"] is False
    del answer["context"]["evaluation_id"]
    assert answer["context"] == {"reason": "upstream_unavailable", "next_action": "retry", "retry_after": 5}
    assert [log["code"] for log in logs if log["event"] == "upstream_unavailable"] == ["status_503"]
    other.script = lambda _: None
    assert (await evaluate(ctx, GATE, asked))["decision"] is True

    def entries() -> list[AuditEntry]:
        chosen = select(AuditEntry).where(AuditEntry.kind == "reevaluated").order_by(AuditEntry.seq)  # type: ignore[arg-type]
        return ctx.database.read_now(lambda session: list(session.exec(chosen).all()))

    assert approval["id"] in entries()[0].detail
    assert ['"upstream":"silent: status_503"' in entry.detail for entry in entries()] == [True, False]
    assert '"upstream":"denied: over_limit"' in entries()[1].detail


async def test_what_it_writes_for_readers_is_not_kept_in_the_audit_log(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    """A reason that is no code may be of any length and about anybody."""
    asked = presenting(question("ours_alone"), await approval_of(ctx, other))
    other.deny("ours_alone", "Alice (born 1970) has exceeded her limit")
    assert (await evaluate(ctx, GATE, asked))["decision"] is False
    chosen = select(AuditEntry).where(AuditEntry.kind == "reevaluated")
    (entry,) = ctx.database.read_now(lambda session: session.exec(chosen).all())
    assert '"upstream":"denied"' in entry.detail
    assert "Alice" not in entry.detail


async def approval_of(ctx: Context, other: ForeignDecisionPoint) -> dict[str, Any]:
    """An approval of something else."""
    other.deny("wire_transfer", "over_limit")
    return await approved(ctx, question())


async def test_what_is_not_provisioned_waits_though_the_denial_is_convertible(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    other.deny("ledger", "over_limit")
    answer = await evaluate(ctx, GATE, presenting(question("ledger"), await approved(ctx, question("ledger"))))
    assert (answer["context"]["reason"], answer["context"]["next_action"]) == ("grant_pending", "retry")


FAULTS: dict[str, Any] = {
    "status_500": lambda _: httpx2.Response(500, content=b"boom"),
    "status_302": lambda _: httpx2.Response(302, headers={"location": "https://evil.example/"}),
    "status_401": lambda _: httpx2.Response(401),
    "not_json": lambda _: httpx2.Response(200, content=b"<html>"),
    "not_an_object": lambda _: httpx2.Response(200, json=[True]),
    "no_decision": lambda _: httpx2.Response(200, json={"decision": "true"}),
    "context": lambda _: httpx2.Response(200, json={"decision": True, "context": []}),
    "too_large": lambda _: httpx2.Response(200, content=b" " * 1_100_000 + b'{"decision": true}'),
    "duplicate": lambda _: httpx2.Response(200, content=b'{"decision": false, "decision": true}'),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_usable_answer_is_a_denial_and_a_line_in_the_log(
    ctx: Context, other: ForeignDecisionPoint, fault: str
) -> None:
    other.script = lambda request: FAULTS[fault](request) if request.url.path.endswith("/decide") else None
    with capture_logs() as logs:
        answer = await evaluate(ctx, GATE, question())
    assert answer["decision"] is False
    del answer["context"]["evaluation_id"]
    assert answer["context"] == {"reason": "upstream_unavailable"}
    (line,) = [log for log in logs if log["event"] == "upstream_unavailable"]
    assert line["code"] == {"duplicate": "not_json"}.get(fault, fault)
    assert set(line) == {"event", "log_level", "code", "client_id"}


async def test_a_batch_is_answered_in_its_order_by_several_questions_at_once(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    other.permit("open")
    other.deny("wire_transfer", "over_limit")
    tools = ["open", "wire_transfer", "closed"] * 20
    answer = await evaluations(ctx, GATE, {"evaluations": [question(tool) for tool in tools]})
    assert [each["decision"] for each in answer["evaluations"]] == [tool == "open" for tool in tools]
    offered = ["access_request" in each["context"] for each in answer["evaluations"]]
    assert offered == [tool == "wire_transfer" for tool in tools]


async def test_a_batch_that_stops_asks_no_further(ctx: Context, other: ForeignDecisionPoint) -> None:
    other.permit("open")
    body = {
        "evaluations": [question("open"), question("closed"), question("open")],
        "options": {"evaluations_semantic": "deny_on_first_deny"},
    }
    answer = await evaluations(ctx, GATE, body)
    assert [each["decision"] for each in answer["evaluations"]] == [True, False]
    assert len(other.asked) == 2


async def test_a_faulty_entry_is_a_denial_in_its_place(ctx: Context, other: ForeignDecisionPoint) -> None:
    other.permit("open")
    answer = await evaluations(ctx, GATE, {"evaluations": [question("open"), {"subject": 7}, question("open")]})
    assert [each["decision"] for each in answer["evaluations"]] == [True, False, True]


async def test_rules_made_for_standing_behind_another_deny_everything_when_they_stand_alone(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    alone = RULES.replace("upstream: {convertible: [over_limit]}\n", "")
    settings = settings_for(tmp_path, database=service_url, policy=alone)
    async with service_context(settings, clock=clock) as ctx:
        assert (await evaluate(ctx, GATE, question("ours_alone")))["decision"] is True
        settings.policy_path.write_text(RULES + "\n")
        assert ctx.policy.refresh()
        answer = await evaluate(ctx, GATE, question("ours_alone"))
    assert answer["decision"] is False
    assert answer["context"]["reason"] == "upstream_unavailable"


async def test_a_start_with_such_rules_alone_is_refused(service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(SettingsInvalid, match=r"upstream: is missing"):
        async with service_context(settings_for(tmp_path, database=service_url, policy=RULES), clock=clock):
            pass  # nothing opens


class Stuck(httpx2.AsyncBaseTransport):
    """Counts how many wait at the same time, and answers nobody."""

    def __init__(self) -> None:
        self.asked = self.waiting = self.most = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        del request
        self.asked += 1
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await anyio.Event().wait()
        finally:
            self.waiting -= 1
        raise AssertionError


@pytest.mark.parametrize("semantic", ["execute_all", "permit_on_first_permit"])
async def test_a_batch_ends_in_its_time_though_each_entry_would_wait(
    ctx: Context, clock: FakeClock, semantic: str
) -> None:
    transport = Stuck()
    endpoint = f"{IDENTIFIER}/decide"
    part = UpstreamSettings(identifier=IDENTIFIER, evaluation_endpoint=endpoint, timeout_seconds=1, batch_seconds=3)
    upstream = Upstream(part, clock=clock, transport=transport)
    body = {"evaluations": [question()] * 200, "options": {"evaluations_semantic": semantic}}
    with anyio.fail_after(20):
        answer = await evaluations(replace(ctx, upstream=upstream), GATE, body)
    assert [each["decision"] for each in answer["evaluations"]] == [False] * 200
    assert transport.most == (16 if semantic == "execute_all" else 1)
    assert transport.asked < 200
    await upstream.aclose()
