"""Signing and verifying callbacks. The signature is recomputed here by hand from the Standard Webhooks text."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.callback import CallbackReceiver, CallbackRejected, EventReceiver, sign, verify

NOW = datetime(2026, 4, 30, 20, 0, tzinfo=UTC)
OLD_KEY, NEW_KEY, OTHER_KEY = b"old" * 8, b"new" * 8, b"oth" * 8
BODY = json.dumps(
    {"task": {"id": "arq_1", "status": "approved", "status_endpoint": "https://x/1"}, "state": {"ü": 1}}
).encode()


def signed(body: bytes = BODY, **changes: Any) -> dict[str, str]:
    arguments: dict[str, Any] = {"webhook_id": "msg_1", "at": NOW, "keys": [NEW_KEY]} | changes
    return sign(body, **arguments)


def refusal(body: bytes, headers: dict[str, str], **changes: Any) -> str:
    arguments: dict[str, Any] = {"keys": [NEW_KEY], "now": NOW} | changes
    with pytest.raises(CallbackRejected) as caught:
        verify(body, headers, **arguments)
    return caught.value.reason


@pytest.mark.requirement("ARS-96")
def test_id_timestamp_and_body_are_signed_in_the_published_layout() -> None:
    """Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, base64, prefixed `v1,`."""
    seconds = str(int(NOW.timestamp()))
    mac = hmac.new(NEW_KEY, b"msg_1." + seconds.encode() + b"." + BODY, hashlib.sha256).digest()
    assert signed() == {
        "webhook-id": "msg_1",
        "webhook-timestamp": seconds,
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
    }


@pytest.mark.requirement("ARS-96")
def test_during_a_rotation_either_key_verifies() -> None:
    """Both signatures travel in one header; a receiver may hold the old key, the new one or both."""
    both = signed(keys=[OLD_KEY, NEW_KEY])
    assert len(both["webhook-signature"].split(" ")) == 2
    for keys in ([OLD_KEY], [NEW_KEY], [OTHER_KEY, OLD_KEY]):
        verify(BODY, both, keys=keys, now=NOW)
    verify(BODY, signed(keys=[OLD_KEY]), keys=[NEW_KEY, OLD_KEY], now=NOW)
    assert refusal(BODY, both, keys=[OTHER_KEY]) == "signature"
    assert refusal(BODY, both, keys=[]) == "signature"


@pytest.mark.requirement("ARS-96", "PEP-93")
@pytest.mark.parametrize(
    ("seconds", "accepted"), [(0, True), (300, True), (-300, True), (301, False), (-301, False), (360, False)]
)
def test_a_delivery_is_believed_for_five_minutes_either_way(seconds: int, *, accepted: bool) -> None:
    """A replay after six minutes is refused whatever its signature."""
    later = NOW + timedelta(seconds=seconds)
    if accepted:
        verify(BODY, signed(), keys=[NEW_KEY], now=later)
    else:
        assert refusal(BODY, signed(), now=later) == "timestamp"
    assert refusal(BODY, signed(), now=NOW + timedelta(seconds=11), tolerance_seconds=10) == "timestamp"


@pytest.mark.requirement("ARS-96", "PEP-93")
@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp"])
def test_an_altered_body_id_or_time_is_refused(header: str) -> None:
    assert refusal(BODY + b" ", signed()) == "signature"
    altered = {"webhook-id": "msg_2", "webhook-timestamp": str(int(NOW.timestamp()) + 1)}[header]
    assert refusal(BODY, {**signed(), header: altered}) == "signature"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"webhook-id": ""}, "headers"),
        ({"webhook-id": "msg.1"}, "headers"),
        ({"webhook-id": "m" * 256}, "headers"),
        ({"webhook-id": "msg_1\n"}, "headers"),
        ({"webhook-signature": ""}, "headers"),
        ({"webhook-signature": " v1,x"}, "headers"),
        ({"webhook-signature": " ".join(["v1,x"] * 17)}, "headers"),
        ({"Webhook-Id": "msg_2"}, "headers"),
        ({"webhook-timestamp": ""}, "timestamp"),
        ({"webhook-timestamp": "1777579200.5"}, "timestamp"),
        ({"webhook-timestamp": "-1"}, "timestamp"),
        ({"webhook-timestamp": "nan"}, "timestamp"),
        ({"webhook-timestamp": "1_777_579_200"}, "timestamp"),
        ({"webhook-timestamp": "9" * 400}, "timestamp"),
        ({"webhook-timestamp": "99999999999"}, "timestamp"),
        ({"webhook-timestamp": "\u0661777579200"}, "timestamp"),
        ({"webhook-signature": "v1"}, "signature"),
        ({"webhook-signature": "v1,,"}, "signature"),
        ({"webhook-signature": "v1,ü\ud800"}, "signature"),
        ({"webhook-signature": "v1a,AAAA v2,BBBB ,"}, "signature"),
    ],
)
def test_a_hostile_header_is_refused_and_nothing_else_is_raised(changes: dict[str, str], reason: str) -> None:
    """The library's own verification raises ValueError or UnicodeDecodeError on several of these."""
    assert refusal(BODY, {**signed(), **changes}) == reason


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "other"]),
        st.text(max_size=20) | st.integers().map(str),
    ),
    st.binary(max_size=20),
)
def test_whatever_an_unsigned_request_has_it_is_refused(headers: dict[str, str], body: bytes) -> None:
    assert refusal(body, headers)


def test_header_names_are_read_in_any_case_and_other_headers_may_repeat() -> None:
    headers = {name.title(): value for name, value in signed().items()} | {"Accept": "a", "accept": "b"}
    verify(BODY, headers, keys=[NEW_KEY], now=NOW)


def test_a_body_that_is_not_utf8_is_refused_by_the_receiver_and_not_signed_by_the_sender() -> None:
    assert refusal(b"\xff", signed()) == "body"
    with pytest.raises(ValueError, match="utf-8"):
        signed(b"\xff")


def test_the_time_of_an_attempt_may_be_given_in_any_zone() -> None:
    """The library alone would take the local time for UTC."""
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-7))) + timedelta(milliseconds=900)
    assert signed(at=elsewhere) == signed()


@pytest.mark.parametrize(
    "changes",
    [
        {"webhook_id": "a.b"},
        {"webhook_id": ""},
        {"keys": []},
        {"keys": [b"short"]},
        {"at": NOW.replace(tzinfo=None)},
    ],
)
def test_what_the_layout_cannot_carry_safely_is_not_signed(changes: dict[str, Any]) -> None:
    """An id with a dot could be read in two ways, and a short key could be guessed."""
    with pytest.raises(ValueError, match=r"webhook id|needs a key|at least 24 bytes|needs a zone"):
        signed(**changes)


class Memory:
    """Ids that were seen, and how often it was asked."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.asked = 0

    def seen(self, webhook_id: str) -> bool:
        self.asked += 1
        was_there = webhook_id in self.ids
        self.ids.add(webhook_id)
        return was_there


@pytest.mark.requirement("PEP-93")
def test_a_receiver_reads_an_authentic_delivery_once() -> None:
    """The second is refused as replayed, with a fresh timestamp too, as an attempt after a lost answer has it."""
    memory = Memory()
    receiver = CallbackReceiver(keys=[NEW_KEY], seen=memory.seen)
    notification = receiver.receive(BODY, signed(), now=NOW)
    assert notification.task.id == "arq_1"
    assert notification.state == {"ü": 1}
    later = NOW + timedelta(minutes=20)
    with pytest.raises(CallbackRejected) as caught:
        receiver.receive(BODY, signed(at=later), now=later)
    assert caught.value.reason == "replayed"
    assert receiver.receive(BODY, signed(webhook_id="msg_2"), now=NOW).task.id == "arq_1"


@pytest.mark.requirement("PEP-93")
@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (BODY, signed(keys=[OTHER_KEY]), "signature"),
        (BODY, signed(at=NOW - timedelta(minutes=6)), "timestamp"),
        (b"{", signed(b"{"), "json"),
        (b'{"task":1,"task":2}', signed(b'{"task":1,"task":2}'), "json"),
        (b'{"state":1}', signed(b'{"state":1}'), "shape"),
    ],
)
def test_a_delivery_that_is_refused_spends_no_id(body: bytes, headers: dict[str, str], reason: str) -> None:
    """Otherwise a forger could make the authentic delivery look replayed."""
    memory = Memory()
    with pytest.raises(CallbackRejected) as caught:
        CallbackReceiver(keys=[NEW_KEY], seen=memory.seen).receive(body, headers, now=NOW)
    assert caught.value.reason == reason
    assert memory.asked == 0
    assert "arq_1" not in str(caught.value)


def told(number: int, **changes: Any) -> bytes:
    event = {"id": str(number), "event": "approved", "request": "task_1", "at": "2026-04-30T19:59:00Z"}
    return json.dumps({**event, "evaluation_id": "ev_1", **changes}).encode()


class Newest:
    """The highest number of each request, as a receiver keeps it."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def advance(self, request: str, number: int) -> bool:
        self._numbers[request] = max(number, self._numbers.get(request, 0))
        return self._numbers[request] == number


@pytest.mark.requirement("ARS-98")
def test_event_that_comes_after_a_later_one_can_be_told() -> None:
    """Deliveries are tried again at times of their own, so the order of arrival says nothing."""
    known: set[str] = set()

    def seen(webhook_id: str) -> bool:
        is_known = webhook_id in known
        known.add(webhook_id)
        return is_known

    receiver = EventReceiver(keys=[NEW_KEY], seen=seen, advance=Newest().advance)
    arrived = [
        receiver.receive(body, signed(body, webhook_id=f"msg_{place}"), now=NOW)
        for place, body in enumerate((told(5), told(9), told(7), told(6, request="task_2"), told(11)))
    ]
    assert [(each.id, each.is_late) for each in arrived] == [
        (5, False),
        (9, False),
        (7, True),
        (6, False),
        (11, False),
    ]
    assert (arrived[0].event, arrived[0].request, arrived[0].at) == ("approved", "task_1", NOW - timedelta(minutes=1))
    with pytest.raises(CallbackRejected, match="replayed"):
        receiver.receive(told(5), signed(told(5), webhook_id="msg_0"), now=NOW)


@pytest.mark.requirement("ARS-96")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "shape"),
        (b"{", "json"),
        (b'{"id":"1","id":"2"}', "json"),
        (told(1, id=1), "shape"),
        (told(1, id="-1"), "shape"),
        (told(1, id="9" * 19), "shape"),
        (told(1, event=None), "shape"),
        (told(1, request=[]), "shape"),
        (told(1, at="yesterday"), "shape"),
        (told(1, at=5), "shape"),
    ],
)
def test_event_of_another_form_spends_no_id_and_moves_nothing(body: bytes, reason: str) -> None:
    def never(*_: object) -> bool:
        raise AssertionError

    receiver = EventReceiver(keys=[NEW_KEY], seen=never, advance=never)
    for headers, expected in ((signed(body), reason), (signed(body, keys=[OTHER_KEY]), "signature")):
        with pytest.raises(CallbackRejected) as caught:
            receiver.receive(body, headers, now=NOW)
        assert caught.value.reason == expected
    with pytest.raises(CallbackRejected) as caught:
        receiver.receive(body, signed(body), now=NOW + timedelta(minutes=6))
    assert caught.value.reason == "timestamp"
