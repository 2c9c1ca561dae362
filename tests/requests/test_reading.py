"""The queue: order, pages, selections, and who sees what in it."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest

from arap_service import requests
from arap_service.domain.callers import Caller
from arap_service.domain.errors import Forbidden, InvalidRequest
from arap_service.requests import QueueFilter
from arap_service.views import QueueRow
from tests.requests.world import GATE, READER, RISK_ENGINE, World, machine, person, question

pytestmark = pytest.mark.anyio


async def listed(world: World, who: Caller, **wanted: Any) -> list[str]:
    """The ids of all pages."""
    return [row.id for row in await pages(world, who, **wanted)]


async def pages(world: World, who: Caller, **wanted: Any) -> list[QueueRow]:
    rows: list[QueueRow] = []
    cursor: str | None = None
    for _ in range(50):
        page = await requests.queue(world.ctx, who, QueueFilter(cursor=cursor, **wanted))
        assert len(page.items) <= wanted.get("limit", 50)
        rows += page.items
        cursor = page.next_cursor
        if cursor is None:
            return rows
    raise AssertionError("the pages have no end")


async def several(world: World, resources: Sequence[str]) -> list[str]:
    ids = []
    for resource in resources:
        ids.append(await world.pending(resource))
        world.clock.advance(1)
    return ids


async def test_row_says_what_a_reader_needs_to_choose(world: World) -> None:
    """One line: what will happen, how risky, who asks, until when, and whether it is his to decide."""
    task_id = await world.pending()
    (row,) = await pages(world, person("ann"))
    detail = await requests.detail(world.ctx, person("ann"), task_id)
    assert row == QueueRow(
        **{
            name: getattr(detail, name)
            for name in QueueRow.__slots__  # every column of the line is one of the page
        }
    )
    assert row.effect == "Sends 50000 to DE1"
    assert row.may_decide


@pytest.mark.requirement("ARS-126")
async def test_nobody_hides_or_imitates_by_the_name_that_his_token_has(world: World) -> None:
    """Not only what was asked deceives: who asks is a name that somebody chose as well."""
    sly = machine("gate", sub="p\u0430yroll\u202e", iss="https://idp.example")
    submitted = await world.submit(await world.body(caller=sly), caller=sly)
    shown = "https://idp.example|p⟦U+0430⟧yroll⟦U+202E⟧"
    (row,) = await pages(world, person("ann"))
    detail = await requests.detail(world.ctx, person("ann"), submitted.task["id"])
    assert (row.submitter, detail.submitter) == (shown, shown)
    assert not any("\u202e" in each.who or "\u0430" in each.who for each in detail.history)


async def test_mine_holds_exactly_what_i_may_decide(world: World) -> None:
    """Design section 6: neither what I asked for, nor where I have spoken, nor what others decide."""
    transfer, merge, payroll = await several(world, ["wire_transfer", "merge", "payroll"])
    assert await listed(world, person("ann"), mine=True) == [transfer, payroll]
    assert await listed(world, person("lea"), mine=True) == [merge]
    assert await listed(world, person("carl"), mine=True) == [payroll]
    assert await listed(world, person("alice"), mine=True) == []  # in every group, and the subject of all
    assert await listed(world, RISK_ENGINE, mine=True) == [transfer]
    assert await listed(world, READER, mine=True) == []
    await world.decide(payroll, "ann", reason="ok")
    assert await listed(world, person("ann"), mine=True) == [transfer]
    await world.decide(transfer, "bob")
    assert await listed(world, person("ann"), mine=True) == []


async def test_reader_sees_all_and_resolver_what_concerns_him(world: World) -> None:
    """`approval:read` sees every request; without it, those in which a step names the caller, ended ones too."""
    transfer, merge = await several(world, ["wire_transfer", "merge"])
    assert sorted(await listed(world, READER)) == sorted([transfer, merge])
    assert await listed(world, RISK_ENGINE) == [transfer]
    await world.decide(transfer)
    assert await listed(world, RISK_ENGINE) == [transfer]
    with pytest.raises(Forbidden):
        await requests.queue(world.ctx, GATE, QueueFilter())


async def test_pending_come_by_deadline_and_all_by_age(world: World) -> None:
    """Oldest deadline first for work, newest first for looking back."""
    ids = await several(world, ["wire_transfer"] * 5)
    assert await listed(world, READER, status="pending", limit=2) == ids
    assert await listed(world, READER, limit=2) == ids[::-1]


async def test_what_has_less_time_comes_first_although_it_was_asked_later(terms: World) -> None:
    slow = await terms.pending("plain")
    terms.clock.advance(1)
    urgent = {"emergency": True, "business_justification": "The vault is on fire."}
    submitted = await terms.submit(await terms.body(question("unlock"), requested_access=urgent))
    assert await listed(terms, READER, status="pending", limit=1) == [submitted.task["id"], slow]


async def test_pages_skip_what_is_not_mine_without_losing_what_is(world: World) -> None:
    """A page of `mine` is full although others' requests lie between."""
    ids = await several(world, ["wire_transfer", "payroll"] * 6)
    for task_id in ids[1::2]:
        await world.decide(task_id, "ann", reason="ok")
    assert await listed(world, person("ann"), mine=True, limit=3) == ids[::2]


async def test_selections_narrow_the_list(world: World) -> None:
    """By status, template, subject and beginnings of words; text is text, not a pattern."""
    transfer, merge = await several(world, ["wire_transfer", "merge"])
    other = await world.submit(await world.body(question(subject="carol_100%", agent="Robo")))
    await world.decide(transfer, decision="deny")
    other_id = other.task["id"]
    for wanted, ids in (
        ({"status": "denied"}, [transfer]),
        ({"status": "approved"}, []),
        ({"template": "board"}, [merge]),
        ({"subject": "carol_100%"}, [other_id]),
        ({"q": "MERGE"}, [merge]),
        ({"q": "robo"}, [other_id]),
        ({"q": "carol_1"}, [other_id]),
        ({"q": "1 CAR"}, [other_id]),
        ({"q": "arol"}, []),
        ({"q": "%"}, []),
        ({"q": "carol*"}, [other_id]),
        ({"q": '" OR "'}, []),
        ({"q": merge}, [merge]),
        ({"q": "nowhere"}, []),
        ({"q": "alice", "status": "pending"}, [merge]),
    ):
        assert await listed(world, READER, **wanted) == ids, wanted


async def test_ended_requests_leave_the_list_with_their_retention(world: World) -> None:
    """What is no longer kept is not listed, whether or not it has been removed yet."""
    task_id = await world.pending()
    await world.decide(task_id)
    world.clock.advance(2 * 86400 - 1)
    assert await listed(world, READER) == [task_id]
    world.clock.advance(1)
    assert await listed(world, READER) == []


async def test_overdue_request_is_nobodys(world: World) -> None:
    """From the deadline on nobody may decide, sweeper or not."""
    task_id = await world.pending()
    world.clock.advance(86400)
    assert await listed(world, person("ann"), mine=True) == []
    (row,) = await pages(world, person("ann"))
    assert (row.id, row.may_decide, row.why_not) == (task_id, False, "deadline_passed")


def cursor(text: str) -> str:
    """A cursor that says `text`, whatever that is."""
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "wanted",
    [
        {"status": "maybe"},
        {"limit": 0},
        {"limit": 201},
        {"q": "x" * 201},
        {"q": "\x00"},
        {"subject": "\x00"},
        {"template": "x" * 201},
        {"cursor": "nonsense"},
        {"cursor": "é"},
        {"cursor": ""},
        {"cursor": "WyJkIiwgMSwgMl0"},
        {"cursor": "bnVsbA"},
        {"cursor": cursor('["d", "2026-04-30T20:00:00Z", "\\ud800"]')},
        {"cursor": cursor('["d", "2026-04-30T20:00:00Z", "\\u0000"]')},
        {"cursor": cursor('["d", "2026-04-30T20:00:00Z", 7]')},
        {"cursor": cursor('["d", "9999-99-99T20:00:00Z", "task"]')},
        {"cursor": cursor('["d", NaN, "task"]')},
        {"cursor": cursor('{"d": 1, "2026-04-30T20:00:00Z": 2, "task": 3}')},
        {"cursor": cursor("[" * 700)},
        {"q": "\ud800"},
        {"subject": "\ud800"},
    ],
)
async def test_malformed_selection_is_refused(world: World, wanted: dict[str, Any]) -> None:
    """Bad input is a documented error."""
    with pytest.raises(InvalidRequest):
        await requests.queue(world.ctx, READER, QueueFilter(**{"status": "pending", **wanted}))


async def test_cursor_belongs_to_its_order(world: World) -> None:
    """A cursor of the list by deadline means nothing in the list by age."""
    await several(world, ["wire_transfer"] * 2)
    page = await requests.queue(world.ctx, READER, QueueFilter(status="pending", limit=1))
    assert page.next_cursor is not None
    with pytest.raises(InvalidRequest):
        await requests.queue(world.ctx, READER, QueueFilter(limit=1, cursor=page.next_cursor))


async def test_caller_who_is_nobody_sees_nothing(world: World) -> None:
    """A resolver that no step names."""
    await world.pending()
    assert await listed(world, machine("second-engine", "approval:resolve")) == []
