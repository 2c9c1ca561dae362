"""Searches of a service behind another decision point: the other searches, or the answer says that nobody can."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arap_service.context import Context
from arap_service.domain.errors import InvalidRequest, SearchUnsupported, UpstreamFailed
from arap_service.search import search_actions, search_resources, search_subjects
from arap_service.store import migrate
from tests.clock import FakeClock
from tests.databases import Databases
from tests.foreign.decision_point import ForeignDecisionPoint
from tests.foreign.world import behind
from tests.pdp import GATE
from tests.service import app_for, bearer, client, http

pytestmark = pytest.mark.anyio
PEOPLE = [{"type": "user", "id": name} for name in ("alice@example.com", "bob", "mallory")]
SUBJECTS = {"subject": {"type": "user"}, "resource": {"type": "tool", "id": "x"}, "action": {"name": "tools/call"}}


@pytest.fixture
def other() -> ForeignDecisionPoint:
    return ForeignDecisionPoint(searches={"subject": PEOPLE, "action": [{"name": "read"}]})


@pytest.fixture
async def ctx(
    other: ForeignDecisionPoint, databases: Databases, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[Context]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    issuer = {"enabled": True, "clients": [client("searcher", "authzen:search")]}
    async with behind(other, tmp_path, database=url, clock=clock, builtin_issuer=issuer) as context:
        yield context


@pytest.mark.requirement("PDP-70")
async def test_what_the_other_finds_is_passed_on_without_what_our_rules_deny(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    found = await search_subjects(ctx, GATE, SUBJECTS)
    assert found == {"page": {"next_token": "", "count": 2}, "results": PEOPLE[:2]}
    assert other.asked == [SUBJECTS]
    asked = {"subject": PEOPLE[0], "resource": {"type": "tool", "id": "x"}}
    assert (await search_actions(ctx, GATE, asked))["results"] == [{"name": "read"}]


async def test_pages_go_on_where_the_other_says_under_tokens_of_ours(ctx: Context, other: ForeignDecisionPoint) -> None:
    first = await search_subjects(ctx, GATE, {**SUBJECTS, "page": {"limit": 1}})
    token = first["page"]["next_token"]
    assert (first["results"], len(token) > 20) == (PEOPLE[:1], True)
    second = await search_subjects(ctx, GATE, {**SUBJECTS, "page": {"token": token}})
    assert second["results"] == PEOPLE[1:2]
    assert other.asked[1]["page"] == {"token": "1", "limit": 1}
    with pytest.raises(InvalidRequest):
        await search_subjects(ctx, GATE, {**SUBJECTS, "page": {"token": "1"}})


async def test_a_search_that_the_other_does_not_offer_is_501_and_one_without_an_answer_503(
    ctx: Context, other: ForeignDecisionPoint
) -> None:
    asked = {"subject": PEOPLE[0], "resource": {"type": "tool"}, "action": {"name": "read"}}
    with pytest.raises(SearchUnsupported):
        await search_resources(ctx, GATE, asked)
    async with http(app_for(ctx), headers=bearer(ctx, "searcher")) as caller:
        answer = await caller.post("/access/v1/search/resource", json=asked)
        assert (answer.status_code, answer.headers["content-type"]) == (501, "text/plain; charset=utf-8")
        other.script = lambda _: httpx2.Response(500)
        answer = await caller.post("/access/v1/search/subject", json=SUBJECTS)
        assert answer.status_code == 503


BAD: list[Any] = [
    [],
    {"results": {}},
    {"results": [{"type": "user"}]},
    {"results": ["alice"]},
    {"results": [], "page": []},
    {"results": [], "page": {"next_token": 7}},
]


@pytest.mark.parametrize("said", BAD)
async def test_a_page_that_is_none_is_503(ctx: Context, other: ForeignDecisionPoint, said: Any) -> None:
    other.script = lambda request: httpx2.Response(200, json=said) if "/find/" in str(request.url) else None
    with pytest.raises(UpstreamFailed) as failed:
        await search_subjects(ctx, GATE, SUBJECTS)
    assert (failed.value.status, failed.value.headers["Retry-After"]) == (503, "1")
