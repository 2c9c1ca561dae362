"""Quiet hours and digests by the clock on the wall, also when that clock is changed."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.quiet import DIGESTS, Digest, Habits, after_quiet, moment_for

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Habits(zone=BERLIN, quiet_from=time(22), quiet_until=time(7))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("2026-05-04T19:59:59Z", "2026-05-04T19:59:59Z"),
        ("2026-05-04T20:00:00Z", "2026-05-05T05:00:00Z"),
        ("2026-05-05T04:59:59Z", "2026-05-05T05:00:00Z"),
        ("2026-05-05T05:00:00Z", "2026-05-05T05:00:00Z"),
        # Nights in which the clock goes forward and back: seven o'clock is what the wall shows.
        ("2026-03-28T22:00:00Z", "2026-03-29T05:00:00Z"),
        ("2026-03-27T22:00:00Z", "2026-03-28T06:00:00Z"),
        ("2026-10-24T21:00:00Z", "2026-10-25T06:00:00Z"),
    ],
)
def test_night_lasts_until_the_wall_shows_its_end(moment: str, told: str) -> None:
    assert after_quiet(NIGHT, at(moment)) == at(told)


def test_quiet_hours_within_a_day_and_none_at_all() -> None:
    noon = Habits(zone=BERLIN, quiet_from=time(12), quiet_until=time(13, 30))
    assert after_quiet(noon, at("2026-05-04T10:15:00Z")) == at("2026-05-04T11:30:00Z")
    assert after_quiet(noon, at("2026-05-04T11:30:00Z")) == at("2026-05-04T11:30:00Z")
    never = Habits(quiet_from=time(12), quiet_until=time(12))
    assert after_quiet(never, at("2026-05-04T12:00:00Z")) == at("2026-05-04T12:00:00Z")


def test_time_that_the_clock_skips_is_the_one_that_it_shows_instead() -> None:
    early = Habits(zone=BERLIN, quiet_from=time(1), quiet_until=time(2, 30))
    assert after_quiet(early, at("2026-03-29T00:30:00Z")) == at("2026-03-29T01:30:00Z")


def test_time_that_the_clock_shows_twice_ends_quiet_hours_whenever_it_comes_next() -> None:
    early = Habits(zone=BERLIN, quiet_from=time(1), quiet_until=time(2, 30))
    assert after_quiet(early, at("2026-10-25T00:10:00Z")) == at("2026-10-25T00:30:00Z")
    assert after_quiet(early, at("2026-10-25T01:10:00Z")) == at("2026-10-25T01:30:00Z")


@pytest.mark.parametrize(
    ("habits", "moment", "told"),
    [
        (Habits(digest="hourly"), "2026-05-04T10:15:30Z", "2026-05-04T11:00:00Z"),
        (Habits(digest="hourly", zone=ZoneInfo("Asia/Kolkata")), "2026-05-04T10:15:00Z", "2026-05-04T10:30:00Z"),
        (Habits(digest="daily", zone=BERLIN), "2026-05-04T05:59:00Z", "2026-05-04T06:00:00Z"),
        (Habits(digest="daily", zone=BERLIN), "2026-05-04T06:00:00Z", "2026-05-05T06:00:00Z"),
        (Habits(digest="daily", zone=BERLIN), "2026-10-24T12:00:00Z", "2026-10-25T07:00:00Z"),
        (
            Habits(digest="daily", digest_at=time(23), quiet_from=time(22), quiet_until=time(6)),
            "2026-05-04T12:00:00Z",
            "2026-05-05T06:00:00Z",
        ),
    ],
)
def test_digest_comes_at_its_time_and_not_in_quiet_hours(habits: Habits, moment: str, told: str) -> None:
    assert moment_for(habits, at(moment)) == at(told)


@given(
    st.integers(0, 2 * 366 * 86_400).map(lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)),
    st.times(),
    st.times(),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "UTC"]),
    st.sampled_from(DIGESTS),
)
def test_nobody_is_told_before_it_happened_nor_more_than_two_days_and_a_bit_later(
    moment: datetime, begins: time, ends: time, zone: str, digest: Digest
) -> None:
    habits = Habits(zone=ZoneInfo(zone), digest=digest, quiet_from=begins, quiet_until=ends)
    told = moment_for(habits, moment)
    assert moment <= told <= moment + timedelta(hours=51)
