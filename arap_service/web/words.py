"""How the desk speaks of time, state and people: pure functions from values to the words on a page.

It knows no request and no HTML. Reviewers read these words, so none of the protocol's terms appear here.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from arap_service.domain.reasons import ReasonRule

_PEOPLE: Final = frozenset({"user", "identity", "person"})  # types that a reader takes for granted of who asks
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))

STATUS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pending": "Waiting for a decision",
        "approved": "Approved",
        "denied": "Denied",
        "expired": "Expired",
        "cancelled": "Withdrawn",
        "failed": "Failed",
        "partial": "Partly approved",
    }
)
RISK: Final[Mapping[str, str]] = MappingProxyType({"low": "Low risk", "medium": "Medium risk", "high": "High risk"})
USED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "approved-executed": "Used: it ran once; nothing more can run with it.",
        "execution-error": "Used: it was started once and reported an error; nothing more can run with it.",
        "outcome-unknown": "Used: it was started once, and no answer came back; nothing more can run with it.",
    }
)
DISPOSITION: Final[Mapping[str, str]] = MappingProxyType(
    {
        "approved-executed": "It ran once, with the values shown here.",
        "denied-not-executed": "It did not run: the final check refused it.",
        "execution-error": "It was started and reported an error.",
        "outcome-unknown": "It was started, but no answer came back. It may or may not have taken effect; "
        "it will not be started again.",
        "cancelled": "It did not run: it was called off.",
        "failed": "It did not run: something failed before it could be started.",
    }
)
WHY_NOT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "not_active": "Your account is not active.",
        "is_subject": "The request is made in your name, so somebody else has to decide it.",
        "is_submitter": "You made this request yourself, so somebody else has to decide it.",
        "is_actor": "You take part in carrying out this request, so somebody else has to decide it.",
        "same_person": "You proposed this yourself, so somebody else has to confirm it.",
        "missing_scope": "Only an administrator may do this.",
        "not_assigned": "You are not among the people who decide requests of this kind.",
        "step_not_open": "It is not your turn yet: others decide first.",
        "absent_may_not": "Whoever you stand in for may not decide this request, so you may not in their place.",
        "already_decided": "Your decision is recorded below and cannot be changed.",
        "step_up_required": "You have to log in once more before you decide this.",
        "deadline_passed": "The time to decide has run out.",
        "counted_in_another_step": "You already count in another step, so somebody else has to decide this one.",
    }
)

STANDING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "decided": "has decided",
        "is_subject": "it is asked in their name",
        "is_submitter": "has asked for it",
        "is_actor": "takes part in it",
    }
)
SEVERAL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "recorded": "Your decision is recorded.",
        "changed": "Not recorded: it changed after you chose it. Please look at it again.",
        "ended": "Not recorded: it was settled or ran out of time before.",
        "incomplete": "Not recorded: this one needs something else in the reason, or no time is left for it.",
        "step_up_required": "Not recorded: it needs a fresh log-in. Please decide it by itself.",
        "unknown": "Not recorded: it is decided on its own page, or is not there for you any more.",
        "unsure": "Perhaps recorded: the database stopped answering. Please look at the request.",
        "not_tried": "Not recorded: the database had stopped answering, so this one was not tried.",
    }
)
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "absent": "not there",
        "number": "the number {}",
        "text": "the text {}",
        "yes-no": "{}",
        "nothing": "nothing (null)",
        "empty": "empty ({})",
    }
)
_BUTTONS: Final[Mapping[str, str]] = MappingProxyType({"approve": "To approve", "deny": "To deny"})
OUTCOME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "denied": "It was refused. Nothing runs, and the requester has been told.",
        "expired": "Nobody decided in time. Nothing runs.",
        "cancelled": "It was called off before a decision. Nothing runs.",
        "failed": "It could not be handled. Nothing runs.",
    }
)


def span(seconds: float) -> str:
    """A length of time in its two largest units, rounded down: `2 hours 5 minutes`."""
    left = max(0, int(seconds))
    for index, (size, name) in enumerate(_UNITS):
        if left >= size:
            count, rest = divmod(left, size)
            smaller = [(rest // s, n) for s, n in _UNITS[index + 1 : index + 2] if rest // s]
            # Beside ten minutes or ten days the smaller unit only distracts.
            parts = [(count, name), *(smaller if count < 10 or name == "hour" else [])]
            return " ".join(f"{n} {unit}{'' if n == 1 else 's'}" for n, unit in parts)
    return "0 seconds"


def relative(moment: datetime, now: datetime) -> str:
    """`in 14 minutes`, `just now` or `2 hours ago`."""
    seconds = int((moment - now).total_seconds())
    distance = abs(seconds)
    if distance < 5:
        return "just now"
    words = span(distance - distance % 60 if distance >= 60 else distance)  # a page does not tick by the second
    return f"in {words}" if seconds > 0 else f"{words} ago"


def absolute(moment: datetime) -> str:
    """Date and time to the minute with the zone that `moment` carries: `30 Apr 2026, 20:05 UTC`."""
    zone = moment.tzname() or ""
    # Some zones have no name of their own, only `+03`.
    return f"{moment.day} {moment:%b %Y, %H:%M} {'UTC' if zone[:1] in {'+', '-'} else ''}{zone}"


def status(value: str) -> str:
    """The state of a request in words; a state that we do not know means that nothing is approved."""
    return STATUS.get(value, "Not approved")


def risk(value: str) -> str:
    """The risk class in words."""
    return RISK.get(value, "Risk not stated")


def outcome(
    status: str, approval: str | None, *, in_force: bool, reported: str | None = None, is_wide: bool = False
) -> str:
    """What the state of a settled request, of its approval and the report about it mean, in a sentence.

    `is_wide` says that it allows more than exactly what was asked.
    `reported` is how the approval was used, anything else when a report says that it was not, None without a report.
    """
    if status != "approved":
        return OUTCOME.get(status, "Nothing runs.")
    if reported is not None and reported in USED:
        return USED[reported] + (" The approval was taken back as well." if approval == "revoked" else "")
    if approval == "revoked":
        return "The approval was taken back. Nothing can start under it any more."
    if not in_force:
        return "The approval has run out. Nothing can start under it any more."
    if reported is not None:
        return "Nothing has run with it so far. The approval stands until it runs out or is taken back."
    if is_wide:
        return "The approval is in force. It can be used for what it allows, until it runs out or is taken back."
    return "The approval is in force. It can be used for exactly this, until it runs out or is taken back."


def disposition(value: str) -> str:
    """What became of an approved call, in a sentence."""
    return DISPOSITION.get(value, "The outcome was reported in terms that this page does not know.")


def why_not(code: str) -> str:
    """Why the reader may not decide, in a sentence; text that is no code of ours is a sentence already."""
    return WHY_NOT.get(code, code if " " in code else "You may not decide this request.")


def standing(code: str) -> str:
    """How somebody stands to a request that he might decide; nothing for who may."""
    return STANDING.get(code, "" if code == "free" else "may not decide it")


def several_result(code: str) -> str:
    """What became of one decision of several, in a sentence."""
    return SEVERAL[code] if code in SEVERAL else f"Not recorded. {why_not(code)}"


def valued(text: str, kind: str) -> str:
    """A value where a text and a number, or nothing at all, have to be told apart."""
    return KINDS[kind].format(text) if kind in KINDS else text


def named(thing: object) -> str:
    """A subject, resource or action in a reader's order: `ada`, `ledger (repository)`."""
    if not isinstance(thing, Mapping):
        return str(thing)
    name = thing.get("id", thing.get("name", ""))
    kind = thing.get("type")
    return f"{name} ({kind})" if kind and kind not in _PEOPLE else str(name)


def principal(value: str) -> str:
    """The name of an authenticated identity (`issuer|name`): `gate`."""
    _, separator, name = value.partition("|")
    return name if separator and name else value


def vouching(value: str) -> str:
    """Who vouches for an authenticated identity (`issuer|name`): `id.example/issuer`, or `nobody`."""
    issuer, separator, name = value.partition("|")
    return (issuer.partition("://")[2] or issuer) if separator and name else "nobody"


def remark(required: Collection[str]) -> str:
    """The label of the one box beside both buttons; `required` names the decisions that need a reason."""
    if {"approve", "deny"} <= set(required):
        return "Reason"
    if "deny" in required:
        return "Remark or reason (needed to deny)"
    return "Remark or reason (needed to approve)" if "approve" in required else "Remark or reason (optional)"


def reason_hints(reasons: Mapping[str, ReasonRule]) -> dict[str, str]:
    """What the reason beside both buttons must contain: the hint by itself where it goes for both, else by button."""
    hints = {name: reasons[decision].hint for decision, name in _BUTTONS.items() if decision in reasons}
    return {"": next(iter(hints.values()))} if len(hints) == 2 and len(set(hints.values())) == 1 else hints


def reason(code: str) -> str:
    """A reason code of the rules as a phrase: `amount_above_limit` becomes `Amount above limit`."""
    phrase = code.replace("_", " ")
    return phrase[:1].upper() + phrase[1:]


def pointer(value: str) -> str:
    """A place inside the arguments: `/to/0/account` becomes `to → 0 → account`."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in value.split("/")[1:]]
    return " → ".join(parts) or "all of it"


def member(value: str) -> str:
    """A member of what was asked that may vary: `/context/cost_centre` becomes `cost_centre`."""
    if value == "/context/arguments_hash":
        return "the values of the call"
    part, _, rest = value.removeprefix("/").partition("/")
    inner = rest.removeprefix("properties/")
    if part == "context":
        return pointer("/" + rest)
    return f"{part} → {pointer('/' + inner)}" if inner else part


def members(values: Collection[str]) -> str:
    """Several of them, in their order."""
    return ", ".join(member(value) for value in values)


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """`1 request`, `3 requests`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
