"""The judge: each check finds what breaks its rule, and calls nothing kept that it has not seen."""

from datetime import timedelta
from typing import Any

import pytest

from arap_service.simulator.evidence import Evidence, Finding
from arap_service.simulator.judging import CHECKS
from arap_service.simulator.observing import Observation, read_observation
from arap_service.simulator.scenarios import SCENARIOS
from tests.clock import START

Seen = tuple[dict[str, Any], ...]
KEPT, BROKEN, UNSEEN = Finding.KEPT, Finding.BROKEN, Finding.UNSEEN
DENIAL = {"what": "evaluation", "decision": False, "offer": "o1", "evaluation": "ev1"}
MADE = {"what": "submission", "key": "k1", "body": "b1", "binding": "o1", "evaluation": "ev1", "task": "t1"}
POLL = {"what": "status", "task": "t1", "task_status": "pending"}
GRANT = {"what": "status", "task": "t1", "task_status": "approved", "granted": "a1", "given": "g1"}
SHOW = {"what": "evaluation", "presented": "g1", "approval": "a1", "decision": False}
PERMIT = {**SHOW, "decision": True}
REPORT = {"what": "report", "task": "t1", "status": 204, "disposition": "approved-executed", "generation": 1}
LATE = {"what": "callback", "fault": "callback-late", "status": 204}
RETRY = {**SHOW, "next_action": "retry", "wait": 5}
REQUEST = {**SHOW, "next_action": "request", "offer": "o2", "evaluation": "ev2"}
NONE = {**SHOW, "next_action": "none"}
BAD = {"what": "evaluation", "fault": "wrong-type"}
FORGED = {"what": "callback", "fault": "callback-forged", "status": 401}
SECOND = {**MADE, "key": "k2", "body": "b2", "binding": "o2", "evaluation": "ev2", "task": "t2"}
CANCEL = {"what": "cancel", "task": "t1"}


def seen(entries: Seen) -> tuple[Observation, ...]:
    """Observations of these entries, a second apart unless an entry says `gap`."""
    found, at = [], START
    for number, entry in enumerate(entries, start=1):
        at += timedelta(seconds=entry.get("gap", 1))
        members = {"status": 200, "client": "gate", **entry}
        found.append(
            Observation(
                seq=number,
                at=at,
                answered_at=at,
                what=members.pop("what"),
                status=members.pop("status"),
                client=members.pop("client"),
                task=members.pop("task", None),
                fault=members.pop("fault", None),
                facts={name: value for name, value in members.items() if name != "gap"},
            )
        )
    return tuple(found)


CASES: list[tuple[str, Finding, Seen, int | None]] = [
    ("key", KEPT, (MADE,), None),
    ("key", BROKEN, (MADE, {name: value for name, value in SECOND.items() if name != "key"}), None),
    ("key", UNSEEN, (), 0),
    ("echo", KEPT, (DENIAL, MADE), None),
    ("echo", BROKEN, (MADE, DENIAL), None),
    ("echo", BROKEN, (DENIAL, {**MADE, "binding": "o9"}), None),
    ("echo", BROKEN, (DENIAL, {**MADE, "evaluation": "ev9"}), None),
    ("echo", UNSEEN, (DENIAL,), None),
    ("repeat", KEPT, ({**MADE, "fault": "lost-answer", "status": None}, MADE), None),
    ("repeat", BROKEN, ({**MADE, "fault": "rate-limited", "status": 429}, {**MADE, "key": "k2"}), None),
    ("repeat", BROKEN, ({**MADE, "fault": "lost-answer", "status": None}, {**MADE, "body": "b2"}), None),
    ("repeat", BROKEN, ({**MADE, "fault": "cut", "status": None},), None),
    ("repeat", UNSEEN, (MADE,), None),
    ("own-key", KEPT, (MADE, MADE, SECOND), None),
    ("own-key", BROKEN, (MADE, {**SECOND, "key": "k1"}), None),
    ("own-key", UNSEEN, (MADE, MADE), None),
    ("patience", KEPT, ({**POLL, "retry_after": 5}, {**POLL, "gap": 5}), None),
    ("patience", BROKEN, ({**POLL, "retry_after": 5}, {**POLL, "gap": 4.9}), None),
    ("patience", BROKEN, ({**MADE, "retry_after": 5}, {**POLL, "gap": 1}), None),
    ("patience", BROKEN, ({**POLL, "retry_after": 9}, {**FORGED, "task": "t1"}, POLL), None),
    ("patience", UNSEEN, ({**POLL, "retry_after": 9}, {"what": "callback", "task": "t1"}, POLL), None),
    ("patience", UNSEEN, ({**POLL, "retry_after": 9}, {**POLL, "task": "t2"}), None),
    ("stop", KEPT, (POLL, GRANT), None),
    ("stop", BROKEN, (GRANT, GRANT), None),
    ("stop", UNSEEN, (POLL, POLL), None),
    ("unchanged", KEPT, (GRANT, PERMIT), None),
    ("unchanged", BROKEN, (GRANT, {**PERMIT, "presented": "g2"}), None),
    ("unchanged", UNSEEN, (GRANT,), None),
    ("permit-first", KEPT, (GRANT, PERMIT), 1),
    ("permit-first", KEPT, (GRANT, PERMIT, REPORT), None),
    ("permit-first", BROKEN, (GRANT,), 1),
    ("permit-first", BROKEN, (GRANT, REPORT), None),
    ("permit-first", BROKEN, ({**PERMIT, "fault": "wrong-type"},), 1),
    ("permit-first", UNSEEN, (GRANT, PERMIT), None),
    ("once", KEPT, (PERMIT,), 1),
    ("once", BROKEN, (PERMIT,), 2),
    ("once", UNSEEN, (PERMIT,), None),
    ("runs", KEPT, (PERMIT,), 1),
    ("runs", BROKEN, (PERMIT,), 0),
    ("runs", BROKEN, (GRANT,), 0),
    ("runs", UNSEEN, (PERMIT,), None),
    ("never", KEPT, (), 0),
    ("never", BROKEN, (), 1),
    ("never", BROKEN, (REPORT,), None),
    ("never", UNSEEN, (), None),
    ("retry", KEPT, (RETRY, {**PERMIT, "gap": 5}), None),
    ("retry", BROKEN, (RETRY, {**PERMIT, "gap": 4.9}), None),
    ("retry", BROKEN, (RETRY, {**PERMIT, "gap": 5, "presented": "g2"}), None),
    ("retry", BROKEN, (RETRY,), None),
    ("retry", UNSEEN, (PERMIT,), None),
    ("anew", KEPT, (MADE, REQUEST, SECOND), None),
    ("anew", BROKEN, (MADE, REQUEST, {**SECOND, "key": "k1"}), None),
    ("anew", BROKEN, (MADE, REQUEST), None),
    ("anew", UNSEEN, (MADE, PERMIT), None),
    ("fresh", KEPT, (MADE, REQUEST, SECOND), None),
    ("fresh", BROKEN, (MADE, REQUEST, {**SECOND, "binding": "o1"}), None),
    ("fresh", UNSEEN, (MADE, REQUEST), None),
    ("give-up", KEPT, (NONE,), None),
    ("give-up", BROKEN, (NONE, NONE), None),
    ("give-up", UNSEEN, (PERMIT,), None),
    ("dropped", KEPT, (REQUEST, {**PERMIT, "presented": "g2"}), None),
    ("dropped", BROKEN, (REQUEST, PERMIT), None),
    ("dropped", UNSEEN, (RETRY, PERMIT), None),
    ("unbelieved", KEPT, (FORGED,), 0),
    ("unbelieved", BROKEN, (FORGED,), 1),
    ("unbelieved", BROKEN, (FORGED, SHOW), 0),
    ("unbelieved", BROKEN, ({**FORGED, "status": 204},), 0),
    ("unbelieved", UNSEEN, (), 0),
    ("own-source", KEPT, ({"what": "callback", "fault": "callback-misleading", "status": 204},), None),
    ("own-source", BROKEN, ({"what": "decoy"},), None),
    ("own-source", UNSEEN, ({"what": "callback", "fault": "callback-misleading", "status": None},), None),
    ("late", KEPT, (PERMIT, LATE), None),
    ("late", BROKEN, (LATE, PERMIT), None),
    ("late", BROKEN, (LATE, SECOND), None),
    ("late", UNSEEN, (PERMIT,), None),
    ("polling", KEPT, ({**MADE, "callback": True}, GRANT), None),
    ("polling", BROKEN, ({**MADE, "callback": True}, POLL), None),
    ("polling", UNSEEN, (MADE, GRANT), None),
    ("no-permit", KEPT, (BAD,), 0),
    ("no-permit", BROKEN, (BAD,), 1),
    ("no-permit", UNSEEN, (BAD,), None),
    ("no-permit", UNSEEN, (DENIAL,), 0),
    ("no-offer", KEPT, (BAD,), None),
    ("no-offer", BROKEN, (BAD, MADE), None),
    ("no-offer", UNSEEN, (MADE,), None),
    ("keeps-asking", KEPT, ({**POLL, "fault": "cut", "status": None}, POLL), None),
    ("keeps-asking", BROKEN, (POLL, {**POLL, "fault": "garbage"}), None),
    ("keeps-asking", UNSEEN, (POLL,), None),
    ("not-granted", KEPT, ({**POLL, "fault": "wrong-type"},), 0),
    ("not-granted", KEPT, ({**POLL, "fault": "wrong-type"}, GRANT, PERMIT), 1),
    ("not-granted", BROKEN, ({**POLL, "fault": "wrong-type"},), 1),
    ("not-granted", BROKEN, ({**POLL, "fault": "wrong-type"}, SHOW), 0),
    ("not-granted", UNSEEN, (POLL,), 0),
    ("withdraws", KEPT, (CANCEL,), None),
    ("withdraws", BROKEN, (MADE,), None),
    ("dead", KEPT, (CANCEL, POLL), 0),
    ("dead", BROKEN, (CANCEL, SHOW), 0),
    ("dead", BROKEN, (CANCEL,), 1),
    ("dead", UNSEEN, (), 0),
    ("reported", KEPT, (REPORT,), 1),
    ("reported", KEPT, ({**REPORT, "status": None}, REPORT), 1),
    ("reported", BROKEN, (REPORT, REPORT), 1),
    ("reported", BROKEN, (REPORT,), 0),
    ("reported", UNSEEN, (), 1),
]


@pytest.mark.parametrize(("name", "finding", "entries", "executions"), CASES)
def test_a_check_finds_what_the_evidence_shows(
    name: str, finding: Finding, entries: Seen, executions: int | None
) -> None:
    verdict = CHECKS[name](Evidence(seen(entries), executions))
    assert verdict.finding is finding, verdict
    assert verdict.rule == CHECKS[name].rule


def test_every_check_is_shown_to_find_a_breach_and_used_by_a_scenario() -> None:
    assert {name for name, finding, _, _ in CASES if finding is BROKEN} == CHECKS.keys()
    assert {name for name, finding, _, _ in CASES if finding is KEPT} == CHECKS.keys()
    assert {name for scenario in SCENARIOS.values() for name in scenario.checks} == CHECKS.keys()


def test_observations_survive_being_written_down() -> None:
    for observation in seen((DENIAL, MADE, GRANT, REPORT, {**POLL, "fault": "cut", "status": None})):
        assert read_observation(observation.said()) == observation


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_in_which_nothing_was_seen_is_not_over_and_keeps_no_rule(scenario: Any) -> None:
    evidence = Evidence(())
    assert not scenario.is_over(evidence)
    assert KEPT not in {CHECKS[name](evidence).finding for name in scenario.checks}
