"""Notices to people at the desk, for operators alone; design.md section 7, "Notifications"."""

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement, Notice
from tests.web.desk import commit_request
from tests.web.parts import member, who_may

pytestmark = pytest.mark.anyio


async def given_up(app: FastAPI, context: Context) -> str:
    """A notice to Grace that was given up; the request that it is about."""
    task_id, now = await commit_request(app, context), context.clock()

    def work(session: WriteSession) -> None:
        about = Announcement(
            id="ann1", key="k1", kind="request_waiting", task_id=task_id, people=[], groups=[], at=now, settled_at=now
        )
        session.add(about)
        session.flush()
        session.add(
            Notice(
                id="ntc1", announcement_id="ann1", person_id="grace", channel="mail", status="dead", attempts=4,
                created_at=now, next_at=now, finished_at=now, last_error="timeout",
            )
        )  # fmt: skip

    context.database.write_now(work)
    return task_id


async def test_operators_and_administrators_alone_see_notices(context: Context) -> None:
    assert await who_may(context, "/desk/notices") == {"oscar", "adam"}


async def test_one_that_was_given_up_is_told_on_every_page_and_sent_again(app: FastAPI, context: Context) -> None:
    async with member(context, "oscar") as oscar:
        assert "Nothing was given up" in (await oscar.get("/desk/notices")).text
        task_id = await given_up(app, context)
        assert "1 notice to people was given up in the last week." in (await oscar.get("/desk")).text
        page = await oscar.get("/desk/notices")
        for text in ("Request waiting: Grace Hopper by mail", "No answer came in time.", "4 attempts", task_id):
            assert text in page.text, text
        done = await oscar.submit("/desk/notices/ntc1/again", seen=page)
        assert (done.status_code, done.headers["location"]) == (303, "/desk/notices?show=pending")
        assert "Grace Hopper" in (await oscar.get("/desk/notices?show=pending")).text
        assert "Nothing was given up" in (await oscar.get("/desk/notices")).text
        assert "was given up" not in (await oscar.get("/desk")).text
        assert (await oscar.submit("/desk/notices/none/again", seen=page)).status_code == 404
        assert (await oscar.get("/desk/notices?cursor=nonsense")).status_code == 400


async def test_who_is_no_operator_sends_nothing_again(app: FastAPI, context: Context) -> None:
    await given_up(app, context)
    async with member(context, "audrey") as audrey:
        seen = await audrey.get("/desk")
        assert (await audrey.submit("/desk/notices/ntc1/again", seen=seen)).status_code == 403
    kept = context.database.read_now(lambda session: session.get_one(Notice, "ntc1"))
    assert kept.status == "dead"
