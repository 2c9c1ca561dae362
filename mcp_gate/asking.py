"""Asks the caller for what a request for approval needs, before there is any request: one round trip, no state kept.

Everything about the call that is waited for travels in the `requestState`: sealed, bound to this very call and caller,
short-lived, and good for one use. Nothing is stored and the backend hears nothing until the answers are in (PEP-84).
SEP-2848, "Collecting submission input"; MCP, multi-round-trip requests.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from arap_service.protocol.canonical import Unrepresentable
from arap_service.protocol.sealing import KeyRing, SealBroken
from mcp_gate.backend import NOTHING, Denial, Supplied
from mcp_gate.core import Core, denial_artifacts
from mcp_gate.errors import InvalidParams
from mcp_gate.inputs import Form, FormNeeded, fault, form_of
from mcp_gate.mapping import CallBinding, call_digest, question
from mcp_gate.schema import Schema, SchemaInvalid
from mcp_gate.texts import ASK_FOR_INPUT, FORM_NEEDED, INPUT_REFUSED, INPUT_UNASKED, redacted

log = structlog.get_logger(__name__)

# A tool may keep a requestState of its own; ours is told apart by this, and believed for its seal alone.
STATE: Final = "mcp-gate.1."
KEY: Final = "approval-request"
CATALOGS: Final = "request_catalogs_url"
ACTIONS: Final = frozenset({"accept", "decline", "cancel"})
_PLACE: Final = "request_state"


class StateRefused(InvalidParams):
    """The requestState is not one that this call may bring; why, only the log says (PEP-83)."""

    text = "Invalid or expired requestState"

    def __init__(self, reason: str) -> None:
        super().__init__(data={"reason": "invalid_request_state"})
        log.warning("request_state_refused", reason=reason)


@dataclass(frozen=True, slots=True)
class Offered:
    """What a request brings along: whether its client can be asked, and what it answers to earlier questions."""

    can_be_asked: bool = False
    state: str | None = None
    responses: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ours(self) -> bool:
        """Whether the state claims to be the gate's, not a tool's."""
        return self.state is not None and self.state.startswith(STATE)


NOTHING_OFFERED: Final = Offered()


@dataclass(frozen=True, slots=True)
class Opened:
    """A verified state: its one-time value, until when it holds, and which form it was about."""

    nonce: str
    expires_at: datetime
    form: str


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The `InputRequiredResult` of a call whose approval cannot be requested without more input."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unobtainable:
    """The input cannot be had; `text` says so to the model."""

    text: str


class Asking:
    """Asks, and takes answers."""

    def __init__(self, core: Core, ring: KeyRing) -> None:
        self._core = core
        self._ring = ring

    def opened(self, binding: CallBinding, offered: Offered) -> Opened | None:
        """The state that a retry brings, verified against the call as it is now (PEP-82); None without one of ours.

        Raises:
            StateRefused: It is altered, too old, or was made for another call or caller.
        """
        if offered.state is None or not offered.is_ours:
            return None
        try:
            sealed = base64.urlsafe_b64decode(offered.state.removeprefix(STATE))
            state = json.loads(self._ring.open_(sealed, aad=_PLACE))
            expected = call_digest(binding)
        except (binascii.Error, ValueError, SealBroken, Unrepresentable):
            raise StateRefused("seal") from None
        expires_at = datetime.fromtimestamp(state["exp"], tz=UTC)
        if self._core.clock() >= expires_at:
            raise StateRefused("expired")
        if state["call"] != expected:
            raise StateRefused("another_call")
        return Opened(state["nonce"], expires_at, state["form"])

    async def spend(self, state: Opened | None) -> None:
        """Uses the state up.

        Raises:
            StateRefused: It was used before.
        """
        if state is None:
            return
        if not await self._core.duty.use_nonce(f"{_PLACE}:{state.nonce}", expires_at=state.expires_at):
            raise StateRefused("used")

    async def settle(
        self, binding: CallBinding, denial: Denial, offered: Offered, state: Opened | None
    ) -> Supplied | InputNeeded | Unobtainable:
        """What to submit with the call under this denial, or what to answer instead; uses `state` up.

        The denial is always the newest: answers that took longer than the one that they were asked under meet a fresh
        one here (X-11).

        Raises:
            InvalidParams: The answers don't fit; nothing was submitted, and they may be corrected.
            StateRefused: The state was used before.
        """
        asked = question(binding)
        try:
            form = form_of(denial.request_schema, asked)
        except FormNeeded:
            await self.spend(state)
            return Unobtainable(FORM_NEEDED)
        if form is None:
            await self.spend(state)
            return NOTHING
        if CATALOGS in (denial.access_request or {}):  # PEP-54: nobody may type what only a catalog can offer
            await self.spend(state)
            return Unobtainable(FORM_NEEDED)
        response = offered.responses.get(KEY) if state is not None else None
        if state is None or response is None:
            await self.spend(state)
            return self._ask(binding, denial, form, offered)
        try:
            supplied = _supplied(form, denial, asked, response)
        except InvalidParams:
            if state.form == form.reference:
                raise
            await self.spend(state)  # the schema changed meanwhile, so these are answers to another question
            return self._ask(binding, denial, form, offered)
        await self.spend(state)
        return Unobtainable(INPUT_REFUSED) if supplied is None else supplied

    def _ask(self, binding: CallBinding, denial: Denial, form: Form, offered: Offered) -> InputNeeded | Unobtainable:
        if not offered.can_be_asked:
            return Unobtainable(INPUT_UNASKED)
        core = self._core
        until = core.clock() + core.limits.input
        state = {
            "nonce": core.new_id("inp"),
            "exp": until.timestamp(),
            "call": call_digest(binding),
            "form": form.reference,
        }
        sealed = self._ring.seal(json.dumps(state).encode(), aad=_PLACE)
        request = redacted(form.request(ASK_FOR_INPUT), denial_artifacts(denial))
        log.info("input_asked", tool=binding.tool, fields=len(form.fields))
        return InputNeeded(
            {
                "resultType": "input_required",  # PEP-81: and therefore no task
                "inputRequests": {KEY: request},
                "requestState": STATE + base64.urlsafe_b64encode(sealed).decode(),
            }
        )


def _supplied(form: Form, denial: Denial, asked: Mapping[str, Any], response: object) -> Supplied | None:
    """The answers in their places, or None when the client declines."""
    content = answer_of(KEY, response, schema={"type": "object"})
    if content is None:
        return None
    supplied = form.place(content)
    try:
        pointer = fault(denial.request_schema, asked, supplied)
    except SchemaInvalid:
        raise InvalidParams(f"inputResponses: {KEY} cannot be checked") from None
    if pointer is not None:
        raise InvalidParams(f"inputResponses: {KEY} does not fit its schema at {pointer or 'the top level'}")
    return supplied


def answer_of(key: str, response: object, *, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The content of an answer, or None when the client declines.

    Raises:
        InvalidParams: It isn't an answer, or doesn't fit; the message repeats none of it (PEP-86).
    """
    if not isinstance(response, Mapping) or response.get("action") not in ACTIONS:
        raise InvalidParams(f"inputResponses: {key} needs an action: accept, decline or cancel")
    if response["action"] != "accept":
        return None
    content = response.get("content", {})
    if not isinstance(content, dict):
        raise InvalidParams(f"inputResponses: the content of {key} is not an object")
    try:
        pointer = Schema(schema).fault(content)
    except SchemaInvalid:
        raise InvalidParams(f"inputResponses: {key} cannot be answered") from None
    if pointer is not None:
        raise InvalidParams(f"inputResponses: {key} does not fit its schema at {pointer or 'the top level'}")
    return content
