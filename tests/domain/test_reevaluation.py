"""What a presented approval is worth: the rows of `reevaluation.json` that need no signature, precedence, precision."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.binding import Claims, claims_from
from arap_service.domain.policy import Deny, Judgement, Permit, Question, Requestable, Step, Template
from arap_service.domain.reevaluation import (
    ApprovalRecord,
    ApprovalStatus,
    Invalid,
    PresentedApproval,
    Reason,
    Verdict,
    judge_approval,
    present,
)
from arap_service.protocol.canonical import Tuple4, binding_hash
from tests.protocol import vectors

NOW = datetime(2026, 4, 30, 20, 0, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=15)
TEMPLATE = Template("wire", "Wire transfer", "Money leaves.", (Step("a", "A"),), provisioned_retry_seconds=7)
ASKABLE = Requestable("wire", "approval_required", TEMPLATE)
STANDING_DENY = Deny("suspended", "suspended")
STANDING_PERMIT = Permit("open")
MEMBERS = ("agent", "arguments_hash", "project")
ABOUT = Tuple4(
    {"type": "user", "id": "alice@example.com"},
    {"type": "tool", "id": "wire_transfer", "properties": {"tier": 1}},
    {"name": "tools/call"},
    {"agent": "agent-A", "arguments_hash": "sha256:aa", "project": "apollo"},
)
RECORD = ApprovalRecord(
    id="apr_1",
    task_id="task_1",
    evaluation_id="ev_1",
    status=ApprovalStatus.ACTIVE,
    approved_until=UNTIL,
    about=ABOUT,
    members=MEMBERS,
    client_id="gate-1",
    template="wire",
    agent="agent-A",
)
GIVEN = PresentedApproval("apr_1", None)
ROWS = {row["id"]: row for row in vectors.load("reevaluation")}


def question(about: Tuple4 = ABOUT, client_id: str = "gate-1") -> Question:
    return Question(about.subject, about.resource, about.action, about.context, client_id)


def state(**changes: Any) -> Claims:
    payload: dict[str, Any] = {
        "iss": "https://ars.example",
        "iat": int(NOW.timestamp()),
        "exp": int(UNTIL.timestamp()),
        "jti": "s1",
        "approval_id": "apr_1",
        "task_id": "task_1",
        "evaluation_id": "ev_1",
        "subject": dict(ABOUT.subject),
        "resource": dict(ABOUT.resource),
        "action": dict(ABOUT.action),
        "context": dict(ABOUT.context),
        "binding_context_members": list(MEMBERS),
        "binding_hash": binding_hash(*ABOUT, MEMBERS),
        "client_id": "gate-1",
        "agent": "agent-A",
        "template": "wire",
    } | changes
    return claims_from({name: value for name, value in payload.items() if value is not None}, token_id="d")


def judged(
    about: Question | None = None,
    approval: PresentedApproval | None = GIVEN,
    *,
    record: ApprovalRecord | None = RECORD,
    signed: Claims | Invalid | None = None,
    standing: Judgement = ASKABLE,
    provisioned: bool | None = None,
    now: datetime = NOW,
) -> Verdict:
    return judge_approval(
        about or question(),
        approval,
        record=record,
        state=signed,
        standing=standing,
        provisioned=provisioned,
        now=now,
        signed_only_seconds=600,
    )


def changed(**parts: Any) -> Question:
    return question(ABOUT._replace(**parts))


def in_context(**members: Any) -> Question:
    context = {**ABOUT.context, **members}
    return changed(context={name: value for name, value in context.items() if value is not None})


RELIED = Verdict(True, "applicable", approval_id="apr_1", approved_until=UNTIL)
UNVERIFIABLE = Verdict(False, "approval_unverifiable", Reason.UNVERIFIABLE, "none")
EXPIRED = Verdict(False, "approval_expired", Reason.EXPIRED, "request")
OUT_OF_SCOPE = Verdict(False, "out_of_scope", Reason.OUT_OF_SCOPE, "request")
GRANT_PENDING = Verdict(False, "grant_pending", Reason.GRANT_PENDING, "retry", retry_after=7)
POLICY_DENIED = Verdict(False, "policy_denied", Reason.POLICY_DENIED, "none")
REVOKED = replace(RECORD, status=ApprovalStatus.REVOKED)
BOB = changed(subject={"type": "user", "id": "bob@example.com"})

CASES = {
    "R1": (judged(), RELIED),
    "R2": (judged(record=None), UNVERIFIABLE),
    "R3": (judged(BOB), UNVERIFIABLE),
    "R4": (judged(changed(resource={**ABOUT.resource, "id": "other"})), OUT_OF_SCOPE),
    "R5": (judged(changed(resource={**ABOUT.resource, "properties": {"tier": 1, "x": 1}})), OUT_OF_SCOPE),
    "R6": (judged(in_context(project=None)), OUT_OF_SCOPE),
    "R7": (judged(in_context(time="2026-04-30T20:00:00Z")), RELIED),
    "R8": (judged(now=UNTIL), EXPIRED),
    "R9": (judged(record=REVOKED), EXPIRED),
    "R10": (judged(approval=present({"id": "apr_1", "approved_until": "2099-01-01T00:00:00Z"}), now=UNTIL), EXPIRED),
    "R11": (judged(approval=present({"id": "apr_1", "approved_until": "2099-01-01T00:00:00Z"})), RELIED),
    "R12": (judged(signed=state(approval_id="apr_2"), standing=STANDING_PERMIT), UNVERIFIABLE),
    "R13": (judged(signed=Invalid("issuer")), UNVERIFIABLE),
    "R14": (judged(signed=Invalid("aud")), UNVERIFIABLE),
    "R15": (judged(signed=Invalid("aud")), UNVERIFIABLE),
    "R16": (judged(signed=Invalid("alg")), UNVERIFIABLE),
    "R17": (judged(record=None, standing=STANDING_PERMIT), Verdict(True, "approval_unverifiable")),
    "R18": (judged(standing=STANDING_DENY), POLICY_DENIED),
    "R19": (judged(provisioned=False), GRANT_PENDING),
    "R20": (judged(approval=present("apr_1")), UNVERIFIABLE),
    "R21": (judged(signed=Invalid("typ")), UNVERIFIABLE),
    "R22": (judged(in_context(agent="agent-B")), OUT_OF_SCOPE),
    "R23": (judged(in_context(arguments_hash="sha256:bb")), OUT_OF_SCOPE),
}


def test_every_row_about_a_single_evaluation_is_here() -> None:
    assert set(CASES) == set(ROWS) - {"R24"}


@pytest.mark.parametrize("row", CASES)
@pytest.mark.requirement("PDP-59", "PDP-61", "PDP-62", "PDP-63", "PDP-64", "PDP-65", "PDP-67", "PDP-70", "PDP-71")
def test_reevaluation(row: str) -> None:
    """`reevaluation.json`, with what a verified or refused signature amounts to."""
    verdict, expected = CASES[row]
    assert verdict == expected
    vector = ROWS[row]
    assert verdict.decision == vector["decision"]
    reasons = vector.get("reason", verdict.reason)
    assert verdict.reason in (reasons if isinstance(reasons, list) else [reasons])


@pytest.mark.requirement("PDP-62")
def test_two_identifiers_that_disagree_are_refused_whatever_else_holds() -> None:
    for standing in (STANDING_PERMIT, STANDING_DENY, ASKABLE):
        assert judged(signed=state(approval_id="apr_2"), standing=standing) == UNVERIFIABLE


@pytest.mark.requirement("PDP-76")
@pytest.mark.parametrize("value", [None, "apr_1", 7, [], {}, {"id": ""}, {"id": 7}, {"id": "a", "state": {}}], ids=str)
def test_a_malformed_approval_is_a_denial_even_where_standing_policy_permits(value: Any) -> None:
    assert present(value) is None
    assert judged(approval=present(value), standing=STANDING_PERMIT) == UNVERIFIABLE


def test_of_the_envelope_only_identifier_and_state_are_looked_at() -> None:
    assert present({"id": "a", "state": "s", "approved_until": 5, "x": {}}) == PresentedApproval("a", "s")


@pytest.mark.requirement("PDP-63")
def test_an_approval_that_is_over_does_no_harm_where_standing_policy_permits() -> None:
    assert judged(record=REVOKED, standing=STANDING_PERMIT) == Verdict(True, "approval_expired")
    assert judged(standing=STANDING_PERMIT) == RELIED


@pytest.mark.requirement("PDP-77")
def test_a_foreign_approval_looks_like_one_that_never_was() -> None:
    for standing in (ASKABLE, STANDING_DENY):
        for record in (RECORD, REVOKED):
            assert judged(BOB, record=record, standing=standing) == judged(BOB, record=None, standing=standing)


@pytest.mark.requirement("ARS-70")
def test_another_client_of_the_same_subject_is_out_of_scope() -> None:
    assert judged(question(client_id="gate-2")) == OUT_OF_SCOPE
    assert judged(question(client_id="gate-2"), record=None, signed=state()) == OUT_OF_SCOPE


@pytest.mark.requirement("PDP-74")
def test_reasons_outrank_one_another_in_the_order_of_the_register() -> None:
    elsewhere = changed(resource={"type": "tool", "id": "other"})
    over = {"standing": STANDING_DENY, "provisioned": False}
    worst: dict[str, Any] = over | {"record": REVOKED, "signed": Invalid("signature")}
    assert judged(elsewhere, **worst).reason == "approval_unverifiable"
    assert judged(elsewhere, **(worst | {"signed": None})).reason == "approval_expired"
    assert judged(elsewhere, **(worst | {"signed": None, "record": RECORD})).reason == "out_of_scope"
    assert judged(**(worst | {"signed": None, "record": RECORD})).reason == "grant_pending"
    assert judged(**(worst | {"signed": None, "record": RECORD, "provisioned": None})).reason == "policy_denied"


@pytest.mark.requirement("PDP-72")
def test_nobody_is_told_to_request_what_is_not_requestable() -> None:
    assert judged(record=REVOKED, standing=STANDING_DENY).next_action == "none"
    assert judged(question(client_id="gate-2"), standing=STANDING_DENY).next_action == "none"


@pytest.mark.requirement("PDP-73")
def test_a_retry_always_says_when() -> None:
    assert judged(provisioned=False).retry_after == 7
    assert judged(provisioned=False, standing=STANDING_DENY).retry_after == 5


def test_a_provisioned_grant_permits() -> None:
    assert judged(provisioned=True) == RELIED


def test_an_approval_of_another_workflow_is_out_of_scope() -> None:
    stricter = Requestable("wire", "approval_required", replace(TEMPLATE, id="wire_by_two"))
    assert judged(standing=stricter) == OUT_OF_SCOPE
    assert judged(record=None, signed=state(), standing=stricter) == OUT_OF_SCOPE
    assert judged(standing=STANDING_PERMIT) == RELIED


@pytest.mark.requirement("PDP-60")
def test_a_signed_state_is_enough_without_a_record() -> None:
    assert judged(record=None, signed=state(exp=int(NOW.timestamp()) + 60)) == replace(
        RELIED, approved_until=NOW + timedelta(seconds=60)
    )


@pytest.mark.requirement("PDP-66")
def test_a_signed_state_without_a_record_is_honoured_for_the_capped_time_only() -> None:
    cap = NOW + timedelta(seconds=600)
    assert judged(record=None, signed=state()) == replace(RELIED, approved_until=cap)
    assert judged(record=None, signed=state(), now=cap) == EXPIRED


@pytest.mark.requirement("PDP-64")
def test_with_a_record_the_record_says_until_when() -> None:
    assert judged(signed=state(exp=int(NOW.timestamp()) + 1)) == RELIED


@pytest.mark.parametrize(
    "missing", ["approval_id", "client_id", "exp", "iat", "subject", "resource", "action", "context"]
)
@pytest.mark.requirement("PDP-69")
def test_a_state_that_leaves_its_scope_or_lifetime_open_is_unverifiable(missing: str) -> None:
    assert judged(record=None, signed=state(**{missing: None, "binding_hash": None})) == UNVERIFIABLE


@pytest.mark.requirement("PDP-69")
def test_a_hash_alone_fixes_the_scope() -> None:
    hashed: dict[str, Any] = {"subject": None, "resource": None, "action": None, "context": None}
    assert judged(record=None, signed=state(**hashed)).decision
    assert judged(BOB, record=None, signed=state(**hashed)) == OUT_OF_SCOPE


def test_state_and_record_must_both_cover_the_question() -> None:
    other = state(resource={"type": "tool", "id": "other"}, binding_hash=None)
    assert judged(signed=other) == OUT_OF_SCOPE
    assert judged(signed=state()) == RELIED


@pytest.mark.requirement("ARS-70")
def test_another_agent_is_out_of_scope_even_where_the_context_does_not_bind_it() -> None:
    loose = replace(RECORD, members=("arguments_hash", "project"))
    assert judged(record=loose) == RELIED
    assert judged(in_context(agent="agent-B"), record=loose) == OUT_OF_SCOPE
    signed = state(binding_context_members=["arguments_hash", "project"], binding_hash=None)
    assert judged(record=None, signed=signed).decision
    assert judged(in_context(agent="agent-B"), record=None, signed=signed) == OUT_OF_SCOPE


@pytest.mark.requirement("ARS-70")
def test_another_chain_of_actors_is_out_of_scope() -> None:
    """Structural comparison leaves `act` out, so the chain is compared on its own."""
    acting = {**ABOUT.subject, "properties": {"act": {"sub": "agent-b", "iss": "https://agents.example"}}}
    approved = replace(RECORD, actor=(("https://agents.example", "agent-b"),))
    assert judged(changed(subject=acting), record=approved) == RELIED
    assert judged(record=approved) == OUT_OF_SCOPE
    assert judged(changed(subject=acting)) == OUT_OF_SCOPE
    signed = state(subject=acting)
    assert judged(changed(subject=acting), record=None, signed=signed).decision
    assert judged(record=None, signed=signed) == OUT_OF_SCOPE
    broken = {**ABOUT.subject, "properties": {"act": "agent-b"}}
    assert judged(changed(subject=broken)) == OUT_OF_SCOPE


def test_numbers_that_nothing_can_bind_are_out_of_scope() -> None:
    assert judged(changed(resource={**ABOUT.resource, "properties": {"tier": 2**53}})) == OUT_OF_SCOPE


RECORDS = st.sampled_from([None, RECORD, REVOKED, replace(RECORD, approved_until=NOW)])
STATES = st.sampled_from([None, Invalid("x"), state(), state(approval_id="apr_2"), state(exp=None)])
QUESTIONS = st.sampled_from([question(), BOB, question(client_id="gate-2"), in_context(agent="agent-B")])


@given(QUESTIONS, RECORDS, STATES, st.sampled_from([None, True, False]), st.sampled_from([None, GIVEN]))
@pytest.mark.requirement("PDP-59", "PDP-70")
def test_a_plain_deny_is_never_overridden(
    about: Question,
    record: ApprovalRecord | None,
    signed: Claims | Invalid | None,
    provisioned: bool | None,  # noqa: FBT001
    approval: PresentedApproval | None,
) -> None:
    assert not judged(
        about, approval, record=record, signed=signed, provisioned=provisioned, standing=STANDING_DENY
    ).decision


@given(QUESTIONS, RECORDS, STATES)
@pytest.mark.requirement("PDP-59", "PDP-61")
def test_a_requestable_question_is_permitted_only_by_an_applicable_approval(
    about: Question, record: ApprovalRecord | None, signed: Claims | Invalid | None
) -> None:
    verdict = judged(about, record=record, signed=signed)
    applicable = record is RECORD or record is None
    proven = signed is None or (isinstance(signed, Claims) and signed.approval_id == "apr_1")
    assert not verdict.decision or (about == question() and applicable and proven)
