"""The denial binding: `freshness.json`, structural comparison, hashes, and the actor that no hash can see."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arap_service.domain.binding import (
    Bound,
    Claims,
    RecordedDenial,
    Submitted,
    check_binding,
    check_freshness,
    claims_from,
    fixes_tuple,
)
from arap_service.domain.errors import ArapError, ExpiredDenial, InvalidDenialBinding
from arap_service.protocol.arap import parse_instant
from arap_service.protocol.canonical import Tuple4, binding_hash, prune_subject
from tests.protocol import vectors

DEADLINE = datetime(2026, 4, 30, 20, 25, tzinfo=UTC)
MEMBERS = ["agent", "project"]
ABOUT = Tuple4(
    {"type": "user", "id": "alice@example.com", "properties": {"department": "Sales"}},
    {"type": "tool", "id": "wire_transfer"},
    {"name": "tools/call"},
    {"agent": "agent-A", "project": "apollo", "time": "2026-04-30T20:15:00Z"},
)
ACT = {"sub": "agent-b", "iss": "https://agents.example"}


def payload(about: Tuple4 = ABOUT, members: list[str] | None = None, **changes: Any) -> dict[str, Any]:
    names = MEMBERS if members is None else members
    claims: dict[str, Any] = {
        "iss": "https://pdp.example",
        "jti": "j1",
        "iat": int((DEADLINE - timedelta(minutes=10)).timestamp()),
        "exp": int(DEADLINE.timestamp()),
        "denial_expires_at": "2026-04-30T20:25:00Z",
        "evaluation_id": "ev_1",
        "template": "wire",
        "agent": "agent-A",
        "subject": prune_subject(about.subject),
        "resource": dict(about.resource),
        "action": dict(about.action),
        "context": {name: about.context[name] for name in names},
        "binding_context_members": names,
        "binding_hash": binding_hash(*about, names),
    } | changes
    return {name: value for name, value in claims.items() if value is not None}


def claims(about: Tuple4 = ABOUT, members: list[str] | None = None, **changes: Any) -> Claims:
    return claims_from(payload(about, members, **changes), token_id="digest")


def record(about: Tuple4 = ABOUT, **changes: Any) -> RecordedDenial:
    plain = RecordedDenial(
        evaluation_id="ev_1",
        expires_at=DEADLINE,
        about=about,
        members=tuple(MEMBERS),
        client_id="gate-1",
        template="wire",
        reason="approval_required",
        token_issued=False,
        agent="agent-A",
    )
    return replace(plain, **changes)


def submitted(about: Tuple4 = ABOUT, **changes: Any) -> Submitted:
    return replace(Submitted(about, "gate-1"), **changes)


def context(**changes: Any) -> Tuple4:
    return ABOUT._replace(context={**ABOUT.context, **changes})


def with_act(act: Any) -> Tuple4:
    return ABOUT._replace(subject={**ABOUT.subject, "properties": {"department": "Sales", "act": act}})


MUTATIONS = [
    ABOUT._replace(subject={"type": "user", "id": "bob@example.com", "properties": {"department": "Sales"}}),
    ABOUT._replace(subject={"type": "user", "id": "alice@example.com"}),
    ABOUT._replace(resource={"type": "tool", "id": "other"}),
    ABOUT._replace(resource={"type": "tool", "id": "wire_transfer", "properties": {}}),
    ABOUT._replace(resource={"type": "tool", "id": "wire_transfer", "properties": {"act": "x"}}),
    ABOUT._replace(action={"name": "tools/list"}),
    context(project="gemini"),
    context(project=None),
    ABOUT._replace(context={"agent": "agent-A"}),
]


@pytest.mark.parametrize("about", MUTATIONS, ids=range(len(MUTATIONS)))
@pytest.mark.parametrize(
    "proof",
    [
        claims(),
        claims(binding_hash=None),
        claims(subject=None, resource=None, action=None, context=None),
        record(),
    ],
    ids=["inline and hash", "inline", "hash", "record"],
)
@pytest.mark.requirement("ARS-20", "ARS-22", "ARS-23", "ARS-28")
def test_a_submission_about_anything_else_is_not_bound(proof: Claims | RecordedDenial, about: Tuple4) -> None:
    check_binding(submitted(), proof)
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(about), proof)


@pytest.mark.requirement("ARS-22")
def test_members_that_do_not_bind_may_be_added_changed_and_dropped() -> None:
    about = ABOUT._replace(context={"agent": "agent-A", "project": "apollo", "business_justification": "quarter end"})
    for proof, is_call_proven in ((claims(), False), (record(), True)):
        assert check_binding(submitted(about), proof) == Bound(
            about, ("agent", "project"), "ev_1", "wire", "agent-A", (), is_call_proven=is_call_proven
        )


@pytest.mark.requirement("ARS-22")
def test_without_a_member_list_the_context_does_not_bind() -> None:
    proof = claims(binding_context_members=None, context=None, agent=None, binding_hash=binding_hash(*ABOUT, []))
    assert check_binding(submitted(ABOUT._replace(context={})), proof).members == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"resource": {"type": "tool", "id": "other"}},
        {"binding_hash": binding_hash(*context(project="gemini"), MEMBERS)},
        {"subject": {"type": "user", "id": "bob@example.com"}},
        {"action": {"name": "other"}},
        {"context": {"agent": "agent-A", "project": "gemini"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.requirement("ARS-21")
def test_inline_objects_and_hash_must_both_agree(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(), claims(**changes))


@pytest.mark.parametrize("missing", ["subject", "resource", "action", "context"])
def test_inline_objects_without_a_hash_must_be_complete(missing: str) -> None:
    changes: dict[str, Any] = {"binding_hash": None, missing: None}
    proof = claims(**changes)
    assert not fixes_tuple(proof)
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(), proof)


def test_a_token_that_fixes_nothing_binds_nothing() -> None:
    """The shape of earlier drafts' examples (X-39)."""
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(), claims_from({"iss": "https://pdp.example", "evaluation_id": "ev_1"}, token_id="d"))


@pytest.mark.requirement("ARS-25")
def test_both_hashes_of_an_emptied_subject_are_accepted_and_no_third() -> None:
    bare = ABOUT._replace(subject={"type": "user", "id": "alice@example.com"})
    hashed: dict[str, Any] = {"subject": None, "resource": None, "action": None, "context": None}
    kept = bare._replace(subject={**bare.subject, "properties": {"act": ACT}})
    unpruned = next(v for v in vectors.load("binding-hash-extra")["vectors"] if v["id"] == "x-act-only-kept-empty")
    pruned = next(v for v in vectors.load("binding-hash-extra")["vectors"] if v["id"] == "x-act-only-pruned")
    plain = Tuple4(*(pruned["hash_input"][name] for name in ("subject", "resource", "action", "context")))
    for digest in (pruned["binding_hash"], unpruned["binding_hash"]):
        proof = claims(**hashed, binding_context_members=[], agent=None, binding_hash=digest)
        assert check_binding(submitted(plain), proof).members == ()
    third = claims(**hashed, agent=None, binding_hash=binding_hash(*ABOUT, MEMBERS))
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(kept), third)


@pytest.mark.parametrize("row", vectors.load("structural-compare"), ids=str)
@pytest.mark.requirement("ARS-26", "ARS-24")
def test_comparison_is_structural(row: dict[str, Any]) -> None:
    """`structural-compare.json`: rows about subjects in the subject, the others inside a resource's properties."""

    def about(value: Any) -> Tuple4:
        if row.get("as_") == "Subject":
            return ABOUT._replace(subject=value, context={})
        properties = {} if value == "<absent>" else {"member": value}
        return ABOUT._replace(resource={"type": "tool", "id": "wire_transfer", "properties": properties}, context={})

    moved = row["a"]["properties"]["act"] if row.get("as_") and "act" in row["a"].get("properties", {}) else None
    proof = claims(about(row["a"]), [], agent=None, actor=None if moved is None else [moved])
    submission = submitted(about(row["b"]), actor=moved)
    if row["equal"]:
        check_binding(submission, proof)
    else:
        with pytest.raises(InvalidDenialBinding):
            check_binding(submission, proof)


@pytest.mark.requirement("ARS-24", "ARS-102")
def test_an_actor_may_be_kept_or_moved_but_neither_dropped_nor_exchanged() -> None:
    denied = with_act(ACT)
    moved = {"id": "agent-b", "issuer": "https://agents.example"}
    for proof in (
        claims(denied, actor=[ACT]),
        claims(denied, subject=denied.subject),
        record(denied, actor=(("https://agents.example", "agent-b"),)),
    ):
        assert check_binding(submitted(denied), proof).actor == (("https://agents.example", "agent-b"),)
        assert check_binding(submitted(actor=moved), proof).actor == (("https://agents.example", "agent-b"),)
        check_binding(submitted(denied, actor=moved), proof)
        for wrong in (
            submitted(),
            submitted(with_act({"sub": "agent-c", "iss": "https://agents.example"})),
            submitted(with_act("agent-b")),
            submitted(actor={**moved, "issuer": "https://other.example"}),
            submitted(actor={**moved, "act": {"sub": "agent-a"}}),
            submitted(denied, actor={"id": "agent-c"}),
        ):
            with pytest.raises(InvalidDenialBinding):
                check_binding(wrong, proof)


@pytest.mark.requirement("ARS-102")
def test_an_added_actor_is_refused() -> None:
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(actor={"id": "agent-b"}), claims())


@pytest.mark.requirement("ARS-102")
def test_an_exchanged_agent_is_refused_even_where_the_context_does_not_bind_it() -> None:
    proof = claims(members=["project"])
    check_binding(submitted(), proof)
    for agent in ("agent-B", None):
        with pytest.raises(InvalidDenialBinding):
            check_binding(submitted(context(agent=agent)), proof)


@pytest.mark.requirement("ARS-14")
def test_another_evaluation_id_than_the_tokens_is_refused() -> None:
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(evaluation_id="ev_2"), claims())
    assert check_binding(submitted(evaluation_id="ev_1"), claims()).evaluation_id == "ev_1"


@pytest.mark.requirement("ARS-13", "ARS-14")
def test_beside_a_token_without_the_claim_an_evaluation_id_is_correlation_only() -> None:
    assert check_binding(submitted(evaluation_id="bogus"), claims(evaluation_id=None)).evaluation_id is None


@pytest.mark.requirement("ARS-29")
def test_another_client_cannot_use_a_recorded_denial() -> None:
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(client_id="gate-2"), record())


@pytest.mark.requirement("ARS-15")
def test_a_record_does_not_replace_the_token_that_was_issued_with_it() -> None:
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(), record(token_issued=True))


@pytest.mark.parametrize("proof", [claims(), record()], ids=["token", "record"])
def test_numbers_that_nothing_can_bind_are_refused(proof: Claims | RecordedDenial) -> None:
    about = ABOUT._replace(resource={"type": "tool", "id": "wire_transfer", "properties": {"n": 2**53}})
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(about), proof)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": 1},
        {"jti": ""},
        {"exp": "soon"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": float("inf")},
        {"denial_expires_at": "tomorrow"},
        {"denial_expires_at": 5},
        {"binding_context_members": "project"},
        {"binding_context_members": ["project", 1]},
        {"binding_hash": 7},
        {"subject": "alice"},
        {"context": []},
        {"actor": ACT},
        {"actor": ["agent"]},
        {"agent": {}},
    ],
    ids=str,
)
def test_a_claim_of_another_shape_invalidates_the_token(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidDenialBinding):
        claims(**changes)


def test_a_token_without_identifier_is_named_by_what_the_caller_gives() -> None:
    assert claims().token_id == "j1"
    assert claims(jti=None).token_id == "digest"
    assert claims(iss=None).issuer == ""


FRESHNESS = [row for row in vectors.load("freshness") if row["fault"] is None]


@pytest.mark.parametrize("row", FRESHNESS, ids=lambda row: row["id"])
@pytest.mark.requirement("ARS-28", "ARS-30", "ARS-31", "ARS-32", "ARS-33")
def test_freshness(row: dict[str, Any]) -> None:
    """`freshness.json`; rows with a fault before freshness belong to the whole submission."""
    echo, now = parse_instant(row["echo"]), parse_instant(row["now"])
    proof: Claims | RecordedDenial
    if row["path"] == "evaluation_id":
        proof = record(expires_at=parse_instant(row["recorded_expires_at"]))
    else:
        exp = None if row["exp"] is None else int(parse_instant(row["exp"]).timestamp())
        proof = claims(exp=exp, denial_expires_at=row["denial_expires_at"])
    try:
        check_freshness(proof, echo=echo, now=now, tolerance_seconds=row["skew_s"])
        outcome: dict[str, Any] = {"status": 202, "type": None}
    except ArapError as error:
        outcome = {"status": error.status, "type": error.urn}
    assert outcome == row["expect"]


@pytest.mark.requirement("ARS-31")
def test_the_echo_may_spell_the_same_instant_differently() -> None:
    echo = parse_instant("2026-04-30T22:25:00+02:00")
    assert check_freshness(claims(), echo=echo, now=DEADLINE, tolerance_seconds=30) == DEADLINE


@pytest.mark.requirement("ARS-33")
def test_the_tolerance_ends_to_the_second() -> None:
    edge = DEADLINE + timedelta(seconds=30)
    check_freshness(claims(), echo=DEADLINE, now=edge, tolerance_seconds=30)
    with pytest.raises(ExpiredDenial):
        check_freshness(claims(), echo=DEADLINE, now=edge + timedelta(microseconds=1), tolerance_seconds=30)
