"""What a reviewer's form says, read strictly: every field once, of bounded length, free of control characters.

It turns fields into values or into messages beside the fields. Whether the decision is allowed is not judged here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from arap_service.domain.reasons import ReasonRule
from arap_service.domain.visible import is_blank
from arap_service.views import RequestDetail
from arap_service.web.words import span

REASON_LIMIT: Final = 2_000
MOST_OFFERED: Final = 40
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_WHOLE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
NO_RULES: Final[Mapping[str, ReasonRule]] = MappingProxyType({})
_LIFETIMES: Final = (60, 300, 900, 3_600, 14_400, 86_400, 604_800)

Choice = Literal["approve", "deny"]
_CHOICES: Final[Mapping[str, Choice]] = MappingProxyType({"approve": "approve", "deny": "deny"})


class UnreadableForm(Exception):
    """The body is no form of ours: a repeated field, a file, a missing version."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the reviewer chose; `seconds` shortens how long an approval lasts, counted from the decision."""

    decision: Choice
    version: int
    reason: str | None
    seconds: int | None


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Messages by field name, and what had been typed, so that nothing has to be typed again."""

    messages: Mapping[str, str]
    typed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Offered:
    """One value of a call as the form offers it to be changed."""

    field: str
    pointer: str
    text: str


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One choice of how long an approval lasts; `value` is empty for the longest that is allowed."""

    value: str
    label: str


def lifetimes(longest: int) -> Sequence[Lifetime]:
    """The choices for an approval that may last `longest` seconds, the longest first."""
    shorter = [Lifetime(str(seconds), span(seconds)) for seconds in reversed(_LIFETIMES) if seconds < longest]
    return [Lifetime("", f"{span(longest)} (longest allowed)"), *shorter]


def only(pairs: Sequence[tuple[str, object]]) -> dict[str, str]:
    """The fields by name.

    Raises:
        UnreadableForm: when a field comes twice or is not text.
    """
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields or not isinstance(value, str):
            raise UnreadableForm
        fields[name] = value
    return fields


def text(value: str) -> str:
    """Free text with one kind of line end and no blanks around it."""
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def whole(value: str | None) -> int:
    """A whole number as our own pages write it.

    Raises:
        UnreadableForm: when it is anything else.
    """
    if value is None or not _WHOLE.fullmatch(value):
        raise UnreadableForm
    return int(value)


def read_reason(fields: Mapping[str, str], *, needed: bool, rule: ReasonRule | None = None) -> str | Mistakes | None:
    """The reason given, nothing, or what is wrong with it; `rule` says what it must contain."""
    reason = text(fields.get("reason", ""))
    message = None
    if needed and is_blank(reason):
        message = "Please say why. The reason goes into the record of this request."
        message += f" {rule.hint}" if rule is not None else ""
    elif len(reason) > REASON_LIMIT:
        message = f"Please keep the reason under {REASON_LIMIT:,} characters."
    elif _CONTROL.search(reason):
        message = "The reason contains characters that cannot be shown. Please type it again."
    elif rule is not None and not rule.fits(reason):
        message = f"The reason lacks something. {rule.hint}"
    if message is not None:
        return Mistakes({"reason": message}, {"reason": _CONTROL.sub("", reason)[:REASON_LIMIT]})
    return reason or None


def read_scope(fields: Mapping[str, str]) -> frozenset[str] | None:
    """The members that a form leaves free to vary; None when it does not ask."""
    if "scope" not in fields:
        return None
    return frozenset(value for name, value in fields.items() if name.startswith("vary-"))


def offered(detail: RequestDetail) -> Sequence[Offered]:
    """The values of a call that a denial can propose otherwise; none where the page cannot show them all."""
    if not detail.may_propose or len(detail.arguments) > MOST_OFFERED:
        return ()
    return [
        Offered(f"propose-{index}", value.pointer, value.text)
        for index, value in enumerate(detail.arguments)
        if not value.masked and not value.suspicious and len(value.text) <= REASON_LIMIT
    ]


def read_proposal(fields: Mapping[str, str], offers: Sequence[Offered]) -> dict[str, str]:
    """The values that were changed in the form, by their place."""
    given = {offer: text(fields[offer.field]) for offer in offers if offer.field in fields}
    return {offer.pointer: typed for offer, typed in given.items() if typed != text(offer.text)}


def read_decision(
    fields: Mapping[str, str], *, reason_required: frozenset[str], reasons: Mapping[str, ReasonRule] = NO_RULES
) -> Decision | Mistakes:
    """The decision, or what has to be mended before it can be one; `reasons` say what those of decisions must contain.

    Raises:
        UnreadableForm: when it does not come from our page: no decision, no version, a strange lifetime.
    """
    decision = _CHOICES.get(fields.get("decision", ""))
    if decision is None:
        raise UnreadableForm
    version = whole(fields.get("version"))
    chosen = fields.get("lifetime", "")
    seconds = whole(chosen) if chosen else None
    if seconds == 0:
        raise UnreadableForm
    reason = read_reason(fields, needed=decision in reason_required, rule=reasons.get(decision))
    if isinstance(reason, Mistakes):
        return reason
    return Decision(decision, version, reason, seconds if decision == "approve" else None)
