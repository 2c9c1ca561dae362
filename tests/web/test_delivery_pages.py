"""Deliveries at the desk, for operators alone; design.md section 7, "Elsewhere"."""

import re
from datetime import timedelta

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.store.database import WriteSession
from arap_service.store.log_tables import SilencedEndpoint
from arap_service.store.tables import Delivery, DeliveryAttempt
from arap_service.web import delivery_pages
from tests.web.desk import commit_request
from tests.web.parts import member, who_may

pytestmark = pytest.mark.anyio
LISTED = re.compile(r'<h2><a href="/desk/deliveries/(\w+)"')
ENDPOINT = "https://gate.example/callbacks/arap"


async def delivery(app: FastAPI, context: Context, name: str, status: str, error: str | None = None) -> str:
    """A delivery in this state, about a request of its own."""
    task_id, now = await commit_request(app, context, name), context.clock()
    row = Delivery(
        id=name, task_id=task_id, client_id="gate", endpoint=ENDPOINT, event="approved", status=status, attempts=1,
        created_at=now, next_at=now + timedelta(minutes=2), last_error=error, body_sealed=b"sealed",
        finished_at=None if status == "pending" else now,
    )  # fmt: skip
    attempt = DeliveryAttempt(delivery_id=name, number=1, at=now, outcome=status, error=error)

    def work(session: WriteSession) -> None:
        session.add(row)
        session.flush()
        session.add(attempt)

    context.database.write_now(work)
    return task_id


async def test_operators_and_administrators_alone_see_deliveries(context: Context) -> None:
    assert await who_may(context, "/desk/deliveries") == {"oscar", "adam"}


async def test_what_was_given_up_comes_first_with_the_reason_and_other_states_have_tabs(
    app: FastAPI, context: Context
) -> None:
    await delivery(app, context, "dead1", "dead", "status_503")
    await delivery(app, context, "waiting1", "pending", "unresolvable")
    await delivery(app, context, "done1", "delivered")
    async with member(context, "oscar") as oscar:
        first = (await oscar.get("/desk/deliveries")).text
        assert LISTED.findall(first) == ["dead1"]
        assert "The receiver answered 503." in first
        waiting = (await oscar.get("/desk/deliveries?show=pending")).text
        assert LISTED.findall(waiting) == ["waiting1"]
        assert "in 2 minutes" in waiting
        assert sorted(LISTED.findall((await oscar.get("/desk/deliveries?show=all")).text)) == [
            "dead1",
            "done1",
            "waiting1",
        ]
        assert "Every receiver is switched on" in (await oscar.get("/desk/deliveries?show=disabled")).text
        assert (await oscar.get("/desk/deliveries?cursor=nonsense")).status_code == 400


async def test_a_delivery_is_sent_again_from_its_page(app: FastAPI, context: Context) -> None:
    await delivery(app, context, "dead1", "dead", "timeout")
    async with member(context, "oscar") as oscar:
        page = await oscar.get("/desk/deliveries/dead1")
        assert "Given up: No answer came in time." in page.text
        done = await oscar.submit("/desk/deliveries/dead1/redelivery", seen=page)
        assert (done.status_code, done.headers["location"]) == (303, "/desk/deliveries/dead1")
        assert LISTED.findall((await oscar.get("/desk/deliveries?show=pending")).text) == ["dead1"]
        assert "Nothing was given up" in (await oscar.get("/desk/deliveries")).text


async def test_who_is_no_operator_sends_nothing_again(app: FastAPI, context: Context) -> None:
    await delivery(app, context, "dead1", "dead", "timeout")
    async with member(context, "audrey") as audrey:
        seen = await audrey.get("/desk")
        for path in ("/desk/deliveries/dead1/redelivery", "/desk/receivers/enabling"):
            assert (await audrey.submit(path, seen=seen, client="gate", endpoint=ENDPOINT)).status_code == 403
        assert (await audrey.get("/desk/deliveries/dead1")).status_code == 403
    kept = context.database.read_now(lambda session: session.get(Delivery, "dead1"))
    assert kept is not None
    assert kept.status == "dead"


async def test_one_that_does_not_exist_is_not_found(context: Context) -> None:
    async with member(context, "oscar") as oscar:
        seen = await oscar.get("/desk/deliveries/none")
        assert seen.status_code == 404
        assert (await oscar.submit("/desk/deliveries/none/redelivery", seen=seen)).status_code == 404
        fields = {"client": "gate", "endpoint": "https://nobody.example"}
        assert (await oscar.submit("/desk/receivers/enabling", seen=seen, **fields)).status_code == 404


async def test_a_receiver_that_wants_nothing_more_is_switched_on_again(app: FastAPI, context: Context) -> None:
    await delivery(app, context, "off1", "disabled", "endpoint_disabled")
    row = SilencedEndpoint(client_id="gate", endpoint=ENDPOINT, at=context.clock())
    context.database.write_now(lambda session: session.add(row))
    async with member(context, "oscar") as oscar:
        page = await oscar.get("/desk/deliveries?show=disabled")
        assert "Receivers that want nothing more" in page.text
        done = await oscar.submit("/desk/receivers/enabling", seen=page, client="gate", endpoint=ENDPOINT)
        assert done.status_code == 303
        assert "Receivers that want nothing more" not in (await oscar.get("/desk/deliveries?show=disabled")).text


async def test_a_long_list_comes_in_pages_and_one_request_has_its_own(
    app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_pages, "PAGE_SIZE", 2)
    tasks = [await delivery(app, context, f"dead{n}", "dead", "timeout") for n in range(3)]
    async with member(context, "oscar") as oscar:
        first = (await oscar.get("/desk/deliveries")).text
        more = first.split('<p class="more"><a href="')[1].split('"')[0].replace("&amp;", "&")
        second = (await oscar.get(more)).text
        assert sorted(LISTED.findall(first) + LISTED.findall(second)) == ["dead0", "dead1", "dead2"]
        one = (await oscar.get(f"/desk/deliveries?show=all&request={tasks[1]}")).text
        assert LISTED.findall(one) == ["dead1"]


async def test_what_was_given_up_is_told_to_operators_on_every_page_and_to_nobody_else(
    app: FastAPI, context: Context
) -> None:
    async with member(context, "oscar") as oscar:
        assert 'class="alerts"' not in (await oscar.get("/desk")).text
        await delivery(app, context, "dead1", "dead", "timeout")
        assert "1 message to other systems was given up." in (await oscar.get("/desk")).text
        await delivery(app, context, "dead2", "dead", "timeout")
        assert "2 messages to other systems were given up." in (await oscar.get("/desk/my")).text
    async with member(context, "audrey") as audrey, member(context, "grace") as grace:
        for browser in (audrey, grace):
            assert 'class="alerts"' not in (await browser.get("/desk")).text
