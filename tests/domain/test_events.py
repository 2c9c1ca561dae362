"""The table of events: whatever is recorded about a request is either told outside, or is not on purpose."""

import re
from pathlib import Path

import arap_service.requests
from arap_service.domain.events import EVENT_NAMES, EVENTS
from arap_service.domain.task import TRANSITIONS

UNTOLD = {"decision_refused", "evaluator_heard", "form_used", "item_submitted", "review_refused"}
# These concern people and standing rules, and whoever has to act is told by a notice.
UNTOLD |= {"delegation_made", "delegation_ended", "rule_proposed"}
RECORDED = re.compile(r'\b_?record\([^")]*"([a-z_]+)"')


def test_every_kind_of_entry_about_a_request_is_told_or_left_out_on_purpose() -> None:
    """A new kind that nobody has thought about turns this red."""
    folder = Path(arap_service.requests.__file__).parent
    found = {kind for path in folder.glob("*.py") for kind in RECORDED.findall(path.read_text(encoding="utf-8"))}
    assert {"task_submitted", "vote_cast", "execution_reported"} <= found
    assert found - set(EVENTS) == UNTOLD & found
    assert {f"task_{status.value}" for status in TRANSITIONS.values()} <= set(EVENTS)


def test_names_are_told_apart_and_fit_a_configuration() -> None:
    assert len(EVENT_NAMES) == len(EVENTS)
    assert all(re.fullmatch("[a-z-]+", name) for name in EVENT_NAMES)
