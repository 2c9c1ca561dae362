"""Evaluations that present an approval, end to end on both engines: every row of `reevaluation.json`, and the audit."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey
from structlog.testing import capture_logs

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.evaluation import evaluate
from arap_service.keys import APPROVAL_TYP, Use
from arap_service.protocol.arap import next_action
from arap_service.protocol.canonical import arguments_hash
from arap_service.requests.decisions import revoke
from arap_service.store import migrate
from arap_service.store.tables import Task
from tests import pdp, tokens
from tests.clock import START, FakeClock
from tests.databases import Databases, Kind
from tests.pdp import GATE, approved, call_context, change_rules, claims_of, denied, presenting, question
from tests.protocol import vectors
from tests.service import IDENTIFIER, service_context, settings_for

ENDPOINT = IDENTIFIER + "/access/v1/request"
FOREIGN = "https://ars.example"
ROWS = {row["id"]: row for row in vectors.load("reevaluation")}
REVOKER = Caller(
    iss="https://idp.example",
    sub="rita",
    client_id="desk",
    scopes=frozenset({"approval:read", "approval:resolve", "approval:revoke"}),
    channel="api",
)


@pytest.fixture
async def ctx(engine_kind: Kind, databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    url = databases.copy_of(engine_kind, "service", migrate.upgrade)
    async with service_context(settings_for(tmp_path, database=url, policy=pdp.POLICY), clock=clock) as opened:
        yield opened
    databases.drop(url)


@pytest.fixture
def foreign_key() -> ECKey:
    return tokens.key("ars-1")


@pytest.fixture
async def shared(databases: Databases, tmp_path: Path, clock: FakeClock, foreign_key: ECKey) -> AsyncIterator[Context]:
    """A context that trusts a foreign request service, whose key set is served without a network."""
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    settings = settings_for(
        tmp_path,
        database=url,
        policy=pdp.POLICY,
        trusted_services=[{"issuer": FOREIGN, "jwks_uri": FOREIGN + "/jwks.json"}],
    )

    async def fetch(_url: str) -> bytes:
        return json.dumps({"keys": [foreign_key.as_dict(private=False)]}).encode()

    async with service_context(settings, clock=clock, fetch=fetch) as opened:
        yield opened


@dataclass
class Scene:
    """A context with one approval of Alice's wire transfer in it."""

    ctx: Context
    clock: FakeClock
    approval: dict[str, Any]

    def signer(self, use: Use) -> ECKey:
        return next(key.key for key in self.ctx.keys._keys if key.use is use)

    def forged(self, *, use: Use = Use.APPROVAL, **changes: Any) -> dict[str, Any]:
        claims = {**claims_of(self.approval["state"]), **changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        return {**self.approval, "state": tokens.signed(self.signer(use), claims, typ=APPROVAL_TYP)}

    def edited(self, **changes: Any) -> dict[str, Any]:
        return {name: value for name, value in {**self.approval, **changes}.items() if value is not None}

    def rules(self, old: str, new: str) -> None:
        change_rules(self.ctx, self.ctx.settings.policy_path, old, new)


Asked = dict[str, Any]
Play = Callable[[Scene], Awaitable[Asked] | Asked]
LATER = timedelta(minutes=15).total_seconds()


def with_context(**changes: Any) -> Asked:
    return question(context=call_context(**changes))


async def revoked(scene: Scene) -> Asked:
    await revoke(scene.ctx, REVOKER, scene.approval["id"], reason="no longer wanted")
    return presenting(question(), scene.approval)


async def not_provisioned(scene: Scene) -> Asked:
    asked = question("ledger")
    return presenting(asked, await approved(scene.ctx, asked))


async def binding_token(scene: Scene) -> Asked:
    token = (await denied(scene.ctx, question()))["access_request"]["binding_token"]
    return presenting(question(), scene.edited(state=token))


def suspended(scene: Scene) -> Asked:
    scene.rules("{suspended: false}", "{suspended: true}")
    return presenting(question(), scene.approval)


def standing_permit(scene: Scene, approval: object) -> Asked:
    scene.rules('resource.id == "open_tool"', 'resource.id == "open_tool" || resource.id == "wire_transfer"')
    return presenting(question(), approval)


def aged(scene: Scene, approval: object) -> Asked:
    scene.clock.advance(LATER)
    return presenting(question(), approval)


def unsigned(scene: Scene) -> Asked:
    claims = claims_of(scene.approval["state"])
    state = tokens.unsigned(scene.signer(Use.APPROVAL), claims, typ=APPROVAL_TYP)
    return presenting(question(), scene.edited(state=state))


FAR = "2099-01-01T00:00:00Z"
BOB = {"type": "user", "id": "bob@example.com"}
PLAYS: dict[str, Play] = {
    "R1": lambda scene: presenting(question(), scene.approval),
    "R2": lambda _: presenting(question(), {"id": "apr_AAAAAAAAAAAAAAAAAAAAAA"}),
    "R3": lambda scene: presenting(question(subject=BOB), scene.approval),
    "R4": lambda scene: presenting(question("form_tool"), scene.approval),
    "R5": lambda scene: presenting(
        question(resource={"type": "tool", "id": "wire_transfer", "properties": {"x": 1}}), scene.approval
    ),
    "R6": lambda scene: presenting(with_context(server=None), scene.approval),
    "R7": lambda scene: presenting(with_context(time="2026-04-30T20:07:00Z"), scene.approval),
    "R8": lambda scene: aged(scene, scene.approval),
    "R9": revoked,
    "R10": lambda scene: aged(scene, scene.edited(approved_until=FAR)),
    "R11": lambda scene: presenting(question(), scene.edited(approved_until=FAR)),
    "R12": lambda scene: standing_permit(scene, scene.forged(approval_id="apr_other")),
    "R13": lambda scene: presenting(question(), scene.forged(use=Use.BINDING)),
    "R14": lambda scene: presenting(question(), scene.forged(aud="https://other-pdp.example")),
    "R15": lambda scene: presenting(question(), scene.forged(aud=None)),
    "R16": unsigned,
    "R17": lambda scene: standing_permit(scene, {"id": "apr_AAAAAAAAAAAAAAAAAAAAAA"}),
    "R18": suspended,
    "R19": not_provisioned,
    "R20": lambda _: presenting(question(), "apr_1"),
    "R21": binding_token,
    "R22": lambda scene: presenting(with_context(agent="agent-B"), scene.approval),
    "R23": lambda scene: presenting(
        with_context(arguments_hash=arguments_hash({}), **{"urn:x-arap:tool_call": None}), scene.approval
    ),
}


@pytest.fixture
async def scene(ctx: Context, clock: FakeClock) -> Scene:
    """The scene on each engine in turn."""
    return Scene(ctx, clock, await approved(ctx, question()))


@pytest.fixture
async def set_piece(shared: Context, clock: FakeClock) -> Scene:
    """The scene on SQLite alone, for what does not depend on the engine."""
    return Scene(shared, clock, await approved(shared, question()))


async def played(scene: Scene, play: Play) -> dict[str, Any]:
    asked = play(scene)
    return await evaluate(scene.ctx, GATE, asked if isinstance(asked, dict) else await asked)


def test_every_row_about_a_single_evaluation_is_played() -> None:
    """R24 is a batch and stands in `test_evaluation.py`."""
    assert set(PLAYS) == set(ROWS) - {"R24"}


@pytest.mark.anyio
@pytest.mark.parametrize("name", PLAYS)
@pytest.mark.requirement(
    "PDP-59",
    "PDP-60",
    "PDP-61",
    "PDP-62",
    "PDP-63",
    "PDP-64",
    "PDP-65",
    "PDP-67",
    "PDP-68",
    "PDP-70",
    "PDP-71",
    "PDP-76",
)
async def test_reevaluation_row(scene: Scene, name: str) -> None:
    """`reevaluation.json`, through submission, approval, store and signature."""
    row, answer = ROWS[name], await played(scene, PLAYS[name])
    assert answer["decision"] is row["decision"]
    context = answer["context"]
    if answer["decision"]:
        return
    reasons = row["reason"] if isinstance(row["reason"], list) else [row["reason"]]
    assert context["reason"] in reasons
    assert context["next_action"] in {"request", "retry", "none"}
    assert ("access_request" in context) == (context["next_action"] == "request")  # PDP-72
    assert next_action(context) == context["next_action"]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-75", "PDP-64")
async def test_a_permit_shows_until_when_by_the_record_and_never_the_state(set_piece: Scene) -> None:
    for name in ("R1", "R11"):
        answer = await played(set_piece, PLAYS[name])
        assert answer == {
            "decision": True,
            "context": {
                "evaluation_id": answer["context"]["evaluation_id"],
                "approval": {"id": set_piece.approval["id"], "approved_until": "2026-04-30T20:15:00Z"},
            },
        }


@pytest.mark.anyio
@pytest.mark.requirement("PDP-72", "PDP-54")
async def test_an_expired_approval_leads_to_a_fresh_offer(set_piece: Scene) -> None:
    answer = await played(set_piece, PLAYS["R8"])
    claims = claims_of(answer["context"]["access_request"]["binding_token"])
    before = claims_of(set_piece.approval["state"])
    assert claims["evaluation_id"] == answer["context"]["evaluation_id"] != before["evaluation_id"]
    assert claims["jti"] != before["jti"]
    assert "approval" not in claims["binding_context_members"]
    assert claims["binding_context_members"] == before["binding_context_members"]
    again = await pdp.submitted(set_piece.ctx, pdp.submission(question(), answer["context"]))
    assert again.status_code == 201


@pytest.mark.anyio
@pytest.mark.requirement("PDP-72")
async def test_who_may_not_request_is_told_none_instead(set_piece: Scene) -> None:
    set_piece.rules("{client: gate, may: 'subject.type == \"user\"'}", "{client: gate, may: 'false'}")
    answer = await played(set_piece, PLAYS["R8"])
    assert (answer["context"]["reason"], answer["context"]["next_action"]) == ("approval_expired", "none")
    assert "access_request" not in answer["context"]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-73")
async def test_a_pending_grant_says_when_to_come_back_and_clears(set_piece: Scene) -> None:
    asked = await not_provisioned(set_piece)
    answer = await evaluate(set_piece.ctx, GATE, asked)
    assert {name: answer["context"][name] for name in ("reason", "next_action", "retry_after")} == {
        "reason": "grant_pending",
        "next_action": "retry",
        "retry_after": 7,
    }
    set_piece.rules("{granted: false}", "{granted: true}")
    assert (await evaluate(set_piece.ctx, GATE, asked))["decision"] is True


@pytest.mark.anyio
@pytest.mark.requirement("PDP-07")
async def test_evaluating_consumes_nothing(scene: Scene) -> None:
    answers = [await played(scene, PLAYS["R1"]) for _ in range(5)]
    assert [answer["decision"] for answer in answers] == [True] * 5


@pytest.mark.anyio
@pytest.mark.requirement("PDP-77")
async def test_a_foreign_approval_and_a_random_one_look_alike(set_piece: Scene) -> None:
    foreign = await evaluate(set_piece.ctx, GATE, presenting(question(subject=BOB), {"id": set_piece.approval["id"]}))
    random = await evaluate(
        set_piece.ctx, GATE, presenting(question(subject=BOB), {"id": "apr_AAAAAAAAAAAAAAAAAAAAAA"})
    )
    for answer in (foreign, random):
        assert answer["context"].pop("evaluation_id").startswith("ev_")
    assert foreign == random


@pytest.mark.anyio
@pytest.mark.requirement("ARS-70")
async def test_another_client_cannot_use_the_approval(set_piece: Scene) -> None:
    other = replace(GATE, sub="other-gate", client_id="other-gate")
    answer = await evaluate(set_piece.ctx, other, presenting(question(), set_piece.approval))
    assert answer["context"]["reason"] == "out_of_scope"


@pytest.mark.anyio
@pytest.mark.requirement("ARS-67")
async def test_another_token_of_the_same_client_can(set_piece: Scene) -> None:
    renewed = replace(GATE, scopes=frozenset({"authzen:evaluate"}))
    assert (await evaluate(set_piece.ctx, renewed, presenting(question(), set_piece.approval)))["decision"] is True


@pytest.mark.anyio
@pytest.mark.requirement("PDP-74", "ARS-121")
async def test_revocation_is_told_as_expiry_and_its_detail_stays_in_the_audit(scene: Scene) -> None:
    answer = await played(scene, revoked)
    assert answer["context"]["reason"] == "approval_expired"
    assert "revoked" not in json.dumps(answer)
    entries = scene.ctx.database.read_now(
        lambda session: audit.entries_of(session, claims_of(scene.approval["state"])["task_id"])
    )
    assert json.loads(entries[-1].detail)["approval_status"] == "revoked"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-78", "ARS-123")
async def test_every_outcome_joins_the_chain_of_its_request(scene: Scene) -> None:
    state = claims_of(scene.approval["state"])
    with capture_logs() as logs:
        permit = await played(scene, PLAYS["R1"])
        refused = await played(scene, PLAYS["R22"])
    entries = scene.ctx.database.read_now(lambda session: audit.entries_of(session, state["task_id"]))
    outcomes = [json.loads(entry.detail) for entry in entries if entry.kind == "reevaluated"]
    assert [(each["evaluation_id"], each["decision"], each["finding"]) for each in outcomes] == [
        (permit["context"]["evaluation_id"], True, "applicable"),
        (refused["context"]["evaluation_id"], False, "out_of_scope"),
    ]
    assert all(each["policy_version"] == scene.ctx.policy.current().version for each in outcomes)
    assert isinstance(
        scene.ctx.database.read_now(lambda session: audit.verify_chain(session, state["task_id"])), audit.Verified
    )
    logged = [line for line in logs if line["event"] == "reevaluated"]
    assert [(line["task_id"], line["approval_id"], line["client_id"], line["decision"]) for line in logged] == [
        (state["task_id"], scene.approval["id"], "gate", True),
        (state["task_id"], scene.approval["id"], "gate", False),
    ]


@pytest.mark.anyio
async def test_a_record_that_was_tampered_with_is_no_approval(scene: Scene) -> None:
    name = claims_of(scene.approval["state"])["task_id"]

    def tamper(session: Any) -> None:
        task = session.get(Task, name)
        task.tuple_sealed = task.request_sealed
        session.add(task)

    scene.ctx.database.write_now(tamper)
    answer = await evaluate(scene.ctx, GATE, presenting(question(), scene.approval))
    assert (answer["decision"], answer["context"]["reason"]) == (False, "approval_unverifiable")


@pytest.mark.anyio
@pytest.mark.requirement("PDP-68")
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": None},
        {"iss": "https://unknown.example"},
        {"iss": IDENTIFIER},
        {"aud": ["https://other-pdp.example"]},
        {"aud": 5},
        {"subject": "alice"},
        {"iat": int(START.timestamp()) + 3600},
    ],
    ids=str,
)
async def test_a_state_with_a_faulty_claim_is_unverifiable(set_piece: Scene, changes: dict[str, Any]) -> None:
    answer = await evaluate(set_piece.ctx, GATE, presenting(question(), set_piece.forged(**changes)))
    assert (answer["decision"], answer["context"]["reason"]) == (False, "approval_unverifiable")


@pytest.mark.anyio
@pytest.mark.requirement("PDP-68")
async def test_a_state_signed_with_a_public_key_as_secret_is_unverifiable(set_piece: Scene) -> None:
    state = tokens.hmac_with_public_key(
        set_piece.signer(Use.APPROVAL), claims_of(set_piece.approval["state"]), typ=APPROVAL_TYP
    )
    answer = await evaluate(set_piece.ctx, GATE, presenting(question(), set_piece.edited(state=state)))
    assert answer["context"]["reason"] == "approval_unverifiable"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-65")
async def test_a_state_of_ours_without_a_record_is_unverifiable_in_shared_state(set_piece: Scene) -> None:
    state = set_piece.forged(approval_id="apr_gone")["state"]
    answer = await evaluate(set_piece.ctx, GATE, presenting(question(), {"id": "apr_gone", "state": state}))
    assert answer["context"]["reason"] == "approval_unverifiable"


def foreign_state(signer: ECKey, **changes: Any) -> dict[str, Any]:
    asked = question()
    members = ["agent", "arguments_hash", "server"]
    claims = {
        "iss": FOREIGN,
        "aud": [IDENTIFIER, "https://other.example"],
        "iat": int(START.timestamp()),
        "exp": int(START.timestamp()) + 3600,
        "jti": "s1",
        "approval_id": "apr_foreign",
        "task_id": "task_foreign",
        "subject": asked["subject"],
        "resource": asked["resource"],
        "action": asked["action"],
        "context": {name: asked["context"][name] for name in members},
        "binding_context_members": members,
        "client_id": "gate",
        "agent": "agent-A",
        **changes,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    return {"id": "apr_foreign", "state": tokens.signed(signer, claims, typ=APPROVAL_TYP)}


@pytest.mark.anyio
@pytest.mark.requirement("PDP-60", "PDP-66")
async def test_a_state_of_a_trusted_service_is_enough_for_a_short_time(
    shared: Context, clock: FakeClock, foreign_key: ECKey
) -> None:
    asked = presenting(question(), foreign_state(foreign_key))
    answer = await evaluate(shared, GATE, asked)
    assert answer["context"]["approval"] == {"id": "apr_foreign", "approved_until": "2026-04-30T20:15:00Z"}
    clock.advance(LATER)
    answer = await evaluate(shared, GATE, asked)
    assert (answer["context"]["reason"], answer["context"]["next_action"]) == ("approval_expired", "request")
    assert claims_of(answer["context"]["access_request"]["binding_token"])["reason"] == "approval_expired"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-69", "PDP-61")
async def test_a_foreign_state_must_say_for_what_and_for_whom(shared: Context, foreign_key: ECKey) -> None:
    for missing in ("subject", "resource", "action", "context", "client_id", "exp"):
        asked = presenting(question(), foreign_state(foreign_key, **{missing: None}))
        assert (await evaluate(shared, GATE, asked))["context"]["reason"] == "approval_unverifiable"
    asked = presenting(question("form_tool"), foreign_state(foreign_key))
    assert (await evaluate(shared, GATE, asked))["context"]["reason"] == "out_of_scope"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-33", "PDP-68")
async def test_a_foreign_key_signs_for_its_own_issuer_only(shared: Context, foreign_key: ECKey) -> None:
    asked = presenting(question(), foreign_state(foreign_key, iss=ENDPOINT))
    assert (await evaluate(shared, GATE, asked))["context"]["reason"] == "approval_unverifiable"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-66", "PDP-60")
async def test_an_independent_decision_point_goes_by_the_state_alone(set_piece: Scene) -> None:
    alone = replace(set_piece.ctx, settings=set_piece.ctx.settings.model_copy(update={"independent": True}))
    answer = await evaluate(alone, GATE, presenting(question(), set_piece.approval))
    assert answer["context"]["approval"]["id"] == set_piece.approval["id"]
    bare = await evaluate(alone, GATE, presenting(question(), {"id": set_piece.approval["id"]}))
    assert bare["context"]["reason"] == "approval_unverifiable"
