"""Independent mode: each half trusts the other by identifier and key set alone, also while keys are replaced."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from arap_service.context import Context
from arap_service.domain.errors import InvalidDenialBinding
from arap_service.evaluation import evaluate
from arap_service.keys import Use, rotate
from arap_service.store import migrate
from tests.clock import FakeClock
from tests.databases import Databases
from tests.foreign.halves import ForeignArapDecisionPoint, ForeignRequestService, Signer
from tests.pdp import GATE, POLICY, claims_of, denied, presenting, question, submission, submitted
from tests.service import IDENTIFIER, service_context, settings_for

pytestmark = pytest.mark.anyio

PDP = "https://pdp.elsewhere.example"
ARS = "https://requests.elsewhere.example"
OURS = f"{IDENTIFIER}/access/v1/request"
STEP = 120
HOURS = range(0, 7200, STEP)


@dataclass
class KeySets:
    """Key sets by address; `seen` is how somebody else caches ours: for ten minutes, whatever happens."""

    clock: FakeClock
    sources: dict[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    kept: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)

    async def fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        return json.dumps(self.sources[url]()).encode()

    def seen(self, url: str) -> dict[str, Any]:
        now = self.clock().timestamp()
        if url not in self.kept or now - self.kept[url][0] >= 600:
            self.kept[url] = (now, self.sources[url]())
        return self.kept[url][1]


@dataclass
class Halves:
    """Our service with both foreign halves beside it; which of them is in use is for the test to say."""

    ctx: Context
    pdp: ForeignArapDecisionPoint
    ars: ForeignRequestService
    sets: KeySets

    async def decided_there(self) -> bool:
        """Denied by the foreign decision point, approved here, permitted there."""
        denial = self.pdp.denial(question())
        made = await submitted(self.ctx, submission(question(), denial))
        assert made.result is not None
        return bool(self.pdp.decide(presenting(question(), made.result["approval"]))["decision"])

    async def requested_there(self) -> bool:
        """Denied here, approved by the foreign service, permitted here."""
        known = set(self.ars.tasks)
        answer = self.ars.submit(submission(question(), await denied(self.ctx, question())))
        assert answer.status_code == 202, answer.text
        (task_id,) = set(self.ars.tasks) - known
        return bool((await evaluate(self.ctx, GATE, presenting(question(), self.ars.approve(task_id))))["decision"])


@asynccontextmanager
async def halves(folder: Path, clock: FakeClock, database: str, **changes: Any) -> AsyncIterator[Halves]:
    sets = KeySets(clock)
    pdp = ForeignArapDecisionPoint(
        PDP, OURS, {"wire_transfer": "request"}, (OURS, f"{IDENTIFIER}/jwks.json"), sets.seen, now=clock
    )
    ars = ForeignRequestService(ARS, (IDENTIFIER, f"{IDENTIFIER}/jwks.json"), sets.seen, now=clock)
    sets.sources |= {f"{PDP}/keys": pdp.signer.jwks, f"{ARS}/keys": ars.signer.jwks}
    settings = settings_for(
        folder,
        database=database,
        policy=POLICY,
        independent=True,
        trusted_pdps=[{"issuer": PDP, "jwks_uri": f"{PDP}/keys"}],
        trusted_services=[{"issuer": ARS, "jwks_uri": f"{ARS}/keys"}],
        **changes,
    )
    async with service_context(settings, clock=clock, fetch=sets.fetch) as context:
        sets.sources[f"{IDENTIFIER}/jwks.json"] = context.keys.jwks
        yield Halves(context, pdp, ars, sets)


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """What is proved here does not depend on the engine."""
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    yield url
    databases.drop(url)


@pytest.fixture
async def ours_requests(database: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Halves]:
    """We are the request service of a foreign decision point."""
    async with halves(tmp_path, clock, database) as made:
        yield made


@pytest.fixture
async def ours_decides(database: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Halves]:
    """We are the decision point of a foreign request service."""
    async with halves(tmp_path, clock, database, request_endpoint=f"{ARS}/requests") as made:
        yield made


@pytest.mark.requirement("ARS-16", "ARS-17", "ARS-61", "PDP-68", "PDP-69")
async def test_a_foreign_denial_becomes_an_approval_that_its_decision_point_verifies_by_itself(
    ours_requests: Halves,
) -> None:
    assert await ours_requests.decided_there()
    (claims,) = ours_requests.pdp.reevaluations
    assert (claims["iss"], claims["aud"], claims["client_id"]) == (OURS, PDP, "gate")
    assert f"{PDP}/keys" in ours_requests.sets.fetched


@pytest.mark.requirement("ARS-15")
async def test_the_id_of_a_foreign_denial_alone_proves_nothing(ours_requests: Halves) -> None:
    body = submission(question(), ours_requests.pdp.denial(question()))
    del body["denial"]["binding_token"]
    with pytest.raises(InvalidDenialBinding):
        await submitted(ours_requests.ctx, body)


@pytest.mark.requirement("ARS-17", "PDP-33")
async def test_a_denial_that_somebody_else_has_signed_is_refused(ours_requests: Halves) -> None:
    pdp = ours_requests.pdp
    good = submission(question(), pdp.denial(question()))
    signed_by_service = good["denial"]["binding_token"]
    pdp.signer = ours_requests.ars.signer
    forged = submission(question(), pdp.denial(question()))
    pdp.identifier = "https://stranger.example"
    unknown = submission(question(), pdp.denial(question()))
    pdp.identifier, pdp.request_endpoint = PDP, f"{ARS}/requests"
    for_another = submission(question(), pdp.denial(question()))
    for body in (forged, unknown, for_another):
        assert body["denial"]["binding_token"] != signed_by_service
        with pytest.raises(InvalidDenialBinding):
            await submitted(ours_requests.ctx, body)
    assert (await submitted(ours_requests.ctx, good)).status_code == 201


@pytest.mark.requirement("PDP-29", "PDP-40", "PDP-60", "PDP-68")
async def test_our_denial_becomes_a_foreign_approval_that_we_verify_by_ourselves(ours_decides: Halves) -> None:
    context = await denied(ours_decides.ctx, question())
    assert context["access_request"]["endpoint"] == f"{ARS}/requests"
    assert await ours_decides.requested_there()
    assert f"{ARS}/keys" in ours_decides.sets.fetched


@pytest.mark.requirement("PDP-61", "PDP-68", "PDP-69")
@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://stranger.example"},
        {"aud": "https://other.example"},
        {"exp": 1},
        {"approval_id": "another"},
        {"client_id": "other-gate"},
        {"client_id": None},
        {"subject": {"type": "user", "id": "bob"}},
        {"subject": None, "resource": None, "action": None, "context": None},
    ],
)
async def test_a_foreign_approval_that_says_something_else_is_worth_nothing(
    ours_decides: Halves, change: dict[str, Any]
) -> None:
    ars = ours_decides.ars
    ars.submit(submission(question(), await denied(ours_decides.ctx, question())))
    approval = ars.approve(next(iter(ars.tasks)))
    body = claims_of(approval["state"])
    claims = {name: value for name, value in {**body, **change}.items() if value is not None}
    bad = {**approval, "state": ars.signer.sign(claims, typ="arap-approval-state+jwt")}
    assert (await evaluate(ours_decides.ctx, GATE, presenting(question(), bad)))["decision"] is False
    assert (await evaluate(ours_decides.ctx, GATE, presenting(question(), approval)))["decision"] is True


async def _replaced(signer: Signer, clock: FakeClock, *, accepted: Callable[[], Awaitable[bool]]) -> None:
    """Announce a new key, sign with it, withdraw the old one; at no time is anything refused."""
    old, new = signer.current, ""
    for second in HOURS:
        if second == 1800:
            new = signer.announce()
        if second == 2520:
            signer.current = new
        if second == 3600:
            signer.published.remove(old)
        assert await accepted(), second
        clock.advance(STEP)


@pytest.mark.requirement("PDP-34", "PDP-35")
async def test_a_foreign_decision_point_replaces_its_key_and_no_request_is_refused(
    ours_requests: Halves, clock: FakeClock
) -> None:
    await _replaced(ours_requests.pdp.signer, clock, accepted=ours_requests.decided_there)
    assert ours_requests.sets.fetched.count(f"{PDP}/keys") <= 13


@pytest.mark.requirement("PDP-34", "PDP-35")
async def test_a_foreign_service_replaces_its_key_and_no_approval_is_refused(
    ours_decides: Halves, clock: FakeClock
) -> None:
    await _replaced(ours_decides.ars.signer, clock, accepted=ours_decides.requested_there)


@pytest.mark.requirement("PDP-34")
@pytest.mark.parametrize("use", [Use.BINDING, Use.APPROVAL])
async def test_our_keys_are_replaced_and_nobody_elsewhere_refuses_anything(
    ours_requests: Halves, ours_decides: Halves, clock: FakeClock, use: Use
) -> None:
    signed: set[str] = set()
    for second in HOURS:
        if second == 1800:
            await rotate(ours_requests.ctx.database, ours_requests.ctx.ring, use=use, now=clock())
            for half in (ours_requests, ours_decides):  # two instances on one database
                await half.ctx.keys.reload(half.ctx.database, half.ctx.ring)
        assert await ours_requests.decided_there(), second
        assert await ours_decides.requested_there(), second
        signed |= {half.ctx.keys._current(use).kid for half in (ours_requests, ours_decides)}
        clock.advance(STEP)
    assert ours_decides.ars.refused == 0
    assert len(signed) == 2


@pytest.mark.requirement("PDP-35")
async def test_a_key_that_nobody_announced_is_fetched_once_when_it_is_met(
    ours_requests: Halves, clock: FakeClock
) -> None:
    assert await ours_requests.decided_there()
    clock.advance(STEP)
    ours_requests.pdp.signer.current = ours_requests.pdp.signer.announce()
    before = ours_requests.sets.fetched.count(f"{PDP}/keys")
    for _ in range(3):
        assert await ours_requests.decided_there()
    assert ours_requests.sets.fetched.count(f"{PDP}/keys") == before + 1
