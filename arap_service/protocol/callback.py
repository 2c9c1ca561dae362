"""Signs callback bodies and verifies them, in the Standard Webhooks layout with any number of keys.

Decides whether a delivery is authentic, fresh and new, and for events whether a later one came before. A callback only
wakes the receiver up: what it says about the task is never acted on. `standardwebhooks` computes the signature; its own
verification reads the wall clock and raises whatever a hostile header provokes, so it isn't used.
Sources: Standard Webhooks 1.0, access request profile "Callback Completion", ARS-95, ARS-96, PEP-93.
"""

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue
from standardwebhooks import Webhook

from arap_service.protocol.arap import CallbackNotification, parse_instant
from arap_service.protocol.authzen import InvalidShape, parse
from arap_service.protocol.canonical import InvalidJson, strict_loads

TOLERANCE_SECONDS: Final = 300
"""How far the signed time may be from ours, either way (ARS-96)."""

_SHORTEST_KEY: Final = 24
_MOST_SIGNATURES: Final = 16
# No dot: it separates the signed parts, and an id with one could be read in two ways.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)
_SECONDS: Final = re.compile(r"\d{1,11}", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)


class CallbackRejected(ValueError):
    """A delivery that must not be believed; `reason` is for the log, never for the sender.

    Reasons: `headers`, `timestamp`, `body`, `signature`, `json`, `shape`, `replayed`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the callback is rejected: {reason}")
        self.reason = reason


def sign(body: bytes, *, webhook_id: str, at: datetime, keys: Sequence[bytes]) -> dict[str, str]:
    """The three headers of one delivery attempt: same id on every attempt, `at` its own time, one signature per key.

    Raises:
        ValueError: for an id, key or body that the layout cannot carry, and for a datetime without a zone.
    """
    if _ID.fullmatch(webhook_id) is None:
        raise ValueError("a webhook id has 1 to 255 letters, digits, - and _")
    if not keys:
        raise ValueError("a callback needs a key")
    if at.tzinfo is None:
        raise ValueError("a moment needs a zone")
    moment = at.astimezone(UTC).replace(microsecond=0)
    text = body.decode()
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": " ".join(_signature(key, webhook_id, moment, text) for key in keys),
    }


def verify(
    body: bytes,
    headers: Mapping[str, str],
    *,
    keys: Sequence[bytes],
    now: datetime,
    tolerance_seconds: int = TOLERANCE_SECONDS,
) -> None:
    """Accept a delivery that one of the keys signed, within the tolerance of `now` (ARS-96).

    Raises:
        CallbackRejected: for anything else, whatever the sender made of body and headers.
    """
    webhook_id, moment, offered = _read(headers)
    if abs(now - moment) > timedelta(seconds=tolerance_seconds):
        raise CallbackRejected("timestamp")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise CallbackRejected("body") from None
    expected = [_signature(key, webhook_id, moment, text).encode() for key in keys]
    # Every pair is compared, so that the time tells nothing about which key or signature came close.
    matches = [hmac.compare_digest(one, other) for one in expected for other in offered]
    if not any(matches):
        raise CallbackRejected("signature")


def _read(headers: Mapping[str, str]) -> tuple[str, datetime, list[bytes]]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        if name.lower() in found:
            raise CallbackRejected("headers")
        if name.lower().startswith("webhook-"):
            found[name.lower()] = value
    webhook_id, seconds = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    signatures = found.get("webhook-signature", "").split(" ")
    if _ID.fullmatch(webhook_id) is None or not signatures[0] or len(signatures) > _MOST_SIGNATURES:
        raise CallbackRejected("headers")
    if _SECONDS.fullmatch(seconds) is None:
        raise CallbackRejected("timestamp")
    moment = datetime.fromtimestamp(int(seconds), tz=UTC)
    return webhook_id, moment, [signature.encode(errors="replace") for signature in signatures]


def _signature(key: bytes, webhook_id: str, moment: datetime, text: str) -> str:
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"a callback key has at least {_SHORTEST_KEY} bytes")
    return Webhook(key).sign(webhook_id, moment, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackReceiver:
    """Verifies and reads deliveries, each id once.

    `seen` answers whether an id was received before and remembers it in the same step. It is asked last, so that
    nothing but an authentic and readable delivery spends an id. Ids must be remembered for twice the tolerance.
    """

    keys: Sequence[bytes]
    seen: Callable[[str], bool]
    tolerance_seconds: int = TOLERANCE_SECONDS

    def receive(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> CallbackNotification:
        """The notification of an authentic, fresh and new delivery (PEP-93).

        Raises:
            CallbackRejected: for any other; `replayed` is no fault of the sender, who delivers at least once.
        """
        verify(body, headers, keys=self.keys, now=now, tolerance_seconds=self.tolerance_seconds)
        try:
            notification = parse(CallbackNotification, strict_loads(body))
        except InvalidJson:
            raise CallbackRejected("json") from None
        except InvalidShape:
            raise CallbackRejected("shape") from None
        webhook_id, _, _ = _read(headers)
        if self.seen(webhook_id):
            raise CallbackRejected("replayed")
        return notification


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent:
    """An event of a subscription; `is_late` when a later one about the same request was received before it.

    It says that something has happened. What may be done because of it has to be asked for (ARS-98).
    """

    id: int
    event: str
    request: str
    at: datetime
    is_late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceiver:
    """Verifies and reads the deliveries of a subscription, each once, and tells late ones from those in order.

    `keys`, `seen` and the tolerance are as for `CallbackReceiver`. `advance` is given a request and the number of an
    event, remembers the highest number of each request, and answers whether this one is it.
    """

    keys: Sequence[bytes]
    seen: Callable[[str], bool]
    advance: Callable[[str, int], bool]
    tolerance_seconds: int = TOLERANCE_SECONDS

    def receive(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> ReceivedEvent:
        """The event of an authentic, fresh and new delivery.

        Raises:
            CallbackRejected: for any other; `replayed` is no fault of the sender, who delivers at least once.
        """
        verify(body, headers, keys=self.keys, now=now, tolerance_seconds=self.tolerance_seconds)
        try:
            told = strict_loads(body)
        except InvalidJson:
            raise CallbackRejected("json") from None
        number, name, request, at = _event(told)
        webhook_id, _, _ = _read(headers)
        if self.seen(webhook_id):
            raise CallbackRejected("replayed")
        return ReceivedEvent(id=number, event=name, request=request, at=at, is_late=not self.advance(request, number))


def _event(told: JsonValue) -> tuple[int, str, str, datetime]:
    found = told if isinstance(told, dict) else {}
    number, name, request, at = (found.get(member) for member in ("id", "event", "request", "at"))
    if not (isinstance(number, str) and isinstance(name, str) and isinstance(request, str) and isinstance(at, str)):
        raise CallbackRejected("shape")
    if _NUMBER.fullmatch(number) is None:
        raise CallbackRejected("shape")
    try:
        return int(number), name, request, parse_instant(at)
    except ValueError:
        raise CallbackRejected("shape") from None
