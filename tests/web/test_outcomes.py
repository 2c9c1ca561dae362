"""What a settled request has come to, by its approval, its reports and the time; design.md section 7, "After"."""

from dataclasses import replace
from datetime import timedelta

import pytest

from arap_service.views import RequestDetail
from arap_service.web.outcomes import Outcome, outcome_of
from arap_service.web.words import DISPOSITION, USED
from tests.clock import START
from tests.web.samples import DETAIL, IN_FORCE, reported

GRANTED = timedelta(minutes=15)


def revoked(detail: RequestDetail) -> RequestDetail:
    assert detail.approval is not None
    return replace(detail, approval=replace(detail.approval, status="revoked"))


def test_an_approval_is_usable_and_awaited_until_the_instant_at_which_it_runs_out() -> None:
    in_force = "The approval is in force. It can be used for exactly this, until it runs out or is taken back."
    assert outcome_of(IN_FORCE, now=START + GRANTED - timedelta(microseconds=1)) == Outcome(
        text=in_force, lifetime=GRANTED, is_usable=True, is_over=False, is_awaited=True
    )
    assert outcome_of(IN_FORCE, now=START + GRANTED) == Outcome(
        text="The approval has run out. Nothing can start under it any more.",
        lifetime=GRANTED,
        is_usable=False,
        is_over=True,
        is_awaited=False,
    )


def test_a_call_that_ran_uses_the_approval_up() -> None:
    assert outcome_of(reported("approved-executed"), now=START) == Outcome(
        text="Used: it ran once; nothing more can run with it.",
        lifetime=GRANTED,
        is_usable=False,
        is_over=False,
        is_awaited=False,
    )


@pytest.mark.parametrize("disposition", sorted(DISPOSITION))
def test_only_a_call_that_was_started_counts_as_a_use(disposition: str) -> None:
    found = outcome_of(reported(disposition), now=START)
    started = disposition in {"approved-executed", "execution-error", "outcome-unknown"}
    assert (found.text.startswith("Used: "), found.is_usable, found.is_awaited) == (started, not started, False)
    assert set(USED) == {"approved-executed", "execution-error", "outcome-unknown"}


def test_a_use_counts_whatever_was_reported_before_it() -> None:
    [first], [second] = reported("failed").executions, reported("outcome-unknown").executions
    found = outcome_of(replace(IN_FORCE, executions=(first, second)), now=START)
    assert (found.text, found.is_usable) == (USED["outcome-unknown"], False)


def test_an_approval_that_was_taken_back_is_not_usable_and_nothing_is_awaited() -> None:
    found = outcome_of(revoked(IN_FORCE), now=START)
    assert (found.is_usable, found.is_over, found.is_awaited) == (False, False, False)
    assert "taken back" in found.text


@pytest.mark.parametrize("status", ["pending", "denied", "expired", "cancelled", "failed"])
def test_without_an_approval_nothing_is_usable_or_awaited(status: str) -> None:
    found = outcome_of(replace(DETAIL, status=status), now=START)
    assert (found.lifetime, found.is_usable, found.is_over, found.is_awaited) == (None, False, False, False)
