"""Requestable denials: who is offered one, what the binding token says, and when the offer is withheld."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, select

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.errors import InvalidDenialBinding
from arap_service.evaluation import evaluate
from arap_service.keys import APPROVAL_TYP, BINDING_TYP, Keys, TokenInvalid, TrustedIssuers, Use, import_public, verify
from arap_service.protocol.arap import parse_instant
from arap_service.protocol.canonical import TOOL_CALL, Tuple4, binding_hash, digest
from arap_service.records import recorded_denial
from arap_service.store import migrate
from arap_service.store.database import Database
from arap_service.store.tables import AuditEntry, Denial
from arap_service.store.tasks import find_denial
from tests import pdp
from tests.clock import START, FakeClock
from tests.databases import Databases, Kind
from tests.pdp import GATE, call_context, claims_of, denied, header_of, question
from tests.service import IDENTIFIER, service_context, settings_for
from tests.tokens import FixedKeys

ENDPOINT = IDENTIFIER + "/access/v1/request"


@pytest.fixture
async def ctx(engine_kind: Kind, databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    url = databases.copy_of(engine_kind, "service", migrate.upgrade)
    async with service_context(settings_for(tmp_path, database=url, policy=pdp.POLICY), clock=clock) as opened:
        yield opened
    databases.drop(url)


@pytest.fixture
async def on_file(databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    """A context on SQLite alone, for what does not depend on the engine."""
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    async with service_context(settings_for(tmp_path, database=url, policy=pdp.POLICY), clock=clock) as opened:
        yield opened


def stored(ctx: Context) -> list[Denial]:
    return ctx.database.read_now(lambda session: list(session.exec(select(Denial)).all()))


class MuteKeys(Keys):
    """Keys whose signing part has broken."""

    def sign(self, use: Use | str, claims: Any, typ: str) -> str:
        raise RuntimeError("no key")


def muted(ctx: Context, **settings: Any) -> Context:
    return replace(
        ctx, keys=MuteKeys(ctx.keys._keys, clock=ctx.clock), settings=ctx.settings.model_copy(update=settings)
    )


@pytest.mark.anyio
@pytest.mark.requirement("PDP-38", "PDP-39", "PDP-41", "PDP-43", "PDP-49", "PDP-50", "PDP-51", "PDP-55", "PDP-56")
async def test_a_requestable_denial_carries_everything_that_binds_it(ctx: Context) -> None:
    context = await denied(ctx, question())
    offered = context["access_request"]
    claims = claims_of(offered["binding_token"])
    bound = {name: call_context()[name] for name in ("agent", "arguments_hash", "server")}
    assert claims == {
        "iss": IDENTIFIER,
        "aud": ENDPOINT,
        "iat": int(START.timestamp()),
        "exp": int((START + timedelta(seconds=300)).timestamp()),
        "jti": claims["jti"],
        "denial_expires_at": "2026-04-30T20:05:00Z",
        "evaluation_id": context["evaluation_id"],
        "binding_context_members": ["agent", "arguments_hash", "server"],
        "binding_hash": binding_hash(*Tuple4(**question()), ["agent", "arguments_hash", "server"]),
        "subject": question()["subject"],
        "resource": question()["resource"],
        "action": question()["action"],
        "context": bound,
        "client_id": "gate",
        "template": "auto",
        "reason": "approval_required",
        "agent": "agent-A",
        "shown_call": f"whole:{digest(question()['context'][TOOL_CALL])}",
    }
    del offered["binding_token"]
    assert context == {
        "evaluation_id": context["evaluation_id"],
        "evaluated_at": "2026-04-30T20:00:00Z",
        "reason": "approval_required",
        "access_request": {
            "endpoint": ENDPOINT,
            "template": "auto",
            "expires_at": "2026-04-30T20:05:00Z",
            "display": {"title": "Wire transfer", "description": "Money leaves the company."},
        },
    }


@pytest.mark.anyio
@pytest.mark.requirement("PDP-48", "PDP-40")
async def test_the_token_verifies_with_the_published_keys_alone(ctx: Context) -> None:
    token = (await denied(ctx, question()))["access_request"]["binding_token"]
    assert header_of(token)["alg"] == "ES256"
    assert header_of(token)["typ"] == BINDING_TYP
    published = FixedKeys()
    for jwk in ctx.keys.jwks()["keys"]:
        key = import_public(jwk)
        assert key is not None
        published.keys[jwk["kid"]] = key
    issuers = TrustedIssuers({IDENTIFIER: published})
    assert verify(token, typ=BINDING_TYP, issuers=issuers)["evaluation_id"]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-57")
async def test_a_binding_token_is_no_approval_state(ctx: Context) -> None:
    token = (await denied(ctx, question()))["access_request"]["binding_token"]
    for issuers in (ctx.trust.binding, ctx.trust.approval):
        with pytest.raises(TokenInvalid):
            ctx.keys.verify(token, typ=APPROVAL_TYP, issuers=issuers)


@pytest.mark.anyio
async def test_the_denial_is_on_record_with_its_audit_entry_before_it_is_answered(ctx: Context) -> None:
    context = await denied(ctx, question())
    name = context["evaluation_id"]

    def look(session: Session) -> tuple[Denial | None, list[AuditEntry], object]:
        return find_denial(session, name), audit.entries_of_evaluation(session, name), audit.verify_chain(session, name)

    row, entries, chain = ctx.database.read_now(look)
    assert row is not None
    record = recorded_denial(row, ctx.ring)
    assert (record.about, record.members) == (Tuple4(**question()), ("agent", "arguments_hash", "server"))
    assert record.expires_at == parse_instant(context["access_request"]["expires_at"])
    assert (record.client_id, record.template, record.token_issued) == ("gate", "auto", True)
    assert [(entry.kind, entry.actor) for entry in entries] == [("denied_requestable", GATE.principal)]
    assert isinstance(chain, audit.Verified)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-37", "PDP-07")
async def test_permits_and_plain_denials_offer_nothing_and_write_nothing(ctx: Context) -> None:
    def entries() -> int:
        return len(ctx.database.read_now(lambda session: session.exec(select(AuditEntry)).all()))

    before = entries()
    for asked in (question("open_tool"), question("unknown")):
        answer = await evaluate(ctx, GATE, asked)
        assert "access_request" not in answer["context"]
    assert stored(ctx) == []
    assert entries() == before


@pytest.mark.anyio
@pytest.mark.requirement("PDP-37")
async def test_a_client_that_may_not_request_is_offered_nothing(on_file: Context) -> None:
    stranger = replace(GATE, client_id="stranger")
    answer = await evaluate(on_file, stranger, question())
    assert answer["decision"] is False
    assert set(answer["context"]) == {"evaluation_id", "reason"}
    assert on_file.keys.evaluation_kind(answer["context"]["evaluation_id"]) == "deny"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-39")
async def test_without_a_store_the_denial_is_plain(on_file: Context) -> None:
    database = Database.open(on_file.settings.database, busy_seconds=0.02)
    holder = sqlite3.connect(on_file.settings.database.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        answer = await evaluate(replace(on_file, database=database), GATE, question())
    finally:
        holder.close()
        database.close()
    assert answer["decision"] is False
    assert set(answer["context"]) == {"evaluation_id", "reason"}


@pytest.mark.anyio
@pytest.mark.requirement("PDP-39")
async def test_without_a_signer_the_record_alone_binds(on_file: Context) -> None:
    ctx = muted(on_file)
    context = await denied(ctx, question())
    assert "binding_token" not in context["access_request"]
    assert [(row.evaluation_id, row.token_issued) for row in stored(ctx)] == [(context["evaluation_id"], False)]
    made = await pdp.submitted(on_file, pdp.submission(question(), context))
    assert made.task["status"] == "approved"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-40")
async def test_an_independent_service_gets_a_token_or_no_offer(on_file: Context) -> None:
    answer = await evaluate(muted(on_file, independent=True), GATE, question())
    assert set(answer["context"]) == {"evaluation_id", "reason"}
    assert stored(on_file) == []


@pytest.mark.anyio
@pytest.mark.requirement("PDP-47")
async def test_who_asks_too_often_is_denied_without_an_offer(
    databases: Databases, tmp_path: Path, clock: FakeClock
) -> None:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    settings = settings_for(tmp_path, database=url, policy=pdp.POLICY, limits={"requestable_denials_per_minute": 2})
    async with service_context(settings, clock=clock) as ctx:
        for _ in range(2):
            await denied(ctx, question())
        answer = await evaluate(ctx, GATE, question())
        assert (answer["decision"], set(answer["context"])) == (False, {"evaluation_id", "reason"})
        await denied(ctx, question(), replace(GATE, sub="other-gate", client_id="other-gate"))
        clock.advance(31)
        await denied(ctx, question())


@pytest.mark.anyio
@pytest.mark.requirement("PDP-46", "PDP-45")
async def test_a_request_that_needs_input_says_where_its_schema_is(on_file: Context) -> None:
    context = await denied(on_file, question("form_tool"))
    url = context["access_request"]["request_schema_url"]
    assert url == f"{IDENTIFIER}/access/v1/request-schemas/form"
    assert context["access_request"]["endpoint"].startswith("https://")
    assert "request_schema_url" not in (await denied(on_file, question()))["access_request"]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-41", "PDP-42")
async def test_no_two_evaluations_share_an_identifier(on_file: Context) -> None:
    names = {(await evaluate(on_file, GATE, question("unknown")))["context"]["evaluation_id"] for _ in range(10_000)}
    assert len(names) == 10_000
    offered = [await denied(on_file, question()) for _ in range(5)]
    assert len({context["evaluation_id"] for context in offered}) == 5
    assert len({claims_of(context["access_request"]["binding_token"])["jti"] for context in offered}) == 5


@pytest.mark.anyio
@pytest.mark.requirement("PDP-43", "PDP-44")
async def test_a_reason_is_stable_and_names_no_rule(on_file: Context) -> None:
    answers = [await evaluate(on_file, GATE, question("form_tool")) for _ in range(2)]
    assert {answer["context"]["reason"] for answer in answers} == {"needs_justification"}
    assert "internal-rule" not in str(answers)
    claims = claims_of(answers[0]["context"]["access_request"]["binding_token"])
    assert "internal-rule" not in str(claims)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-52", "PDP-53")
async def test_the_actor_is_left_out_of_the_hash_and_kept_beside_it(on_file: Context) -> None:
    act = {"sub": "agent-b", "iss": "https://agents.example", "act": {"sub": "agent-a"}}
    asked = question(subject={"type": "user", "id": "alice@example.com", "properties": {"act": act}})
    claims = claims_of((await denied(on_file, asked))["access_request"]["binding_token"])
    plain = claims_of((await denied(on_file, question()))["access_request"]["binding_token"])
    assert claims["subject"] == {"type": "user", "id": "alice@example.com"}
    assert claims["binding_hash"] == plain["binding_hash"]
    assert claims["actor"] == [{"iss": "https://agents.example", "sub": "agent-b"}, {"sub": "agent-a"}]
    assert "actor" not in plain


@pytest.mark.anyio
async def test_a_broken_chain_of_actors_is_not_requestable(on_file: Context) -> None:
    asked = question(subject={"type": "user", "id": "alice@example.com", "properties": {"act": "agent-b"}})
    answer = await evaluate(on_file, GATE, asked)
    assert set(answer["context"]) == {"evaluation_id", "reason"}


@pytest.mark.anyio
@pytest.mark.requirement("PDP-54", "PDP-55")
async def test_machinery_and_volatile_members_never_bind(on_file: Context) -> None:
    context = call_context(
        access_request={}, evaluation_id="e", evaluated_at="t", reason="r", nonce="n", request_id="i", project="apollo"
    )
    asked = question(context=context)
    claims = claims_of((await denied(on_file, asked))["access_request"]["binding_token"])
    assert claims["binding_context_members"] == ["agent", "arguments_hash", "project", "server"]


@pytest.mark.anyio
async def test_a_shown_call_that_is_not_the_bound_one_is_denied_plainly(on_file: Context) -> None:
    shown: dict[str, Any] = {
        TOOL_CALL: {"server": "bank", "tool": "wire_transfer", "arguments": {"to": "acct-991", "amount": 1}}
    }
    answer = await evaluate(on_file, GATE, question(context=call_context(**shown)))
    assert answer["context"]["reason"] == "arguments_hash_mismatch"
    assert "access_request" not in answer["context"]
    unbound = await evaluate(on_file, GATE, question(context=call_context(arguments_hash=None)))
    assert unbound["context"]["reason"] == "arguments_unbound"


@pytest.mark.anyio
async def test_a_denial_of_another_decision_cannot_be_submitted_for_this_one(on_file: Context) -> None:
    context = await denied(on_file, question())
    body = pdp.submission(question("form_tool", context={}), context)
    with pytest.raises(InvalidDenialBinding):
        await pdp.submitted(on_file, body)
