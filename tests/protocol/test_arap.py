"""Shapes and names of the access request profile. Vectors: next-action.json, and the profile's own examples."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.arap import (
    REEVALUATE,
    TERMINAL,
    AccessRequestInfo,
    Approval,
    CallbackNotification,
    Denial,
    Problem,
    ProblemType,
    Submission,
    Task,
    TaskResponse,
    TaskStatus,
    ToolCall,
    format_instant,
    next_action,
    parse_instant,
    parse_submission,
    retry_after,
)
from arap_service.protocol.authzen import InvalidShape, Wire, parse
from tests.protocol.vectors import load

DENIAL = {"evaluation_id": "eval_1", "expires_at": "2026-04-30T20:25:00Z", "binding_token": "a.b.c", "reason": "r"}
SINGLE: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice", "x": 1},
    "resource": {"type": "document", "id": "q4"},
    "action": {"name": "can_read"},
    "context": {"project": "p", "business_justification": "why"},
    "requested_access": {"requested_until": "2026-05-01T00:15:00Z", "vendor.example/x": 1},
    "denial": DENIAL,
}
ITEM: dict[str, Any] = {"resource": SINGLE["resource"], "action": SINGLE["action"]}
BUNDLE: dict[str, Any] = {"subject": SINGLE["subject"], "items": [ITEM, ITEM], "denial": DENIAL}
TASK: dict[str, Any] = {
    "id": "arq_1",
    "status": "approved",
    "status_endpoint": "https://pdp.example.com/access/v1/requests/arq_1",
    "expires_at": "2026-04-30T23:00:00Z",
    "links": {"cancel": "https://pdp.example.com/access/v1/requests/arq_1/cancel"},
}
APPROVAL: dict[str, Any] = {
    "id": "apr_1",
    "approved_at": "2026-04-30T20:42:00Z",
    "approved_until": "2026-05-01T02:42:00+02:00",
    "state": {"opaque": [1, None]},
    "vendor.example/note": "kept",
}


def pointer_of(shape: type[Wire], value: object) -> str:
    with pytest.raises(InvalidShape) as caught:
        parse(shape, value)
    return caught.value.pointer


def without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: member for name, member in body.items() if name not in names}


@pytest.mark.requirement("PEP-48")
@pytest.mark.parametrize("row", load("next-action"), ids=range(17))
def test_a_denied_reevaluation_asks_what_the_table_says(row: dict[str, Any]) -> None:
    """next-action.json, all 17 rows."""
    context: dict[str, Any] = {name: row[name] for name in ("next_action", "reason") if row[name] is not None}
    if row["access_request_present"]:
        context["access_request"] = {"expires_at": "2026-04-30T20:25:00Z"}
    assert next_action(context) == row["pep_action"]


@pytest.mark.requirement("PEP-48")
@pytest.mark.parametrize("value", [None, 1, [], {}, ["request"]])
def test_a_member_of_the_wrong_type_asks_for_nothing(value: object) -> None:
    """Neither an access request that is no object nor a reason that is no text counts."""
    assert next_action({"next_action": "request", "access_request": value}) == ("request" if value == {} else "none")
    assert next_action({"next_action": value, "reason": "grant_pending"}) == "retry"
    assert next_action({"reason": value}) == "none"


@pytest.mark.parametrize(
    ("value", "seconds"), [(5, 5), (0, 0), (-1, None), (1.5, None), ("5", None), (True, None), (None, None)]
)
def test_only_whole_seconds_count_as_a_delay(value: object, seconds: int | None) -> None:
    """`retry_after` has the semantics of the delta-seconds form of Retry-After."""
    assert retry_after({"retry_after": value}) == seconds
    assert retry_after({}) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-04-30T20:25:00Z", datetime(2026, 4, 30, 20, 25, tzinfo=UTC)),
        ("2026-04-30t20:25:00z", datetime(2026, 4, 30, 20, 25, tzinfo=UTC)),
        ("2026-04-30T22:25:00+02:00", datetime(2026, 4, 30, 20, 25, tzinfo=UTC)),
        ("2026-04-30T20:25:00-00:00", datetime(2026, 4, 30, 20, 25, tzinfo=UTC)),
        ("2026-04-30T12:55:00.5-07:30", datetime(2026, 4, 30, 20, 25, 0, 500_000, tzinfo=UTC)),
        ("2026-04-30T20:25:00.123456789Z", datetime(2026, 4, 30, 20, 25, 0, 123_456, tzinfo=UTC)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_read_as_the_instant_that_it_names(text: str, moment: datetime) -> None:
    """RFC 3339 section 5.6: any offset, fraction and case; ARS-31 compares instants, not spellings."""
    read = parse_instant(text)
    assert read == moment
    assert read.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-04-30",
        "2026-04-30T20:25:00",
        "2026-04-30 20:25:00Z",
        "2026-04-30T20:25Z",
        "2026-04-30T20:25:00+0200",
        "2026-04-30T20:25:00+02:60",
        "2026-04-30T20:25:00+24:00",
        "2026-04-30T20:25:00.Z",
        "2026-02-29T20:25:00Z",
        "2026-04-30T24:00:00Z",
        "2026-06-30T23:59:60Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "0000-01-01T00:00:00Z",
        "\uff12026-04-30T20:25:00Z",
        "2026-04-30T20:25:00Z\n",
        "1777580700",
    ],
)
def test_what_is_no_timestamp_or_no_moment_is_refused_unrepeated(text: str) -> None:
    """Dates that don't exist, offsets that are none, leap seconds, other digits than ASCII, moments out of range."""
    with pytest.raises(ValueError, match=r"^not a moment that exists$|^not an RFC 3339 timestamp$"):
        parse_instant(text)


@given(
    st.datetimes(), st.sampled_from([UTC, timezone(timedelta(hours=-7, minutes=-30)), timezone(timedelta(hours=14))])
)
def test_a_formatted_instant_reads_back_as_itself(local: datetime, zone: timezone) -> None:
    moment = local.replace(year=min(max(local.year, 2), 9998), tzinfo=zone)
    text = format_instant(moment)
    assert parse_instant(text) == moment
    assert text.endswith("Z")


def test_an_instant_is_formatted_in_utc() -> None:
    assert format_instant(datetime(2026, 4, 30, 22, 25, tzinfo=timezone(timedelta(hours=2)))) == "2026-04-30T20:25:00Z"
    assert format_instant(datetime(2026, 4, 30, 20, 25, 0, 5, tzinfo=UTC)) == "2026-04-30T20:25:00.000005Z"
    with pytest.raises(ValueError, match="zone"):
        format_instant(datetime(2026, 4, 30))  # noqa: DTZ001 # that it has no zone is the point


def test_a_problem_type_is_one_of_the_seven_or_ours() -> None:
    """The catalogue's names and statuses; new names never go into the profile's namespace."""
    profile = {one.value.rpartition(":")[2]: one.status for one in ProblemType if one.startswith("urn:openid:")}
    assert profile == {
        "not_requestable": 400,
        "expired_denial": 410,
        "invalid_denial_binding": 400,
        "duplicate_request": 409,
        "unknown_task": 404,
        "task_expired": 410,
        "invalid_task_state": 409,
    }
    ours = {one.value: one.status for one in ProblemType if not one.startswith("urn:openid:")}
    assert all(urn.startswith("urn:x-arap:problem:") for urn in ours)
    assert {urn.rpartition(":")[2]: status for urn, status in ours.items()} == {
        "invalid-request": 400,
        "unauthenticated": 401,
        "forbidden": 403,
        "actor-unverified": 403,
        "input-invalid": 422,
        "catalog-value-rejected": 422,
        "callback-rejected": 400,
        "bulk-unsupported": 400,
        "payload-too-large": 413,
        "rate-limited": 429,
        "ineligible-approver": 403,
        "stale-version": 409,
        "not-found": 404,
        "search-unsupported": 501,
        "upstream-unavailable": 503,
    }


def test_every_status_but_pending_is_terminal() -> None:
    assert set(TaskStatus) - TERMINAL == {"pending"}
    assert {"approved", "denied", "expired", "cancelled", "failed", "partial"} == TERMINAL


def test_a_submission_keeps_every_member() -> None:
    """Profile "Access Request Submission"; unknown members at extension points are kept (ARS-08 is the endpoint's)."""
    full = {
        **SINGLE,
        "callback": {"endpoint": "https://pep.example.com/cb", "state": None, "events": ["approved"]},
        "client": {"id": "c", "actor": {"id": "a", "issuer": "i", "act": {"sub": "b"}}, "source": {"session_id": "s"}},
    }
    submission = parse_submission(full)
    assert submission.wire() == full
    assert submission.about() == (full["subject"], full["resource"], full["action"], full["context"])
    assert submission.denial is not None
    assert submission.denial.deadline == datetime(2026, 4, 30, 20, 25, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (without(SINGLE, "subject"), "/subject"),
        (without(SINGLE, "resource"), "/resource"),
        (without(SINGLE, "action"), "/action"),
        (without(SINGLE, "denial"), "/denial"),
        ({**SINGLE, "denial": without(DENIAL, "expires_at")}, "/denial/expires_at"),
        ({**SINGLE, "denial": {**DENIAL, "expires_at": "tomorrow"}}, "/denial/expires_at"),
        ({**SINGLE, "denial": {**DENIAL, "binding_token": 1}}, "/denial/binding_token"),
        ({**SINGLE, "context": []}, "/context"),
        ({**SINGLE, "requested_access": {"emergency": "yes"}}, "/requested_access/emergency"),
        ({**SINGLE, "callback": {}}, "/callback/endpoint"),
        ({**SINGLE, "callback": {"endpoint": "https://x", "events": "approved"}}, "/callback/events"),
        ({**SINGLE, "client": {"actor": {}}}, "/client/actor/id"),
        ({**BUNDLE, "resource": ITEM["resource"]}, "/resource"),
        ({**BUNDLE, "action": ITEM["action"]}, "/action"),
        ({**BUNDLE, "action": None}, "/action"),
        ({**BUNDLE, "items": []}, "/items"),
        ({**BUNDLE, "items": [ITEM, {"resource": ITEM["resource"]}]}, "/items/1/action"),
        (without(BUNDLE, "denial"), "/denial"),
        ({**without(BUNDLE, "denial"), "items": [{**ITEM, "denial": DENIAL}, ITEM]}, "/denial"),
        ("text", ""),
    ],
)
def test_a_submission_of_another_shape_is_refused_where_it_differs(body: object, pointer: str) -> None:
    """ARS-11 and ARS-77, ARS-78 as far as shape goes; freshness.json F15 is the missing `expires_at`."""
    with pytest.raises(InvalidShape) as caught:
        parse_submission(body)
    assert caught.value.pointer == pointer


def test_a_denial_without_binding_material_has_the_shape() -> None:
    """Its absence is a fault of binding, not of shape, and so is answered with another problem (ARS-11)."""
    submission = parse_submission({**SINGLE, "denial": {"expires_at": DENIAL["expires_at"]}})
    assert submission.denial == Denial(expires_at="2026-04-30T20:25:00Z")
    assert submission.denial.binding_token is None


def test_a_bundle_may_rest_on_one_denial_or_on_one_for_each_item() -> None:
    assert parse_submission(BUNDLE).wire() == BUNDLE
    each = {**without(BUNDLE, "denial"), "items": [{**ITEM, "denial": DENIAL}]}
    assert parse_submission(each).wire() == each
    with pytest.raises(InvalidShape, match="member"):
        parse_submission(BUNDLE).about()


def test_the_members_of_a_denial_come_back_as_they_were_spelt() -> None:
    """Timestamps are echoed unchanged, so they stay text."""
    info = {"expires_at": "2026-04-30t20:25:00.000000001+00:00", "template": "t", "display": {"title": "x"}, "more": 1}
    assert parse(AccessRequestInfo, info).wire() == info
    assert pointer_of(AccessRequestInfo, without(info, "expires_at")) == "/expires_at"
    assert pointer_of(AccessRequestInfo, {**info, "endpoint": 1}) == "/endpoint"


@pytest.mark.requirement("PEP-42")
@pytest.mark.parametrize(
    ("status", "mode"),
    [
        *((status, REEVALUATE) for status in TaskStatus if status != TaskStatus.APPROVED),
        ("granted", REEVALUATE),
        ("Approved", REEVALUATE),
        ("approved", "https://profile.example/token"),
        ("approved", ""),
    ],
)
def test_an_unknown_status_or_mode_and_a_result_without_approval_approve_nothing(status: str, mode: str) -> None:
    """Results of tasks that aren't approved are diagnostics."""
    response = {"task": {**TASK, "status": status}, "result": {"mode": mode, "approval": APPROVAL}}
    assert parse(TaskResponse, response).approval is None


@pytest.mark.requirement("PEP-42")
def test_an_approved_task_without_a_usable_result_approves_nothing() -> None:
    """Also not by a top-level result of a bundle, which authorises none of its items."""
    result = {"mode": REEVALUATE, "approval": APPROVAL}
    item = {**ITEM, "status": "approved", "result": result}
    assert parse(TaskResponse, {"task": TASK}).approval is None
    assert parse(TaskResponse, {"task": TASK, "result": {"mode": REEVALUATE}}).approval is None
    assert parse(TaskResponse, {"task": {**TASK, "items": [item]}, "result": result}).approval is None


def test_the_approval_of_an_approved_task_is_returned_unchanged() -> None:
    """Unknown members and the opaque state included; PEP-40 is the gate's."""
    approval = parse(TaskResponse, {"task": TASK, "result": {"mode": REEVALUATE, "approval": APPROVAL}}).approval
    assert isinstance(approval, Approval)
    assert approval.wire() == APPROVAL
    assert approval.until == datetime(2026, 5, 1, 0, 42, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/task"),
        ({"task": without(TASK, "id")}, "/task/id"),
        ({"task": {**TASK, "id": ""}}, "/task/id"),
        ({"task": without(TASK, "status")}, "/task/status"),
        ({"task": without(TASK, "status_endpoint")}, "/task/status_endpoint"),
        ({"task": {**TASK, "expires_at": 5}}, "/task/expires_at"),
        ({"task": {**TASK, "links": {"a/b": 5}}}, "/task/links/a~1b"),
        ({"task": TASK, "result": {}}, "/result/mode"),
        ({"task": TASK, "result": {"mode": "x", "approval": without(APPROVAL, "id")}}, "/result/approval/id"),
        (
            {"task": TASK, "result": {"mode": "x", "approval": {**APPROVAL, "approved_until": "x"}}},
            "/result/approval/approved_until",
        ),
    ],
)
def test_a_task_response_of_another_shape_is_refused(body: object, pointer: str) -> None:
    assert pointer_of(TaskResponse, body) == pointer


def test_a_task_that_we_build_has_only_the_members_that_we_gave() -> None:
    """Absent members stay absent instead of becoming null."""
    assert Task(id="arq_1", status="pending", status_endpoint="https://x/1").wire() == {
        "id": "arq_1",
        "status": "pending",
        "status_endpoint": "https://x/1",
    }


def test_a_notification_needs_a_task_and_brings_the_state_back() -> None:
    """Profile "Callback Completion": the state may be any JSON."""
    for state in ("b3Blbg", {"a": [None]}, 0):
        notification = parse(CallbackNotification, {"state": state, "task": TASK})
        assert notification.state == state
        assert notification.task.id == "arq_1"
    assert pointer_of(CallbackNotification, {"state": "s"}) == "/task"


def test_a_shown_call_is_complete_unless_it_says_otherwise() -> None:
    call = {"server": "bank", "tool": "wire_transfer", "arguments": {"amount": 2**60}}
    assert parse(ToolCall, call).complete is True
    assert parse(ToolCall, call).wire() == call
    assert parse(ToolCall, {**call, "complete": False}).complete is False
    assert pointer_of(ToolCall, {**call, "complete": "no"}) == "/complete"
    assert pointer_of(ToolCall, {**call, "arguments": None}) == "/arguments"


def test_a_problem_may_be_of_a_type_that_we_do_not_know() -> None:
    problem = parse(Problem, {"type": "https://example.com/odd", "status": 418, "pointers": ["/a"]})
    assert problem.type == "https://example.com/odd"
    assert parse(Problem, {}).type == "about:blank"


def test_a_shape_cannot_be_changed_after_parsing() -> None:
    submission = parse(Submission, SINGLE)
    with pytest.raises(ValueError, match="frozen"):
        submission.denial = None  # type: ignore[misc]  # that this is an error is the point
