"""The page on which a person chooses how he is told: issue by issue of what may be chosen; design.md section 7."""

from dataclasses import replace
from pathlib import Path

import pytest

from arap_service.context import Context
from arap_service.settings_notifications import NotificationSettings
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import NoticePreference
from arap_service.store.people_tables import Person
from tests.service import app_for
from tests.web.desk import Browser

pytestmark = pytest.mark.anyio
PATH = "/desk/account/notifications"
SECRET = "hunter2-hunter2"
CHANNELS = {
    "mail": {"url": f"mailto://desk:{SECRET}@127.0.0.1?from=d@approvals.example&to={{email}}"},
    "pager": {"url": "json://127.0.0.1/{email}", "groups": ["treasurers"]},
    "room": {"url": "json://127.0.0.1/room"},
}
CHOSEN = {
    "channel-mail": "on",
    "kind-request_waiting": "on",
    "kind-decided": "on",
    "digest": "daily",
    "digest_at": "09:30",
    "quiet_from": "22:00",
    "quiet_until": "07:00",
    "zone": "Europe/Berlin",
}


@pytest.fixture
async def telling(context: Context) -> Context:
    """The desk with two personal channels, one of them for a group, and a room."""

    def work(session: WriteSession) -> None:
        for person_id in ("grace", "linus"):
            session.get_one(Person, person_id).email = f"{person_id}@corp.example"

    await context.database.write(work)
    notifications = NotificationSettings.model_validate({"channels": CHANNELS})
    return replace(context, settings=context.settings.model_copy(update={"notifications": notifications}))


async def opened(context: Context, name: str) -> Browser:
    browser = Browser(app_for(context))
    assert (await browser.log_in(name)).status_code == 303
    return browser


def kept(context: Context, name: str) -> NoticePreference | None:
    return context.database.read_now(lambda session: session.get(NoticePreference, name))


async def test_page_offers_the_ways_that_reach_the_reader_alone_and_no_address(telling: Context) -> None:
    grace, linus = await opened(telling, "grace"), await opened(telling, "linus")
    hers, his = (await grace.get(PATH)).text, (await linus.get(PATH)).text
    assert ('name="channel-pager"' in hers, 'name="channel-pager"' in his) == (True, False)
    assert "channel-room" not in hers
    assert "grace@corp.example" in hers
    assert SECRET not in hers
    for browser in (grace, linus):
        await browser.client.aclose()


async def test_choice_is_kept_and_shown_again(telling: Context) -> None:
    grace = await opened(telling, "grace")
    sent = await grace.submit(PATH, seen=await grace.get(PATH), **CHOSEN)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{PATH}?kept")
    row = kept(telling, "grace")
    assert row is not None
    assert row.chosen == {"channels": ["mail"], "kinds": ["decided", "request_waiting"]}
    assert (row.digest, row.digest_at, row.quiet_from, row.quiet_until, row.zone) == (
        "daily", "09:30", "22:00", "07:00", "Europe/Berlin",
    )  # fmt: skip
    page = (await grace.get(sent.headers["location"])).text
    assert 'name="kind-decided" checked' in page
    assert 'name="kind-reminder">' in page
    assert 'value="daily" checked' in page
    assert "<option selected>Europe/Berlin</option>" in page
    await grace.client.aclose()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"channel-pager": "on"}, "channels"),
        ({"channel-room": "on"}, "channels"),
        ({"kind-exploded": "on"}, "kinds"),
        ({"digest": "yearly"}, "digest"),
        ({"digest_at": "25:00"}, "digest_at"),
        ({"quiet_until": ""}, "quiet_until"),
        ({"quiet_from": "10pm"}, "quiet_from"),
        ({"quiet_from": "22+01", "quiet_until": "07+01"}, "quiet_from"),
        ({"digest_at": "0800Z"}, "digest_at"),
        ({"zone": "Europe/Atlantis"}, "zone"),
        ({"zone": "../../etc/passwd"}, "zone"),
    ],
)
async def test_what_is_not_offered_is_refused_beside_its_field_and_nothing_is_kept(
    telling: Context, change: dict[str, str], field: str
) -> None:
    linus = await opened(telling, "linus")
    sent = await linus.submit(PATH, seen=await linus.get(PATH), **(CHOSEN | change))
    assert sent.status_code == 422
    assert f'href="#{field}"' in sent.text
    assert kept(telling, "linus") is None
    await linus.client.aclose()


async def test_nobody_chooses_without_log_in_or_from_elsewhere(telling: Context) -> None:
    stranger, grace = Browser(app_for(telling)), await opened(telling, "grace")
    assert (await stranger.get(PATH)).status_code == 303
    seen = await grace.get(PATH)
    elsewhere = await grace.post(PATH, CHOSEN, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
    assert kept(telling, "grace") is None
    assert seen.status_code == 200
    for browser in (stranger, grace):
        await browser.client.aclose()


async def test_page_says_where_nothing_can_be_sent(context: Context, tmp_path: Path) -> None:
    grace = await opened(context, "grace")
    assert "No way to reach you is set up here" in (await grace.get(PATH)).text
    await grace.client.aclose()
