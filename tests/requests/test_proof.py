"""Whether a submission rests on a fresh, unused, requestable denial, with tokens good and bad and denials on record."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from arap_service import requests, workers
from arap_service.context import Context
from arap_service.domain.errors import (
    ActorUnverified,
    ArapError,
    ExpiredDenial,
    InvalidDenialBinding,
    InvalidRequest,
    NotRequestable,
)
from arap_service.keys import APPROVAL_TYP, BINDING_TYP, TrustedIssuers, Use
from arap_service.protocol.arap import parse_instant
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.settings import Settings
from arap_service.store.tables import Denial
from tests.clock import START
from tests.requests.world import ARGUMENTS, GATE, OTHER_GATE, World, machine, person, question
from tests.tokens import FixedKeys, ed25519, hmac_with_public_key, key, signed, unsigned, with_own_key

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(shared_world: World) -> World:
    """Nothing here counts rows, so all tests share one database of each engine."""
    return shared_world


VECTORS = Path(__file__).parents[1] / "vectors"
FRESHNESS = json.loads((VECTORS / "freshness.json").read_text(encoding="utf-8"))
PDP = "https://pdp.elsewhere.example"


async def outcome(world: World, body: Mapping[str, Any], caller: Any = GATE) -> type[ArapError] | str:
    """What a submission leads to: the status of its task, or the class of its error."""
    try:
        submitted = await requests.submit(world.ctx, caller, json.dumps(body).encode(), idempotency_key=None)
    except ArapError as fault:
        return type(fault)
    return str(submitted.task["status"])


def bound(world: World, asked: Mapping[str, Any], token: str, **members: Any) -> dict[str, Any]:
    """A submission of `asked` that rests on `token`."""
    return {**asked, "denial": world.denial(binding_token=token, **members)}


def until(text: str) -> int:
    return int(parse_instant(text).timestamp())


@pytest.mark.requirement("ARS-30", "ARS-31", "ARS-32", "ARS-34")
@pytest.mark.parametrize("row", FRESHNESS, ids=[row["id"] for row in FRESHNESS])
async def test_freshness_end_to_end(world: World, row: dict[str, Any]) -> None:
    """`freshness.json`, all rows: through the real pipeline with tokens and records made at the vector's times."""
    asked = question()
    echo = {} if row["echo"] is None else {"expires_at": row["echo"]}
    if row["path"] == "token":
        claims = {"exp": row["exp"] and until(row["exp"]), "denial_expires_at": row["denial_expires_at"]}
        missing = [name for name, value in claims.items() if value is None]
        token = world.token(asked, without=missing, **claims)
        if row["fault"] == "bad signature":
            token = token[:-10] + ("A" * 10 if not token.endswith("A" * 10) else "B" * 10)
        body = {**asked, "denial": {**echo, "binding_token": token}}
    else:
        seconds = (parse_instant(row["recorded_expires_at"]) - world.clock()).total_seconds()
        evaluation_id = await world.recorded(asked, seconds=int(seconds))
        body = {**asked, "denial": {**echo, "evaluation_id": evaluation_id}}
    if row["fault"] == "resource.id mutated":
        body["resource"] = {"type": "tool", "id": "payroll"}
        body["context"] = {name: value for name, value in asked["context"].items() if name != TOOL_CALL}
    world.clock.advance((parse_instant(row["now"]) - world.clock()).total_seconds())
    assert world.ctx.settings.clock_skew_seconds == row["skew_s"]
    expected = {
        (202, None): "pending",
        (410, "urn:openid:authzen:access-request:error:expired_denial"): ExpiredDenial,
        (400, "urn:openid:authzen:access-request:error:invalid_denial_binding"): InvalidDenialBinding,
        (400, "<P>invalid-request"): InvalidRequest,
    }[row["expect"]["status"], row["expect"]["type"]]
    assert await outcome(world, body) == expected


@pytest.mark.requirement("ARS-31")
async def test_instants_are_compared_and_not_their_spelling(world: World) -> None:
    """Catalogue ARS-31: `Z` and `+00:00` are one."""
    asked = question()
    token = world.token(asked, denial_expires_at="2026-04-30T20:05:00Z")
    body = {**asked, "denial": {"binding_token": token, "expires_at": "2026-04-30T22:05:00.000+02:00"}}
    assert await outcome(world, body) == "pending"


@pytest.mark.requirement("ARS-20", "ARS-21")
@pytest.mark.parametrize(
    "change",
    [
        {"subject": {"type": "user", "id": "eve"}},
        {"subject": {"type": "user", "id": "alice", "properties": {"role": "admin"}}},
        {"resource": {"type": "tool", "id": "wire_transfer", "properties": {"limit": 1}}},
        {"action": {"name": "tools/call", "properties": {"soft": True}}},
        {"action": {"name": "tools/list"}},
    ],
    ids=["subject", "subject-properties", "resource", "action-properties", "action"],
)
@pytest.mark.parametrize("form", ["hash", "inline", "both"])
async def test_changed_tuple_is_not_what_was_denied(world: World, change: dict[str, Any], form: str) -> None:
    """Catalogue ARS-20: each of the four, against the hash and against inline claims."""
    asked = question()
    inline = {name: asked[name] for name in ("subject", "resource", "action", "context")}
    token = world.token(
        asked,
        without=["binding_hash"] if form == "inline" else [],
        **({} if form == "hash" else inline),
    )
    assert await outcome(world, bound(world, {**asked, **change}, token)) is InvalidDenialBinding
    assert await outcome(world, bound(world, asked, token)) == "pending"


@pytest.mark.requirement("ARS-21")
async def test_claims_that_contradict_each_other_prove_nothing(world: World) -> None:
    """Catalogue ARS-21: both the inline tuple and the hash must match."""
    asked, other = question(), question(subject="eve")
    for claims in ({"subject": other["subject"]}, {"binding_hash": world.claims(other)["binding_hash"]}):
        token = world.token(asked, **{"subject": asked["subject"], **claims})
        assert await outcome(world, bound(world, asked, token)) is InvalidDenialBinding


@pytest.mark.requirement("ARS-22", "ARS-23")
async def test_bound_context_is_compared_and_nothing_else_of_it(world: World) -> None:
    """Catalogue ARS-22, ARS-23: exactly the bound members; a justification beside them is welcome."""
    asked = question(project="alpha")
    for change in ({"project": "beta"}, {"agent": "other"}, {"server": None}):
        context = {k: v for k, v in {**asked["context"], **change}.items() if v is not None}
        body = bound(world, {**asked, "context": context}, world.token(asked))
        assert await outcome(world, body) is InvalidDenialBinding
    justified = {**asked, "context": {**asked["context"], "business_justification": "renewal", "time": "later"}}
    assert await outcome(world, bound(world, justified, world.token(asked))) == "pending"


@pytest.mark.requirement("ARS-24", "ARS-25")
async def test_actor_in_the_subject_is_compared_apart_from_the_tuple(world: World) -> None:
    """Catalogue ARS-24, ARS-25, ARS-102: `act` does not bind by the hash, but dropping or exchanging it shows."""
    asked = question()
    act = {"iss": "https://idp.example", "sub": "bot-7"}
    acting = {**asked, "subject": {**asked["subject"], "properties": {"act": act}}}
    token = world.token(acting, actor=[act])
    caller = machine("gate", act=(("https://idp.example", "bot-7"),))
    assert await outcome(world, bound(world, acting, token), caller) == "pending"
    moved = {**asked, "client": {"actor": {"id": "bot-7", "issuer": "https://idp.example"}}}
    assert await outcome(world, bound(world, moved, world.token(acting, actor=[act])), caller) == "pending"
    for other in (asked, {**asked, "client": {"actor": {"id": "bot-8", "issuer": "https://idp.example"}}}):
        assert await outcome(world, bound(world, other, world.token(acting, actor=[act])), caller) is (
            InvalidDenialBinding
        )


@pytest.mark.requirement("ARS-99", "ARS-100")
@pytest.mark.parametrize(
    "chain",
    [(), (("https://other.example", "bot-7"),), (("https://idp.example", "bot-8"),)],
    ids=["none", "other-issuer", "other-subject"],
)
async def test_chain_that_the_credential_does_not_prove_is_refused(
    world: World, chain: tuple[tuple[str, str], ...]
) -> None:
    """Catalogue ARS-99, ARS-100: the whole chain, by issuer and subject."""
    act = {"iss": "https://idp.example", "sub": "bot-7"}
    acting = {**question(), "subject": {"type": "user", "id": "alice", "properties": {"act": act}}}
    body = bound(world, acting, world.token(acting, actor=[act]))
    assert await outcome(world, body, machine("gate", act=chain)) is ActorUnverified


@pytest.mark.requirement("ARS-14")
async def test_other_evaluation_id_than_the_token_says_is_refused(world: World) -> None:
    """Catalogue ARS-14: a mismatch with the claim is fatal; without the claim the member is correlation only."""
    asked = question()
    other = world.ctx.keys.mint_evaluation_id("requestable")
    mismatch = bound(world, asked, world.token(asked), evaluation_id=other)
    assert await outcome(world, mismatch) is InvalidDenialBinding
    silent = bound(world, asked, world.token(asked, without=["evaluation_id"]), evaluation_id=other)
    assert await outcome(world, silent) == "pending"


@pytest.mark.requirement("ARS-13")
async def test_token_alone_is_the_binding_when_there_is_one(world: World) -> None:
    """Catalogue ARS-13: a good id does not save a bad token."""
    asked = question()
    evaluation_id = await world.recorded(asked)
    body = bound(world, asked, world.token(asked)[:-4] + "AAAA", evaluation_id=evaluation_id)
    assert await outcome(world, body) is InvalidDenialBinding


@pytest.mark.requirement("ARS-12")
async def test_id_of_a_permit_or_a_plain_denial_is_not_requestable(world: World) -> None:
    """Catalogue ARS-12: the id itself tells, without any record; an id that is not ours is an invalid binding."""
    asked = question()
    for kind in ("permit", "deny"):
        evaluation_id = world.ctx.keys.mint_evaluation_id(kind)
        body = {**asked, "denial": world.denial(evaluation_id=evaluation_id)}
        assert await outcome(world, body) is NotRequestable
    body = {**asked, "denial": world.denial(evaluation_id="ev_made_up")}
    assert await outcome(world, body) is InvalidDenialBinding


@pytest.mark.requirement("ARS-15")
async def test_id_alone_is_refused_where_a_token_was_given(world: World) -> None:
    """Catalogue ARS-15, shared state: the enforcement point dropped the token that came with the denial."""
    body = await world.body()
    del body["denial"]["binding_token"]
    assert await outcome(world, body) is InvalidDenialBinding


@pytest.mark.requirement("ARS-15")
async def test_id_alone_is_refused_in_independent_mode(world: World) -> None:
    """Catalogue ARS-15, independent mode: only a signed token proves anything."""
    asked = question()
    body = {**asked, "denial": world.denial(evaluation_id=await world.recorded(asked))}
    independent = with_settings(world, independent=True)
    assert await outcome(independent, body) is InvalidDenialBinding
    assert await outcome(world, body) == "pending"


def with_settings(world: World, **changes: Any) -> World:
    settings: Settings = world.ctx.settings.model_copy(update=changes)
    return World(replace(world.ctx, settings=settings), world.clock)


@pytest.mark.requirement("ARS-28", "ARS-29")
async def test_denial_on_record_is_compared_and_belongs_to_its_client(world: World) -> None:
    """Catalogue ARS-28, ARS-29: the recorded tuple, and the client that received the denial."""
    asked = question()
    denial = world.denial(evaluation_id=await world.recorded(asked))
    changed = {**asked, "resource": {"type": "tool", "id": "wire_transfer", "properties": {"x": 1}}, "denial": denial}
    assert await outcome(world, changed) is InvalidDenialBinding
    assert await outcome(world, {**asked, "denial": denial}, OTHER_GATE) is InvalidDenialBinding
    assert await outcome(world, {**asked, "denial": denial}) == "pending"


async def test_token_belongs_to_the_client_that_was_denied(world: World) -> None:
    """As a denial on record does: whoever else comes by a token can neither use nor spend it."""
    body = await world.body()
    assert await outcome(world, body, OTHER_GATE) is InvalidDenialBinding
    assert await outcome(world, body) == "pending"
    for client, expected in (("gate", "pending"), ("other-gate", InvalidDenialBinding)):
        asked = question()
        assert await outcome(world, bound(world, asked, world.token(asked, client_id=client))) == expected


@pytest.mark.requirement("ARS-36")
async def test_token_without_a_name_of_its_own_is_spent_in_every_spelling(world: World) -> None:
    """An ES256 signature has a twin, and the last letter of its text some spare bits: all of them are one token."""
    asked = question()
    token = world.token(asked, without=["jti", "evaluation_id"])
    claims, _, signature = token.rpartition(".")
    twin = claims + "." + twin_of(signature)
    assert twin != token
    assert await outcome(world, bound(world, asked, token)) == "pending"
    for same in (twin, token):
        assert await outcome(world, bound(world, asked, same)) is InvalidDenialBinding
    other = world.token(question(project="other"), without=["jti", "evaluation_id"])
    assert await outcome(world, bound(world, question(project="other"), other)) == "pending"


def twin_of(signature: str) -> str:
    """The other signature that is as good: (r, n - s) for (r, s)."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    raw = base64.urlsafe_b64decode(signature + "==")
    other = (order - int.from_bytes(raw[32:])).to_bytes(32)
    return base64.urlsafe_b64encode(raw[:32] + other).rstrip(b"=").decode()


@pytest.mark.requirement("ARS-36")
async def test_spent_token_is_remembered_for_as_long_as_it_could_be_accepted(world: World) -> None:
    """The tolerance for clocks accepts it after its deadline, so that the memory has to outlast that as well."""
    body = await world.body()
    submitted = await world.submit(body)
    await requests.cancel(world.ctx, GATE, submitted.task["id"], None)
    world.clock.advance(300 + world.ctx.settings.clock_skew_seconds - 5)
    await workers.purge_due(world.ctx)
    assert await outcome(world, body) is InvalidDenialBinding
    world.clock.advance(5)
    await workers.purge_due(world.ctx)
    assert await outcome(world, body) is InvalidDenialBinding
    world.clock.advance(2)
    await workers.purge_due(world.ctx)
    assert await outcome(world, body) is ExpiredDenial


@pytest.mark.requirement("ARS-37")
async def test_equal_submission_by_id_returns_the_open_task(world: World) -> None:
    """Catalogue ARS-37: without key and jti there is still one open task; a different body learns nothing."""
    asked = question()
    body = {**asked, "denial": world.denial(evaluation_id=await world.recorded(asked))}
    first = await world.submit(body)
    again = await world.submit(body)
    assert again.task == first.task
    other = {**body, "display": {"title": "other"}}
    assert await outcome(world, other) is InvalidDenialBinding
    await world.decide(first.task["id"], decision="deny")
    assert (await world.submit(body)).task["id"] != first.task["id"]


@pytest.mark.requirement("ARS-28")
async def test_tampered_record_proves_nothing(world: World) -> None:
    """A sealed tuple that was moved from another row does not open, and the answer is an invalid binding, not a 500."""
    asked = question()
    one, two = await world.recorded(asked), await world.recorded(question(subject="eve"))

    def swap(session: Any) -> None:
        rows = [session.get(Denial, evaluation_id) for evaluation_id in (one, two)]
        rows[0].tuple_sealed, rows[1].tuple_sealed = rows[1].tuple_sealed, rows[0].tuple_sealed

    await world.ctx.database.write(swap)
    body = {**asked, "denial": world.denial(evaluation_id=one)}
    assert await outcome(world, body) is InvalidDenialBinding


@pytest.mark.requirement("ARS-19")
@pytest.mark.parametrize(
    ("audience", "accepted"),
    [
        (None, False),
        ("https://approvals.example", False),
        ("https://other.example/access/v1/request", False),
        (["https://other.example"], False),
        (["https://other.example", "https://approvals.example/access/v1/request"], True),
        ({"aud": "https://approvals.example/access/v1/request"}, False),
    ],
)
async def test_token_must_be_meant_for_us(world: World, audience: object, *, accepted: bool) -> None:
    """Catalogue ARS-19: missing, other, array with us."""
    asked = question()
    token = world.token(asked, without=["aud"]) if audience is None else world.token(asked, aud=audience)
    expected = "pending" if accepted else InvalidDenialBinding
    assert await outcome(world, bound(world, asked, token)) == expected


@pytest.mark.requirement("PDP-58")
async def test_claims_that_nobody_defined_are_tolerated(world: World) -> None:
    """Catalogue PDP-58: a decision point may say more in its token than this service understands."""
    asked = question()
    token = world.token(asked, **{"https://pdp.example/claims/zone": {"nested": [1, None]}, "tenant": "north"})
    assert await outcome(world, bound(world, asked, token)) == "pending"


def trusting(ctx: Context, issuers: Mapping[str, Any]) -> Context:
    trust = replace(ctx.trust, binding=TrustedIssuers({**ctx.trust.binding.sources, **issuers}))
    return replace(ctx, trust=trust)


@pytest.mark.requirement("ARS-16", "ARS-17", "ARS-18")
async def test_token_of_a_configured_decision_point_is_accepted_and_no_other(world: World) -> None:
    """Catalogue ARS-16 to ARS-18: issuer first, then its own keys; no algorithm and no key of the token's choice."""
    foreign, stranger = key("pdp-1"), key("pdp-1")
    elsewhere = World(trusting(world.ctx, {PDP: FixedKeys(foreign)}), world.clock)
    asked = question()

    async def told(make: Any, **changes: Any) -> object:
        claims = world.claims(asked, **{"iss": PDP, **changes})
        return await outcome(elsewhere, bound(world, asked, make(claims)))

    assert await told(lambda claims: signed(foreign, claims, typ=BINDING_TYP)) == "pending"
    bad = [
        lambda claims: signed(stranger, claims, typ=BINDING_TYP),
        lambda claims: signed(foreign, claims, typ=BINDING_TYP, kid="pdp-2"),
        lambda claims: signed(foreign, claims, typ=APPROVAL_TYP),
        lambda claims: signed(foreign, claims, typ=None),
        lambda claims: unsigned(foreign, claims, typ=BINDING_TYP),
        lambda claims: hmac_with_public_key(foreign, claims, typ=BINDING_TYP),
        lambda claims: with_own_key(foreign, claims, typ=BINDING_TYP),
    ]
    for make in bad:
        assert await told(make) is InvalidDenialBinding
    for issuer in (world.ctx.settings.identifier, "https://nobody.example"):
        outcome_ = await told(lambda claims: signed(foreign, claims, typ=BINDING_TYP), iss=issuer)
        assert outcome_ is InvalidDenialBinding


@pytest.mark.requirement("ARS-18")
async def test_ed25519_token_of_a_configured_decision_point_is_accepted(world: World) -> None:
    """Catalogue ARS-18: the allow-list is ES256 and EdDSA."""
    asked = question()
    token, public = ed25519("pdp-ed", world.claims(asked, iss=PDP), alg="EdDSA", typ=BINDING_TYP)
    elsewhere = World(trusting(world.ctx, {PDP: FixedKeys(public)}), world.clock)
    assert await outcome(elsewhere, bound(world, asked, token)) == "pending"


@pytest.mark.requirement("ARS-27")
@pytest.mark.parametrize("token", ["opaque", "a.b.c", "", "é.é.é", "." * 5, "x" * 100_000])
async def test_token_of_another_format_is_refused(world: World, token: str) -> None:
    """Catalogue ARS-27: an opaque random string proves nothing."""
    assert await outcome(world, bound(world, question(), token)) is InvalidDenialBinding


async def test_approval_state_is_no_binding(world: World) -> None:
    """Catalogue PDP-57, the mirror of R21."""
    asked = question()
    token = world.ctx.keys.sign(Use.APPROVAL, world.claims(asked), APPROVAL_TYP)
    assert await outcome(world, bound(world, asked, token)) is InvalidDenialBinding


@pytest.mark.requirement("ARS-35")
async def test_spent_token_is_remembered_until_it_can_no_longer_be_used(world: World) -> None:
    """Catalogue ARS-35: at every instant at which freshness would accept it, the memory of its use is still there."""
    asked = question()
    token = world.token(asked)
    body = {**asked, "denial": {"binding_token": token, "expires_at": "2026-04-30T20:05:00Z"}}
    submitted = await world.submit(body)
    await world.decide(submitted.task["id"], decision="deny")  # no open task that could speak for the token
    for second in (0, 299, 300, 329, 330):
        world.clock.advance((START + timedelta(seconds=second) - world.clock()).total_seconds())
        await workers.purge_due(world.ctx)
        assert await outcome(world, {**body, "display": {"n": second}}) is InvalidDenialBinding
    world.clock.advance(1)
    assert await outcome(world, body) is ExpiredDenial


@pytest.mark.parametrize(
    "call",
    [
        {"arguments": {"amount": 1, "to": "DE1"}},
        {"arguments": {**ARGUMENTS, "more": 1}},
        {"tool": "harmless"},
        {"server": "harmless"},
        {"arguments": {"n": 2**60}},
    ],
    ids=["changed", "added", "tool", "server", "unhashable"],
)
async def test_call_that_reviewers_would_see_must_be_what_was_bound(world: World, call: dict[str, Any]) -> None:
    """Design section 4: the arguments are recomputed, and tool and server are those of the denial."""
    asked = question()
    shown = {**asked["context"][TOOL_CALL], **call}
    body = bound(world, {**asked, "context": {**asked["context"], TOOL_CALL: shown}}, world.token(asked))
    expected = InvalidRequest if call == {"arguments": {"n": 2**60}} else InvalidDenialBinding
    assert await outcome(world, body) is expected


async def test_call_without_a_bound_hash_is_not_shown_as_verified(world: World) -> None:
    """Design section 4: a complete call needs the hash; one that is declared incomplete says so to the reviewer."""
    asked = question(arguments_hash=None)
    assert await outcome(world, bound(world, asked, world.token(asked))) is InvalidDenialBinding
    partial = {**asked["context"][TOOL_CALL], "complete": False, "arguments": {"to": "DE1"}}
    told = question(arguments_hash=arguments_hash(ARGUMENTS))
    told["context"][TOOL_CALL] = partial
    submitted = await world.submit(bound(world, told, world.token(told)))
    assert (await requests.detail(world.ctx, person("ann"), submitted.task["id"])).complete is False


async def test_template_that_no_longer_exists_falls_back_to_the_rules(world: World) -> None:
    """A denial from before a change of the rules is routed by the rules of now, or refused when they have no route."""
    asked = question()
    token = world.token(asked, template="gone")
    submitted = await world.submit(bound(world, asked, token))
    assert (await world.task(submitted.task["id"])).template_id == "transfer"
    closed = question("closed")
    body = bound(world, closed, world.token(closed, template="gone"))
    assert await outcome(world, body) is NotRequestable
