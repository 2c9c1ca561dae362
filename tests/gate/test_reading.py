"""Backend answers as events. Provenance: ARAP "Poll the Task", "Handle Completion"; arap-to-mcp.json; X-12."""

from datetime import timedelta
from typing import Any

import pytest

from mcp_gate.backend import BackendStatus
from mcp_gate.events import Approved, BackendEnded, Cause
from mcp_gate.limits import Limits, backoff
from mcp_gate.reading import capped, read_status
from tests.clock import START

LATER = START + timedelta(minutes=15)
APPROVAL = {"id": "appr_1"}


def read(status: str, **more: Any) -> object:
    return read_status(BackendStatus(status, **more), generation=2, now=START, limits=Limits())


@pytest.mark.requirement("PEP-42", "PEP-88")
@pytest.mark.parametrize(
    ("status", "event"),
    [
        ("pending", None),
        ("granted", None),
        ("Approved", None),
        ("", None),
        ("denied", BackendEnded(2, Cause.DENIED)),
        ("expired", BackendEnded(2, Cause.BACKEND_EXPIRED)),
        ("cancelled", BackendEnded(2, Cause.BACKEND_CANCELLED)),
        ("failed", BackendEnded(2, Cause.BACKEND_FAILED)),
        ("partial", BackendEnded(2, Cause.NOT_ENFORCEABLE)),
    ],
)
def test_only_known_words_mean_something(status: str, event: object) -> None:
    """Also when a stray approval comes with them."""
    assert read(status) == event
    assert read(status, approval=APPROVAL, approved_until=LATER, mode="reevaluate") == event


@pytest.mark.requirement("PEP-42")
@pytest.mark.parametrize("mode", [None, "", "token", "REEVALUATE"])
def test_an_approval_in_an_unknown_mode_or_without_material_is_none(mode: str | None) -> None:
    assert read("approved", approval=APPROVAL, approved_until=LATER, mode=mode) == BackendEnded(
        2, Cause.NOT_ENFORCEABLE
    )
    assert read("approved", mode="reevaluate") == BackendEnded(2, Cause.NOT_ENFORCEABLE)


@pytest.mark.requirement("PEP-41", "PEP-46", "PEP-76")
def test_an_approval_lasts_as_long_as_it_says_but_not_longer_than_we_believe() -> None:
    usable = {"approval": APPROVAL, "mode": "reevaluate"}
    assert read("approved", approved_until=LATER, **usable) == Approved(2, LATER)
    cap = START + timedelta(days=1)
    assert read("approved", approved_until=START + timedelta(days=3650), **usable) == Approved(2, cap)
    assert read("approved", **usable) == Approved(2, cap)
    assert read("approved", approved_until=START, **usable) == BackendEnded(2, Cause.BACKEND_EXPIRED)


def test_a_request_that_the_source_no_longer_knows_is_lost() -> None:
    assert read("approved", gone=True) == BackendEnded(2, Cause.BACKEND_LOST_TASK)


def test_a_bound_stands_in_for_what_is_missing_or_too_far_away() -> None:
    assert capped(None, now=START, most=timedelta(hours=1)) == START + timedelta(hours=1)
    assert capped(LATER, now=START, most=timedelta(hours=1)) == LATER
    assert capped(LATER, now=START, most=timedelta(minutes=1)) == START + timedelta(minutes=1)


@pytest.mark.requirement("PEP-44")
def test_waits_double_up_to_their_bound_and_jitter_only_shortens_them() -> None:
    first, most = timedelta(seconds=5), timedelta(seconds=60)
    waits = [backoff(n, first=first, most=most, jitter=lambda: 0.0).total_seconds() for n in (0, 1, 2, 3, 4, 5, 10_000)]
    assert waits == [5, 10, 20, 40, 60, 60, 60]
    assert backoff(9, first=first, most=most, jitter=lambda: 0.999).total_seconds() > 48
