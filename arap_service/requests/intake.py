"""Step 2 of the submission pipeline: is this a submission at all, and under which key was it sent?

Reads bytes strictly and checks shapes; it believes nothing of what they say. Catalogue section 1; ARS-11, ARS-44.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from arap_service.domain.errors import BulkUnsupported, InvalidDenialBinding, InvalidRequest
from arap_service.domain.names import is_too_long, names_of
from arap_service.protocol.arap import Denial, Submission, ToolCall, parse_submission
from arap_service.protocol.authzen import InvalidShape, parse
from arap_service.protocol.canonical import (
    TOOL_CALL,
    InvalidJson,
    Tuple4,
    Unrepresentable,
    digest,
    json_pointer,
    strict_loads,
)

MAX_KEY: Final = 255
_BARE: Final = re.compile(r"[\x21-\x7e]+")
_QUOTED: Final = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')


@dataclass(frozen=True, slots=True)
class Intake:
    """A well-formed submission: the body as sent, its digest, the four objects and the call that it shows."""

    body: Mapping[str, Any]
    digest: str
    submission: Submission
    denial: Denial
    about: Tuple4
    call: ToolCall | None

    @property
    def requested_access(self) -> Mapping[str, Any]:
        """What the requester would like, unknown members included."""
        wanted: Mapping[str, Any] = self.body.get("requested_access", {})
        return wanted


@dataclass(frozen=True, slots=True)
class Bundle:
    """A well-formed submission of several items: each as if it had been submitted by itself, in their order.

    `own` says of each whether it carries a denial of its own; `covering` is the denial of the whole bundle, which is
    looked at when one does not (ARS-78).
    """

    body: Mapping[str, Any]
    digest: str
    items: tuple[Intake, ...]
    own: tuple[bool, ...]
    covering: Denial | None


def read_submission(raw: bytes, *, max_depth: int, max_items: int) -> Intake | Bundle:
    """The submission in `raw`; `max_items` is 0 where one request asks for one thing only.

    Raises:
        InvalidRequest: It is no JSON of the required shape, or holds numbers that nothing can be bound to.
        BulkUnsupported: It names several items, which are not taken here.
    """
    try:
        body = strict_loads(raw, max_depth=max_depth)
        submission = parse_submission(body)
        fingerprint = digest(body)  # ARS-41
    except (InvalidJson, InvalidShape, Unrepresentable) as fault:
        raise InvalidRequest(pointer=fault.pointer) from None
    given: dict[str, Any] = body  # type: ignore[assignment]  # parse_submission accepts objects only
    if submission.items is None:
        return _intake(given, fingerprint, submission)
    if not max_items:
        raise BulkUnsupported  # ARS-87
    return _bundle(given, fingerprint, submission, max_items=max_items)


def at_item(index: int, pointer: str) -> str:
    """A pointer into an item that was read as a submission of its own, as one into the submission of all.

    Subject, context and the rest are shared, and stand where they stood.
    """
    is_own = pointer.split("/")[1:2] in (["resource"], ["action"], ["denial"], ["requested_access"])
    return f"/items/{index}{pointer}" if is_own else pointer


def _bundle(given: dict[str, Any], fingerprint: str, submission: Submission, *, max_items: int) -> Bundle:
    listed: list[dict[str, Any]] = given["items"]
    if len(listed) > max_items:
        raise InvalidRequest(f"A request may have {max_items} items.", pointer="/items")  # ARS-80
    seen: set[str] = set()
    intakes: list[Intake] = []
    for index, item in enumerate(listed):
        asked = digest({"resource": item["resource"], "action": item["action"]})
        if asked in seen:
            raise InvalidRequest("The same thing is asked for twice.", pointer=f"/items/{index}")  # ARS-80
        seen.add(asked)
        alone = _alone(given, item)
        try:
            intakes.append(_intake(alone, fingerprint, parse_submission(alone)))
        except InvalidShape as fault:
            raise InvalidRequest(pointer=at_item(index, fault.pointer)) from None
        except InvalidRequest as fault:
            raise InvalidRequest(fault.detail, pointer=at_item(index, str(fault.extra["pointer"]))) from None
    own = tuple(item.get("denial") is not None for item in listed)
    return Bundle(given, fingerprint, tuple(intakes), own, None if all(own) else submission.denial)


def _alone(given: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as a submission of its own, with what it shares with the others."""
    shared = {name: member for name, member in given.items() if name not in {"items", "denial", "requested_access"}}
    wanted = {**given.get("requested_access", {}), **item.get("requested_access", {})}  # ARS-81: the item wins
    denial = given.get("denial") if item.get("denial") is None else item["denial"]
    alone = {**shared, "resource": item["resource"], "action": item["action"], "denial": denial}
    return {**alone, "requested_access": wanted} if wanted else alone


def _intake(given: dict[str, Any], fingerprint: str, submission: Submission) -> Intake:
    if submission.denial is None:  # only `items` may do without
        raise InvalidRequest(pointer="/denial")
    about = Tuple4(given["subject"], given["resource"], given["action"], given.get("context", {}))
    call = _call(about.context)
    _check_names(about, submission.denial)
    return Intake(given, fingerprint, submission, submission.denial, about, call)


def require_binding(denial: Denial) -> None:
    """Step 5: the submission names a denial in a way that can be verified.

    Raises:
        InvalidDenialBinding: Neither token nor evaluation id is there.
    """
    if denial.binding_token is None and denial.evaluation_id is None:  # ARS-11
        raise InvalidDenialBinding("A binding token or an evaluation id is required.")


def read_key(header: str | None) -> str | None:
    """The idempotency key of a header, the same whether it was sent as a structured string or bare (ARS-44).

    Raises:
        InvalidRequest: The header is neither, or the key is too long.
    """
    if header is None:
        return None
    text = header.strip(" \t")
    if quoted := _QUOTED.fullmatch(text):
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    elif _BARE.fullmatch(text) and not text.startswith('"'):
        key = text
    else:
        raise InvalidRequest("The Idempotency-Key is neither a structured-field string nor a bare token.")
    if not 0 < len(key) <= MAX_KEY:
        raise InvalidRequest(f"The Idempotency-Key must have 1 to {MAX_KEY} characters.")
    return key


def _check_names(about: Tuple4, denial: Denial) -> None:
    """Names are stored unsealed to be searched by: PostgreSQL stores no NUL, and indexes nothing that is too long."""
    for pointer, name in (*names_of(about), ("/denial/evaluation_id", denial.evaluation_id or "")):
        if "\x00" in name or is_too_long(name):
            raise InvalidRequest(pointer=pointer)


def _call(context: Mapping[str, Any]) -> ToolCall | None:
    if TOOL_CALL not in context:
        return None
    try:
        return parse(ToolCall, context[TOOL_CALL])
    except InvalidShape as fault:
        raise InvalidRequest(pointer=json_pointer(("context", TOOL_CALL)) + fault.pointer) from None
