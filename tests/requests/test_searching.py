"""Finding requests by words: on both engines alike, few or many, and no longer once they are gone."""

import pytest
from sqlmodel import Session, select

from arap_service import requests, workers
from arap_service.domain.searching import fits, wanted_words, words_of
from arap_service.requests import QueueFilter
from arap_service.store import queueing
from arap_service.store.search_tables import TaskSearch
from tests.requests.world import READER, World, question

pytestmark = pytest.mark.anyio


async def found(world: World, q: str, **wanted: object) -> list[str]:
    page = await requests.queue(world.ctx, READER, QueueFilter(q=q, **wanted))  # type: ignore[arg-type]
    return [row.id for row in page.items]


async def asked(world: World, **changes: object) -> str:
    submitted = await world.submit(await world.body(question(**changes)))  # type: ignore[arg-type]
    return str(submitted.task["id"])


async def test_words_are_found_by_their_beginnings_without_case_and_in_any_script(world: World) -> None:
    one = await asked(world, subject="Müller-Lüdenscheidt", agent="планировщик", server="bank")
    for q, hit in (
        ("müll", True), ("MÜLLER lüd", True), ("план", True), ("wire_tr", True), ("bank wire müller", True),
        ("mull", False), ("idenscheidt", False), ("müller bernd", False),
        (one, True), (one[:12], True), (one[5:], False),
    ):  # fmt: skip
        assert (await found(world, q) == [one]) is hit, q


@pytest.mark.parametrize("most", [0, 2, 1000])
async def test_many_and_few_finds_give_the_same_list(world: World, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """What too many requests have is tested along the list instead of looked up first."""
    monkeypatch.setattr(queueing, "MOST", most)
    ids = [await asked(world, subject=f"carol_{n}") for n in range(3)]
    ids.append(await asked(world, subject="dave"))
    assert sorted(await found(world, "carol")) == sorted(ids[:3])
    assert await found(world, "carol 1") == [ids[1]]
    assert await found(world, "bank wire carol 2") == [ids[2]]
    assert await found(world, "dave", status="pending") == [ids[3]]


async def test_what_is_removed_is_not_found_and_leaves_no_word(world: World) -> None:
    task_id = await asked(world, subject="carol")
    await world.decide(task_id)
    world.clock.advance(3 * 86400)
    assert await workers.purge_due(world.ctx) == 1

    def left(session: Session) -> tuple[int, object]:
        rows = len(session.exec(select(TaskSearch)).all())
        return rows, queueing.few_with_words(session, ("carol",))

    assert world.ctx.database.read_now(left) == (0, [])


def test_a_word_is_one_word_for_every_database() -> None:
    words = words_of(["\uff21cct-991_x", None, "", "e\u0301", "acct", "\u017f"])
    assert words == ("acct", "991", "x", "xc3a9", "s")
    assert all(word.isascii() and word.isalnum() for word in words)
    assert wanted_words("task_ABC-d Bank") == ("id0abcd", "bank")
    assert fits(words, ("ac", "99"))
    assert not fits(words, ("cct",))
    assert not fits(words, ())
    assert len(words_of([" ".join(f"w{n}" for n in range(1000))])) == 200
