"""Searches by the use case: AuthZEN "Search APIs", the rules of this service for candidates and pages."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from arap_service import search
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidRequest, RateLimited
from arap_service.evaluation import evaluate
from arap_service.search import search_actions, search_resources, search_subjects
from arap_service.store import migrate
from tests.clock import FakeClock
from tests.databases import Databases
from tests.pdp import GATE, change_rules
from tests.service import service_context, settings_for

Search = Callable[[Context, Caller, dict[str, Any]], Awaitable[dict[str, Any]]]
POLICY = """
version: 1
entities:
  user:
    erin: {team: red}
    carol: {team: blue}
    dave: {team: red, suspended: true}
    alice: {team: red}
    bob: {}
  file:
    plan: {owner: alice, team: red}
    budget: {owner: bob, team: blue}
    minutes: {}
    vault: {closed: true}
  folder: {}
actions:
  file: [share, read, append, destroy]
  user: [impersonate]
clients:
  - {client: gate, may: 'true'}
rules:
  - {id: suspended, when: 'subject_entity.?suspended.orValue(false) == true', deny: subject_suspended}
  - {id: closed, when: 'resource_entity.?closed.orValue(false) == true', deny: closed}
  - {id: appending, when: 'action.name == "append"', deny: nobody_appends}
  - {id: owners, when: 'resource_entity.?owner.orValue("nobody") == subject.id', permit: true}
  - id: teams
    when: >-
      action.name == "read" && resource_entity.?team.orValue("") != ""
      && subject.?properties.?team.orValue(subject_entity.?team.orValue("")) == resource_entity.team
    permit: true
  - {id: at-night, when: 'context.?night.orValue(false) == true && client == "gate"', permit: true}
  - {id: sharing, when: 'action.name == "share"', request: share}
  - {id: faulty, when: 'resource_entity.missing == 1', permit: true}
templates:
  share: {title: Share, explanation: Others will see it., steps: [{id: one, title: One, groups: [reviewers]}]}
"""
READ = {"name": "read"}
PLAN = {"type": "file", "id": "plan"}
ALICE = {"type": "user", "id": "alice"}
WHO = {"subject": {"type": "user"}, "action": READ, "resource": PLAN}
WHAT = {"subject": ALICE, "action": READ, "resource": {"type": "file"}}
HOW = {"subject": ALICE, "resource": PLAN}


@pytest.fixture
async def ctx(databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    limits = {"evaluations_per_minute": 200}
    settings = settings_for(tmp_path, database=url, policy=POLICY, limits=limits)
    async with service_context(settings, clock=clock) as opened:
        yield opened


def found(answer: dict[str, Any]) -> list[str]:
    return [each.get("id", each.get("name")) for each in answer["results"]]


async def all_pages(ctx: Context, find: Search, asked: dict[str, Any]) -> list[list[str]]:
    """The results of every page; a page beyond the tenth would be one too many."""
    answer = await find(ctx, GATE, asked)
    pages = [found(answer)]
    while answer["page"]["next_token"]:
        assert len(pages) < 10
        answer = await find(ctx, GATE, {**asked, "page": {"token": answer["page"]["next_token"]}})
        pages.append(found(answer))
    return pages


@pytest.mark.anyio
@pytest.mark.requirement("PDP-25")
async def test_each_search_returns_who_what_and_how_and_nothing_else(ctx: Context) -> None:
    assert await search_subjects(ctx, GATE, WHO) == {
        "page": {"next_token": "", "count": 2},
        "results": [{"type": "user", "id": "alice"}, {"type": "user", "id": "erin"}],
    }
    assert await search_resources(ctx, GATE, WHAT) == {
        "page": {"next_token": "", "count": 1},
        "results": [{"type": "file", "id": "plan"}],
    }
    assert await search_actions(ctx, GATE, HOW) == {
        "page": {"next_token": "", "count": 3},
        "results": [{"name": "destroy"}, {"name": "read"}, {"name": "share"}],
    }


@pytest.mark.anyio
@pytest.mark.requirement("PDP-25")
@pytest.mark.parametrize("context", [{}, {"night": True}], ids=["day", "night"])
@pytest.mark.parametrize(
    ("find", "asked", "part"),
    [(search_subjects, WHO, "subject"), (search_resources, WHAT, "resource"), (search_actions, HOW, "action")],
)
async def test_a_search_finds_exactly_what_evaluations_permit(
    ctx: Context, find: Search, asked: dict[str, Any], part: str, context: dict[str, Any]
) -> None:
    """Section "Semantics": a result that is evaluated should be permitted; here nothing permitted is left out."""
    policy = ctx.policy.current()
    candidates = {
        "subject": [{"type": "user", "id": name} for name in policy.entities["user"]],
        "resource": [{"type": "file", "id": name} for name in policy.entities["file"]],
        "action": [{"name": name} for name in policy.actions["file"]],
    }[part]
    asked = {**asked, "context": context}
    permitted = [
        candidate for candidate in candidates if (await evaluate(ctx, GATE, {**asked, part: candidate}))["decision"]
    ]
    results = (await find(ctx, GATE, asked))["results"]
    assert sorted(map(str, results)) == sorted(map(str, permitted))
    assert len(permitted) < len(candidates)


@pytest.mark.anyio
async def test_what_needs_an_approval_is_not_found_whatever_approval_is_shown(ctx: Context) -> None:
    """Bob is not the owner, and sharing is requestable for him."""
    asked = {"subject": {"type": "user", "id": "bob"}, "resource": PLAN, "context": {"approval": {"id": "approval_x"}}}
    assert found(await search_actions(ctx, GATE, asked)) == []


@pytest.mark.anyio
@pytest.mark.requirement("PDP-25")
async def test_id_and_properties_of_what_is_searched_for_are_ignored(ctx: Context) -> None:
    """Properties that were taken for everybody's would find subjects whom no evaluation permits."""
    for more in ({"id": "bob"}, {"id": 7}, {"properties": {"team": "red"}}, {"properties": "text"}):
        assert await search_subjects(ctx, GATE, {**WHO, "subject": {"type": "user", **more}}) == (
            await search_subjects(ctx, GATE, WHO)
        )
        assert await search_resources(ctx, GATE, {**WHAT, "resource": {"type": "file", **more}}) == (
            await search_resources(ctx, GATE, WHAT)
        )
    assert await search_actions(ctx, GATE, {**HOW, "action": 7}) == await search_actions(ctx, GATE, HOW)


@pytest.mark.anyio
async def test_properties_of_the_given_entities_and_the_asking_client_count(ctx: Context) -> None:
    blue = {"type": "user", "id": "alice", "properties": {"team": "blue"}}
    assert found(await search_resources(ctx, GATE, {**WHAT, "subject": blue})) == ["budget", "plan"]
    night = {**WHAT, "context": {"night": True}}
    assert found(await search_resources(ctx, GATE, night)) == ["budget", "minutes", "plan"]
    assert found(await search_resources(ctx, replace(GATE, client_id="other"), night)) == ["plan"]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-25")
@pytest.mark.parametrize(
    ("find", "asked"),
    [
        (search_subjects, {**WHO, "subject": {"type": "spaceship"}}),
        (search_subjects, {**WHO, "resource": {"type": "file", "id": "unknown"}}),
        (search_resources, {**WHAT, "resource": {"type": "spaceship"}}),
        (search_resources, {**WHAT, "resource": {"type": "folder"}}),
        (search_resources, {**WHAT, "subject": {"type": "user", "id": "unknown"}}),
        (search_actions, {**HOW, "resource": {"type": "spaceship", "id": "plan"}}),
        (search_actions, {**HOW, "subject": {"type": "user", "id": "unknown"}}),
    ],
)
async def test_what_is_unknown_finds_nothing(ctx: Context, find: Search, asked: dict[str, Any]) -> None:
    assert await find(ctx, GATE, asked) == {"page": {"next_token": "", "count": 0}, "results": []}


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
@pytest.mark.requirement("PDP-25")
async def test_pages_hold_everything_once_in_one_order(ctx: Context, limit: int) -> None:
    asked = {"subject": {"type": "user"}, "action": READ, "resource": PLAN, "context": {"night": True}}
    pages = await all_pages(ctx, search_subjects, {**asked, "page": {"limit": limit}})
    expected = ["alice", "bob", "carol", "erin"]
    assert pages == [expected[start : start + limit] for start in range(0, len(expected), limit)]


@pytest.mark.anyio
async def test_a_limit_of_nothing_returns_nothing_and_says_whether_there_is_something(ctx: Context) -> None:
    answer = await search_subjects(ctx, GATE, {**WHO, "page": {"limit": 0}})
    assert (answer["results"], answer["page"]["count"]) == ([], 0)
    assert answer["page"]["next_token"]
    following: dict[str, Any] = {**WHO, "page": {"token": answer["page"]["next_token"]}}
    assert await search_subjects(ctx, GATE, following) == await search_subjects(ctx, GATE, WHO)
    following["page"]["limit"] = 0
    with pytest.raises(InvalidRequest):  # or whoever goes over all pages would never come to an end
        await search_subjects(ctx, GATE, following)
    unknown = {**WHO, "subject": {"type": "spaceship"}, "page": {"limit": 0}}
    assert (await search_subjects(ctx, GATE, unknown))["page"]["next_token"] == ""


@pytest.mark.anyio
@pytest.mark.requirement("PDP-25")
async def test_a_page_token_is_good_for_its_search_and_caller_alone(ctx: Context) -> None:
    """Section "Paginated Requests": only the token may change; the example there leaves the limit out."""
    first = {**WHO, "page": {"limit": 1, "properties": {"sort": "id"}}}
    token = (await search_subjects(ctx, GATE, first))["page"]["next_token"]
    page = {"token": token, "properties": {"sort": "id"}}
    assert found(await search_subjects(ctx, GATE, {**WHO, "page": page})) == ["erin"]
    assert found(await search_subjects(ctx, GATE, {**WHO, "page": {**page, "limit": 1}})) == ["erin"]
    changed: list[dict[str, Any]] = [
        {**WHO, "page": {**page, "limit": 2}},
        {**WHO, "page": {"token": token}},
        {**WHO, "page": {**page, "properties": {"sort": "name"}}},
        {**WHO, "page": {**page, "token": token[:-2]}},
        {**WHO, "page": {**page, "token": "é"}},
        {**WHO, "page": page, "subject": {"type": "file"}},
        {**WHO, "page": page, "action": {"name": "share"}},
        {**WHO, "page": page, "resource": {**PLAN, "properties": {}}},
        {**WHO, "page": page, "context": {"night": True}},
    ]
    for request in changed:
        with pytest.raises(InvalidRequest):
            await search_subjects(ctx, GATE, request)
    with pytest.raises(InvalidRequest):
        await search_subjects(ctx, replace(GATE, sub="somebody-else"), {**WHO, "page": page})
    with pytest.raises(InvalidRequest):
        await search_resources(ctx, GATE, {**WHO, "resource": PLAN, "subject": ALICE, "page": page})


@pytest.mark.anyio
async def test_a_page_continues_under_changed_rules_without_repeating_anything(ctx: Context) -> None:
    token = (await search_subjects(ctx, GATE, {**WHO, "page": {"limit": 1}}))["page"]["next_token"]
    change_rules(ctx, ctx.settings.policy_path, "erin: {team: red}", "aaron: {team: red}\n    zoe: {team: red}")
    assert found(await search_subjects(ctx, GATE, {**WHO, "page": {"token": token}})) == ["zoe"]


@pytest.mark.anyio
async def test_a_page_judges_so_many_candidates_and_hides_whom_it_rejected(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_JUDGED", 2)
    assert await all_pages(ctx, search_subjects, WHO) == [["alice"], [], ["erin"]]
    tokens = [(await search_subjects(ctx, GATE, WHO))["page"]["next_token"] for _ in range(2)]
    assert tokens[0] != tokens[1]
    assert "bob" not in tokens[0]


@pytest.mark.anyio
async def test_a_page_is_never_longer_than_the_service_allows(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_RESULTS", 1)
    for page in ({}, {"page": {"limit": 50}}):
        assert await all_pages(ctx, search_subjects, {**WHO, **page}) == [["alice"], ["erin"]]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-13")
async def test_candidates_count_as_evaluations_and_a_page_ends_where_the_rate_does(
    ctx: Context, clock: FakeClock
) -> None:
    """A search is one evaluation and one more for each of the five candidates: 196 and 4 are left of 200."""
    for _ in range(32):
        await search_subjects(ctx, GATE, WHO)
    await search_resources(ctx, GATE, WHAT)
    answer = await search_subjects(ctx, GATE, WHO)
    assert found(answer) == ["alice"]
    assert answer["page"]["next_token"]
    with pytest.raises(RateLimited):
        await search_actions(ctx, GATE, HOW)
    assert found(await search_subjects(ctx, replace(GATE, sub="somebody-else"), WHO)) == ["alice", "erin"]
    clock.advance(60)
    rest = await search_subjects(ctx, GATE, {**WHO, "page": {"token": answer["page"]["next_token"]}})
    assert found(rest) == ["erin"]


@pytest.mark.anyio
async def test_a_long_search_lets_others_in(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BREATH", 2)
    order: list[str] = []

    async def long() -> None:
        order.append("begun")
        await search_subjects(ctx, GATE, WHO)
        order.append("ended")

    async def other() -> None:
        order.append("other")

    async with anyio.create_task_group() as group:
        group.start_soon(long)
        group.start_soon(other)
    assert order == ["begun", "other", "ended"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("find", "asked", "optional"),
    [(search_subjects, WHO, "context"), (search_resources, WHAT, "context"), (search_actions, HOW, "page")],
)
@pytest.mark.requirement("PDP-14", "PDP-25")
async def test_what_has_not_the_shape_of_a_search_is_refused(
    ctx: Context, find: Search, asked: dict[str, Any], optional: str
) -> None:
    faulty: list[dict[str, Any]] = [{name: value for name, value in asked.items() if name != left} for left in asked]
    wrong: tuple[Any, ...] = (None, "text", [])
    faulty += [{**asked, name: value} for name in asked for value in (*wrong, {})]
    faulty += [{**asked, optional: value} for value in wrong]
    faulty += [{**asked, "page": page} for page in ({"limit": -1}, {"limit": "1"}, {"limit": 1.5}, {"token": 1})]
    faulty += [{**asked, "context": {"n": 2**53}}]
    for request in faulty:
        with pytest.raises(InvalidRequest):
            await find(ctx, GATE, request)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-14")
async def test_numbers_that_an_evaluation_refuses_are_refused_here(ctx: Context) -> None:
    large = {"properties": {"n": 2**53}}
    refused: list[tuple[Search, dict[str, Any]]] = [
        (search_subjects, {**WHO, "resource": {**PLAN, **large}}),
        (search_subjects, {**WHO, "action": {**READ, **large}}),
        (search_resources, {**WHAT, "subject": {**ALICE, **large}}),
        (search_actions, {**HOW, "resource": {**PLAN, **large}}),
    ]
    for find, asked in refused:
        with pytest.raises(InvalidRequest):
            await find(ctx, GATE, asked)
    assert found(await search_subjects(ctx, GATE, {**WHO, "subject": {"type": "user", **large}})) == ["alice", "erin"]
