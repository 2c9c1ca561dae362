"""What a reviewer sees of one request, and what he does not."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from arap_service import requests
from arap_service.domain.callers import Caller
from arap_service.domain.errors import UnknownTask
from arap_service.domain.revealing import DOTS
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.views import ArgumentView, HistoryView, RequestDetail, StepView
from tests.clock import START
from tests.requests.world import ARGUMENTS, GATE, READER, RISK_ENGINE, World, machine, person, question

pytestmark = pytest.mark.anyio
DAY = timedelta(days=1)


@pytest.fixture
def world(shared_world: World) -> World:
    """Every test looks at requests of its own."""
    return shared_world


def value(pointer: str, text: str, *, masked: bool = False, suspicious: bool = False) -> ArgumentView:
    return ArgumentView(pointer=pointer, text=text, masked=masked, suspicious=suspicious)


async def shown(world: World, asked: Mapping[str, Any], who: Caller | None = None, **more: Any) -> RequestDetail:
    submitted = await world.submit(await world.body(asked, **more))
    return await requests.detail(world.ctx, who or person("ann"), submitted.task["id"])


@pytest.mark.requirement("GOV-01", "GOV-06", "GOV-15", "ARS-125")
async def test_reviewer_sees_everything_that_a_decision_needs(world: World) -> None:
    """Design section 7: what happens, who asks, through whom, for whom, why, until when, who decides."""
    asked = question()
    asked["context"]["business_justification"] = "Renewal of ACME"
    detail = await shown(world, asked)
    task = await world.task(detail.id)
    assert detail == RequestDetail(
        id=task.id,
        status="pending",
        version=1,
        template_id="transfer",
        template_title="Wire transfer",
        explanation="Money leaves the company.",
        effect="Sends 50000 to DE1",
        caution="Cannot be undone.",
        risk="high",
        subject={"type": "user", "id": "alice"},
        resource={"type": "tool", "id": "wire_transfer"},
        action={"name": "tools/call"},
        submitter=GATE.principal,
        client_id="gate",
        agent="bot",
        server="bank",
        tool="wire_transfer",
        tool_title="A tool",
        arguments=(value("/amount", "50000"), value("/to", "DE1")),
        facts=(value("/context/time", "2026-04-30T20:00:00Z"),),
        hidden=(),
        arguments_hash=arguments_hash(ARGUMENTS),
        complete=True,
        justification="Renewal of ACME",
        rule_id="rule-transfer",
        reason="needs_approval",
        evaluation_id=task.evaluation_id,
        created_at=START,
        deadline=START + DAY,
        expires_at=START + 2 * DAY,
        ended_at=None,
        ended_by=None,
        steps=(StepView(id="treasury", title="Treasury", quorum=1, approvals=0, denials=0, status="waiting"),),
        votes=(),
        history=(HistoryView(at=START, kind="task_submitted", who="gate", text="Asked for approval"),),
        approval=None,
        executions=(),
        may_decide=True,
        why_not=None,
        max_approved_until=START + timedelta(seconds=900),
        pending_approval={
            "method": "io.mcp-hangar/approval",
            "message": "Approval required: wire_transfer on bank",
            "params": {
                "approvalId": task.id,
                "subject": {
                    "mcpServer": "bank",
                    "tool": "wire_transfer",
                    "argumentsHash": arguments_hash(ARGUMENTS),
                },
                "expiresAt": "2026-05-01T20:00:00+00:00",
                "requiredPermission": "approval:resolve",
                "policyBasis": {"rule": "rule-transfer", "reason": "needs_approval"},
            },
        },
        reason_required=frozenset({"deny"}),
        may_propose=True,
        policy_version=task.policy_version,
        earlier=detail.earlier,  # other tests decide in this world as well; see test_beside.py for these two
        deciders=detail.deciders,
        decides_in="treasury",
    )


@pytest.mark.requirement("GOV-15")
async def test_secrets_are_masked_and_hidden_members_named(world: World) -> None:
    """Catalogue GOV-15: an allow-list shows its members; a secret is dots even when everything is shown."""
    arguments = {"to": "DE1", "memo": "canary", "password": "canary"}
    quiet = await shown(world, question("quiet", arguments=arguments))
    assert quiet.arguments == (value("/to", "DE1"),)
    assert quiet.hidden == ("/memo", "/password")
    whole = await shown(world, question(arguments=arguments))
    assert whole.arguments == (
        value("/to", "DE1"),
        value("/memo", "canary"),
        value("/password", DOTS, masked=True),
    )
    assert "canary" not in repr(quiet)


@pytest.mark.requirement("GOV-15")
async def test_allow_list_holds_for_what_is_stated_beside_the_call(world: World) -> None:
    """Catalogue GOV-15: properties and context are no way around the list; what is no part of it is not missed."""
    asked = question("quiet", customer="canary", note="canary")
    asked["resource"]["properties"] = {"iban": "canary", "limit": {"a": "canary"}}
    asked["subject"]["properties"] = {"salary": "canary"}
    asked["action"]["properties"] = {"mode": "canary"}
    quiet = await shown(world, asked)
    assert (quiet.arguments, quiet.facts) == ((value("/to", "DE1"),), ())
    assert quiet.hidden == (
        "/amount",
        "/subject/salary",
        "/resource/iban",
        "/resource/limit/a",
        "/action/mode",
        "/context/customer",
        "/context/note",
    )
    assert "canary" not in repr(quiet)


async def test_what_the_requester_was_asked_to_say_is_shown(world: World) -> None:
    """A reviewer who asked for a cost centre sees it; secrets stay masked, and a list that leaves it out hides it."""
    said = {"cost_center": "CC-7", "api_key": "canary", "days": 3, "requested_until": "2026-04-30T20:05:00Z"}
    whole = await shown(world, question(), requested_access=said)
    answers = [each for each in whole.facts if each.pointer.startswith("/requested_access/")]
    assert answers == [
        value("/requested_access/cost_center", "CC-7"),
        value("/requested_access/api_key", "••••••", masked=True),
        value("/requested_access/days", "3"),
    ]
    quiet = await shown(world, question("quiet"), requested_access={"cost_center": "canary"})
    assert quiet.facts == ()
    assert "/requested_access/cost_center" in quiet.hidden
    assert "canary" not in repr((whole, quiet))


@pytest.mark.requirement("ARS-126")
async def test_text_of_others_cannot_deceive(world: World) -> None:
    """Catalogue ARS-126: bidi, zero width, control and look-alikes, wherever text of others is shown."""
    arguments = {"to\u202e": "DE\u200b1"}
    call = {"server": "bank", "tool": "wire_transfer", "title": "T\u202e", "arguments": arguments}
    asked = question(arguments=arguments, agent="b\u043et", note="n\u2066")
    asked["context"][TOOL_CALL] = call
    asked["context"]["business_justification"] = "\x1b[31mred"
    detail = await shown(world, asked)
    assert detail.arguments == (value("/to⟦U+202E⟧", "DE⟦U+200B⟧1", suspicious=True),)
    assert (detail.tool_title, detail.agent) == ("T⟦U+202E⟧", "b⟦U+043E⟧t")
    assert detail.justification == "⟦U+001B⟧[31mred"
    assert value("/context/note", "n⟦U+2066⟧", suspicious=True) in detail.facts
    for hostile in ("\u202e", "\u200b", "\u2066", "\x1b", "\u043e"):
        assert hostile not in repr(detail)


async def test_request_without_a_tool_call_shows_all_that_was_asked(world: World) -> None:
    """A foreign enforcement point sends no call: properties and context are what is approved."""
    asked = {
        "subject": {"type": "user", "id": "alice", "properties": {"department": "sales"}},
        "resource": {"type": "account", "id": "wire_transfer", "properties": {"limit": 5, "password": "canary"}},
        "action": {"name": "write", "properties": {"soft": True}},
        "context": {"project": "alpha"},
    }
    detail = await shown(world, asked)
    assert detail.arguments == (
        value("/subject/department", "sales"),
        value("/resource/limit", "5"),
        value("/resource/password", DOTS, masked=True),
        value("/action/soft", "true"),
        value("/context/project", "alpha"),
    )
    assert (detail.facts, detail.tool, detail.arguments_hash, detail.pending_approval) == ((), None, None, None)
    assert detail.effect == "Sends 0 to ?"


async def test_effect_falls_back_to_a_sentence_of_ours(world: World) -> None:
    """Without a sentence of the template one says who may do what, where and for whom."""
    assert (await shown(world, question("merge"))).effect == "bot may call merge on bank for alice."
    plain = {**question("merge"), "resource": {"type": "branch", "id": "merge"}, "context": {}}
    assert (await shown(world, plain)).effect == "gate may do tools/call on branch merge for alice."


@pytest.mark.requirement("ARS-63")
@pytest.mark.parametrize(
    ("who", "sees"),
    [
        (READER, True),
        (RISK_ENGINE, True),
        (person("ann", scopes=frozenset({"approval:resolve"})), True),
        (person("zoe", scopes=frozenset({"approval:resolve"})), False),
        (machine("second-engine", "approval:resolve"), False),
        (GATE, False),
        (machine("gate", "authzen:evaluate", "audit:read"), False),
    ],
    ids=["reader", "resolver", "reviewer", "not-asked", "other-resolver", "gate", "other-scopes"],
)
async def test_request_is_visible_to_readers_and_to_whom_it_asks(world: World, who: Caller, *, sees: bool) -> None:
    """Who may not see a request cannot tell it from one that never was."""
    task_id = await world.pending()
    if sees:
        assert (await requests.detail(world.ctx, who, task_id)).id == task_id
        return
    for known in (task_id, "task_unknown"):
        with pytest.raises(UnknownTask) as caught:
            await requests.detail(world.ctx, who, known)
        assert (caught.value.detail, dict(caught.value.extra)) == (None, {})


@pytest.mark.parametrize(
    ("who", "why"),
    [
        (READER, "missing_scope"),
        (person("zoe"), "not_assigned"),
        (person("alice"), "is_subject"),
        (machine("gate", "approval:read", "approval:resolve"), "is_submitter"),
        (person("ann"), None),
    ],
)
async def test_why_somebody_may_not_decide_is_told(world: World, who: Caller, why: str | None) -> None:
    """The page says so before he tries."""
    task_id = await world.pending()
    detail = await requests.detail(world.ctx, who, task_id)
    assert (detail.may_decide, detail.why_not) == (why is None, why)


async def test_nobody_may_decide_after_the_deadline_or_twice(world: World) -> None:
    """What the page offers is what the use case would accept."""
    task_id = await world.pending("payroll")
    voted = await world.decide(task_id, "ann", reason="ok")
    assert (voted.may_decide, voted.why_not) == (False, "already_decided")
    world.clock.advance(86400)
    late = await requests.detail(world.ctx, person("bob"), task_id)
    assert (late.may_decide, late.why_not) == (False, "deadline_passed")


async def test_history_tells_what_happened_and_who_did_it(world: World) -> None:
    """Names of people, words for events, no protocol term; also the attempts that did not count."""
    task_id = await world.pending()
    with pytest.raises(Exception, match="not yours"):
        await world.decide(task_id, "zoe")
    await world.decide(task_id, "ann", reason="Checked.")
    approval = (await requests.detail(world.ctx, READER, task_id)).approval
    assert approval is not None
    await requests.revoke(world.ctx, person("bob"), approval.id, reason="Wrong account.")
    report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 0}
    await requests.report(world.ctx, GATE, task_id, report)
    detail = await requests.detail(world.ctx, READER, task_id)
    assert [(entry.who, entry.text) for entry in detail.history] == [
        ("gate", "Asked for approval"),
        ("Zoe Nobody", "Tried to decide without being asked to"),
        ("Ann Treasurer", "Approved in step Treasury"),
        ("Ann Treasurer", "Approved: everybody who had to agree has agreed"),
        ("Bob Treasurer", "Took the approval back"),
        ("gate", "Reported what became of the approval"),
    ]
    assert detail.version == 4
    assert (detail.ended_by, detail.max_approved_until, detail.pending_approval) == ("quorum", None, None)


async def test_automatic_voices_are_shown_like_human_ones(world: World) -> None:
    """Design section 4: all automatic decisions are recorded like human ones."""
    asked = question("auto", arguments={"amount": 2_000_000, "to": "DE1"})
    detail = await shown(world, asked)
    assert [(vote.voter, vote.kind, vote.decision) for vote in detail.votes] == [("huge", "evaluator", "deny")]
    assert [(entry.who, entry.text) for entry in detail.history][1:] == [
        ("the rules", "The rule huge said: deny"),
        ("the rules", "Denied"),
    ]
    held = await shown(world, question("auto", arguments={"amount": 5, "to": "Y"}))
    assert [vote.decision for vote in held.votes] == ["approve"]
    assert (await world.decide(held.id, "ann")).status == "approved"


async def test_changed_rules_do_not_change_an_open_request(world: World) -> None:
    """What was shown and who was asked stays as it was at submission."""
    task_id = await world.pending()
    before = await requests.detail(world.ctx, person("ann"), task_id)
    emptied = replace(world.ctx.policy.current(), templates={}, rules=())
    changed = replace(world.ctx, policy=type(world.ctx.policy)(emptied))
    assert await requests.detail(changed, person("ann"), task_id) == before
    decided = await requests.decide(changed, person("ann"), task_id, decision="approve", version=1)
    assert decided.status == "approved"
