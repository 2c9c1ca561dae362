"""Reports at the desk: figures that can be counted by hand, their files, and who may see them; issue 5, point 8."""

import csv
import io
import re
from collections.abc import Sequence
from datetime import date, timedelta

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.reports import DayFigures, quantile
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Person
from arap_service.web.charts import HEIGHT, chart_of, round_up
from arap_service.web.report_pages import ages
from tests.clock import FakeClock
from tests.web.desk import Browser, commit_request, decide, transfer_request
from tests.web.parts import member, who_may

FIGURES = re.compile(r"<div><dt>([^<]+)</dt><dd>([^<]+)</dd></div>")


@pytest.mark.anyio
async def test_administrators_and_auditors_alone_see_reports(context: Context) -> None:
    assert await who_may(context, "/desk/reports") == {"adam", "audrey"}
    async with member(context, "grace") as grace:
        for file in ("csv", "json"):
            assert (await grace.get(f"/desk/reports/figures.{file}")).status_code == 403


async def decided(app: FastAPI, context: Context, clock: FakeClock, browser: Browser) -> None:
    """Four requests: approved after 60 and 120 seconds, denied after 600, one of another kind that waits."""
    for seconds, decision in ((60, "approve"), (120, "approve"), (600, "deny")):
        task_id = await commit_request(app, context)
        clock.advance(seconds)
        assert (await decide(browser, task_id, decision, reason="Because.")).status_code == 303
    await transfer_request(app, context)
    clock.advance(7_200)


@pytest.mark.anyio
async def test_the_figures_are_those_of_the_requests(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    await decided(app, context, clock, grace)
    async with member(context, "audrey") as audrey:
        page = (await audrey.get("/desk/reports")).text
        body = (await audrey.get("/desk/reports/figures.json")).json()
    assert dict(FIGURES.findall(page)) == {
        "Requests made": "4",
        "Approved": "2",
        "Denied": "1",
        "Half were decided within": "2 minutes",
        "Nine of ten within": "10 minutes",
    }
    commit, transfer = body["by_template"]
    assert commit == {
        "template": "commit", "title": "Commit to a repository", "asked": 3, "approved": 2, "denied": 1, "expired": 0,
        "other": 0, "waiting": 0, "median_seconds": 120, "p90_seconds": 600,
    }  # fmt: skip
    assert (transfer["asked"], transfer["waiting"], transfer["median_seconds"]) == (1, 1, None)
    assert body["by_person"] == [
        {"voter": "grace", "name": "Grace Hopper", "kind": "person", "approved": 2, "denied": 1}
    ]
    assert body["waiting"][0]["by_age"] == [0, 1, 0, 0, 0], "it waits between one hour and four"
    assert body["by_day"][-1] == {"day": "2026-04-30", "approved": 2, "denied": 1, "other": 1}
    assert (len(body["by_day"]), body["is_cut"], body["standing_rules"]) == (30, False, [])


@pytest.mark.anyio
async def test_days_are_those_of_the_chosen_zone(app: FastAPI, context: Context) -> None:
    """20:00 UTC on 30 April is the next day in Tokyo and the same one in New York."""
    await commit_request(app, context)
    async with member(context, "audrey") as audrey:

        async def on(day: str, zone: str) -> int:
            query = {"since": day, "until": day, "zone": zone}
            answer = await audrey.client.get("/desk/reports/figures.json", params=query)
            return int(answer.json()["all"]["asked"])

        assert [await on("2026-04-30", "UTC"), await on("2026-05-01", "UTC")] == [1, 0]
        assert [await on("2026-04-30", "Asia/Tokyo"), await on("2026-05-01", "Asia/Tokyo")] == [0, 1]
        assert [await on("2026-04-30", "America/New_York"), await on("2026-05-01", "America/New_York")] == [1, 0]


@pytest.mark.anyio
async def test_the_csv_file_has_every_figure_and_no_formula(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    await decided(app, context, clock, grace)

    def rename(session: WriteSession) -> None:
        session.get_one(Person, "grace").name = "=HYPERLINK(1)"

    context.database.write_now(rename)
    async with member(context, "audrey") as audrey:
        file = await audrey.get("/desk/reports/figures.csv")
    assert file.headers["content-disposition"] == 'attachment; filename="requests-2026-04-01-2026-04-30.csv"'
    rows = list(csv.reader(io.StringIO(file.text)))
    assert rows[0] == ["table", "of", "figure", "value"]
    assert ["template", "commit", "median_seconds", "120"] in rows
    assert ["person", "'=HYPERLINK(1)", "denied", "1"] in rows
    assert ["waiting", "transfer", "1 hour to 4 hours", "1"] in rows


@pytest.mark.anyio
@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday", "since=2026-02-30", "until=0001-01-01", "zone=Mars/Base", "zone=../etc/passwd",
        "since=2026-05-02&until=2026-05-01", "since=2024-01-01&until=2026-01-01",
    ],
)  # fmt: skip
async def test_a_period_that_is_none_is_refused(context: Context, query: str) -> None:
    async with member(context, "audrey") as audrey:
        for path in ("/desk/reports", "/desk/reports/figures.json"):
            assert (await audrey.get(f"{path}?{query}")).status_code == 400


@pytest.mark.anyio
async def test_a_period_without_requests_says_so(context: Context) -> None:
    async with member(context, "audrey") as audrey:
        page = (await audrey.get("/desk/reports?since=2025-01-01&until=2025-01-31")).text
    assert "Nobody asked for anything in these days" in page
    assert "<svg" not in page
    assert "Nothing waits for a decision." in page


@pytest.mark.parametrize(
    ("values", "median", "most"),
    [((), None, None), ((5,), 5, 5), ((1, 2), 1, 2), (range(1, 11), 5, 9), (range(1, 12), 6, 10)],
)
def test_a_quantile_is_a_value_that_occurs(values: Sequence[float], median: int | None, most: int | None) -> None:
    assert (quantile(values, 0.5), quantile(values, 0.9)) == (median, most)


@pytest.mark.parametrize(("value", "top"), [(0, 1), (1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 50), (501, 1000)])
def test_the_scale_ends_at_a_round_number(value: int, top: int) -> None:
    assert round_up(value) == top


def test_bars_stand_on_each_other_and_share_a_long_period() -> None:
    first = date(2026, 1, 1)

    def days(count: int) -> list[DayFigures]:
        return [DayFigures(day=first + timedelta(days=n), approved=2, denied=1, other=0) for n in range(count)]

    chart = chart_of(days(3))
    approved, denied = chart.boxes[:2]
    assert (approved.kind, denied.kind) == ("approved", "denied")
    assert approved.height == pytest.approx(2 * denied.height, abs=0.2)
    assert denied.y + denied.height == pytest.approx(approved.y, abs=0.2)
    assert all(box.y >= 0 and box.y + box.height <= HEIGHT for box in chart.boxes)
    assert [mark.text for mark in chart.scale] == ["0", "5"]
    year = chart_of(days(366))
    assert (year.step, len(year.boxes) // 2, len(year.days) <= 9) == (6, 61, True)


def test_the_classes_of_age_follow_each_other() -> None:
    assert ages() == ("under 1 hour", "1 hour to 4 hours", "4 hours to 1 day", "1 day to 3 days", "over 3 days")
