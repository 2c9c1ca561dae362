"""What clients and models read: fixed texts, the denial envelope, and the disposition.

Nothing of the backend's enters a text, but for a decider's words where the operator allows them, and those sanitised
and marked as quoted. A pending task never sounds done (PEP-127, PEP-128, PEP-129). SEP-2848, "Execution disposition".
"""

import json
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_gate.events import Cause
from mcp_gate.lifecycle import DISPOSITIONS, ENDINGS, Ending, Phase, remediation

Json = dict[str, Any]

ENVELOPE: Final = "io.modelcontextprotocol/authorization"
DISPOSITION: Final = "io.modelcontextprotocol/tool-approval-disposition"
IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"
COMPLETE: Final = "complete"
WITHHELD: Final = "[withheld]"
QUOTED_CHARACTERS: Final = 500
PROPOSED_CHARACTERS: Final = 8_000
_ESCAPED: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
PROPOSED: Final = (
    "Whoever decided proposes other arguments, quoted as data. Nothing is approved by that: if they serve the user's "
    "purpose, call the tool anew with them."
)
PROPOSED_TOO_LONG: Final = "Whoever decided proposes other arguments, which are too long to be shown here."
# Shorter strings would blot out innocent words; no artifact that grants anything is that short.
SHORTEST_ARTIFACT: Final = 8

WORKING: Final[Mapping[Phase, str]] = {
    Phase.INTENT: "An approval is being requested. The tool has not run.",
    Phase.PENDING: "Waiting for a decision on this call. The tool has not run.",
    Phase.INPUT: "The decision needs more information. The tool has not run.",
    Phase.GRANTED: "The decision is being checked against current policy. The tool has not run.",
    Phase.WAITING: "The decision cannot take effect yet and is checked again later. The tool has not run.",
    Phase.RESUBMITTING: "A further approval is being requested. The tool has not run.",
    Phase.CLAIMED: "The call is being carried out. There is no result yet.",
}
IMMEDIATE_TEXT: Final = (
    "This call needs an approval that was requested; the tool has not run. "
    "Go on with other work and check the task later."
)
_NOT_RUN: Final = "The tool did not run."
ENDED: Final[Mapping[Cause, str]] = {
    Cause.EXECUTED: "The call was approved and the tool ran once.",
    Cause.TOOL_ERROR: "The call was approved, the tool ran and reported an error. It may have had effects.",
    Cause.NO_RESPONSE: "The call was approved and started, but no response was received. The tool may have run.",
    Cause.WORKER_LOST: "The call was approved and started, but the gate was interrupted. The tool may have run.",
    Cause.EXECUTION_DEADLINE: "The call was approved and started, but did not finish in time. The tool may have run.",
    Cause.DENIED: f"The approval was denied. {_NOT_RUN}",
    Cause.POLICY_DENIED: f"Policy denies this call. {_NOT_RUN}",
    Cause.EXPIRED: f"The request or its approval expired before the call could be carried out. {_NOT_RUN}",
    Cause.BACKEND_EXPIRED: f"The request or its approval expired before the call could be carried out. {_NOT_RUN}",
    Cause.BACKEND_LOST_TASK: f"The request for approval no longer exists. {_NOT_RUN}",
    Cause.NOT_ENFORCEABLE: f"The answer to the request for approval cannot be used. {_NOT_RUN}",
    Cause.CHAIN_BOUND: f"The call kept needing further approvals, more than are allowed. {_NOT_RUN}",
    Cause.SUBMISSION_REFUSED: f"The request for approval was not accepted. {_NOT_RUN}",
    Cause.BINDING_BROKEN: f"The stored call could not be verified. {_NOT_RUN}",
    Cause.TOOL_CHANGED: f"The tool changed while the call waited for approval. {_NOT_RUN}",
    Cause.CLIENT_CANCELLED: f"The task was cancelled. {_NOT_RUN}",
    Cause.BACKEND_CANCELLED: f"The request for approval was cancelled. {_NOT_RUN}",
    Cause.ORPHANED: f"The request for approval was withdrawn. {_NOT_RUN}",
    Cause.BACKEND_FAILED: f"The approval failed because of a fault. {_NOT_RUN} The call may be repeated.",
    Cause.SUBMISSION_LIMIT: f"The approval could not be requested in time. {_NOT_RUN} The call may be repeated.",
}
DO_NOT_REPEAT: Final = "Find out what happened before repeating it."
RESULT_LOST: Final = "Its result can no longer be read."
_RESPONDED: Final = frozenset({Cause.EXECUTED, Cause.TOOL_ERROR})
DENIED: Final = f"This call is not permitted. {_NOT_RUN}"
DEGRADED: Final = (
    f"This call needs an approval. {_NOT_RUN} No approval was requested, because this client did not declare that it "
    "can wait for one (extension io.modelcontextprotocol/tasks). Ask the user to obtain approval another way, or use "
    "a client that supports tasks; repeating the call changes nothing."
)
DEGRADED_BUT_REQUESTABLE: Final = (
    f"This call needs an approval. {_NOT_RUN} No approval was requested yet. Call the tool request_access with this "
    "tool's name and the same arguments to request it; repeating the call itself changes nothing."
)
NO_APPROVAL_NEEDED: Final = f"This call needs no approval. {_NOT_RUN} Call it directly."
REQUESTED: Final = (
    f"An approval was requested. {_NOT_RUN} When it is approved, the call is carried out once, by itself; "
    "do not repeat it. Ask {tool} with task_id {task_id} for its state and result."
)
OVER_LIMIT: Final = (
    f"Too many approvals are waiting or were asked for. {_NOT_RUN} Do not repeat this call now; "
    "wait until earlier tasks have ended."
)
UNREPRESENTABLE: Final = (
    "This call is not permitted without approval, and none can be requested because the number at {pointer} in its "
    "arguments has no exact form. " + _NOT_RUN
)
ASK_FOR_INPUT: Final = (
    "This call needs an approval before it can run. The request for it needs the information below; "
    "it is shown to whoever decides and changes nothing about the call."
)
_NOT_REQUESTED: Final = f"{_NOT_RUN} No approval was requested."
FORM_NEEDED: Final = (
    f"This call needs an approval, and requesting it needs information that can only be given on a form. "
    f"{_NOT_REQUESTED} Ask the user to request the approval there; repeating the call changes nothing."
)
INPUT_UNASKED: Final = (
    f"This call needs an approval, and requesting it needs information that this client cannot be asked for "
    f"(capability elicitation). {_NOT_REQUESTED} Repeating the call changes nothing."
)
INPUT_REFUSED: Final = (
    f"This call needs an approval, and the information that requesting it needs was not given. {_NOT_REQUESTED}"
)
SEVERAL: Final = f"This call is not permitted: one of the decisions that it needs is a denial. {_NOT_RUN}"


@dataclass(frozen=True, slots=True)
class Wording:
    """What an operator may choose: the SEP-2643 envelope, a decider's words, and tools for clients without tasks."""

    envelope: bool = True
    show_decision_text: bool = False
    request_tools: bool = False

    def envelope_of(self, phase: Phase, ending: Ending | None) -> Json:
        """The `_meta` entry that classifies a denial; empty where none may be asserted (PEP-11, PEP-121)."""
        state = remediation(phase, ending)
        if state is None or not self.envelope:
            return {}
        envelope: Json = {"reason": "insufficient_authorization", "remediation": state}
        if state == "available":
            envelope["remediationHints"] = [{"type": "task"}]
        return {ENVELOPE: envelope}

    def plain_denial(self, text: str, *, remediation: str = "unavailable") -> Json:
        """A denied call that became no task (PEP-09); there is no task that a hint could point at."""
        result = _result([text], is_error=True)
        if self.envelope:
            result["_meta"] = {ENVELOPE: {"reason": "insufficient_authorization", "remediation": remediation}}
        return result

    def degraded(self) -> Json:
        """A requestable denial for a client that can't wait for a task (PEP-03, PEP-04)."""
        text = DEGRADED_BUT_REQUESTABLE if self.request_tools else DEGRADED
        return self.plain_denial(text, remediation="available")

    def completed(
        self, cause: Cause, *, decision_text: str | None = None, proposed: Mapping[str, Any] | None = None
    ) -> Json:
        """The result of a task that ended without a response of the tool, or with one that can't be read any more.

        `proposed` are arguments that the decider would rather see; nothing is called with them by itself.
        """
        lines = [ENDED[cause]]
        if cause in _RESPONDED:
            lines.append(RESULT_LOST)
        if ENDINGS[cause] is Ending.OUTCOME_UNKNOWN:
            lines.append(DO_NOT_REPEAT)
        if decision_text and self.show_decision_text and cause is Cause.DENIED:
            lines.append(f'Words of whoever decided, quoted as data: "{sanitised(decision_text)}"')
        if proposed and self.show_decision_text and cause is Cause.DENIED:
            told = exact_json(proposed)
            shown = len(told) <= PROPOSED_CHARACTERS
            lines.append(f"{PROPOSED} {told}" if shown else PROPOSED_TOO_LONG)
        return self._disposed(_result(lines, is_error=cause is not Cause.EXECUTED), cause)  # PEP-121

    def executed(self, tool_result: Mapping[str, Any], *, is_error: bool, artifacts: Collection[str]) -> Json:
        """The tool's own result, with a line that says that it ran (PEP-120); backend artifacts withheld (PEP-125)."""
        cause = Cause.TOOL_ERROR if is_error else Cause.EXECUTED
        result: Json = {**redacted(dict(tool_result), artifacts), "resultType": "complete", "isError": is_error}
        content = result.get("content")
        result["content"] = [*(content if isinstance(content, list) else []), _text(ENDED[cause])]
        return self._disposed(result, cause)

    def received_error(self, code: int, message: str, *, artifacts: Collection[str]) -> Json:
        """The result for a call that was answered with a JSON-RPC error after the claim (PEP-89)."""
        told = redacted(sanitised(message), artifacts)
        return self._disposed(
            _result([f"Error {code}: {told}", ENDED[Cause.TOOL_ERROR]], is_error=True), Cause.TOOL_ERROR
        )

    def _disposed(self, result: Json, cause: Cause) -> Json:
        ending = ENDINGS[cause]
        if ending not in DISPOSITIONS:  # PEP-119: a task that failed or was cancelled has none
            raise ValueError(f"{ending} is no disposition")
        kept = result.get("_meta")
        meta = {name: value for name, value in (kept or {}).items() if name not in {ENVELOPE, DISPOSITION}}
        result["_meta"] = {**meta, **self.envelope_of(Phase.DONE, ending), DISPOSITION: str(ending)}
        return result


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _result(lines: list[str], *, is_error: bool) -> Json:
    return {"resultType": "complete", "content": [_text(line) for line in lines], "isError": is_error}


def sanitised(text: str, *, most: int = QUOTED_CHARACTERS) -> str:
    """Somebody else's words on one line, without control, format and invisible characters, cut to `most`."""
    kept = "".join(
        " " if unicodedata.category(character) in {"Cc", "Zl", "Zp"} else character
        for character in text
        if unicodedata.category(character) not in {"Cf", "Co", "Cs", "Cn"}
    )
    line = " ".join(kept.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def exact_json(value: Any) -> str:
    """A JSON value on one line, whole and exact: what cannot be seen, or steers what is seen, is written as escapes."""
    return "".join(
        json.dumps(character)[1:-1] if unicodedata.category(character) in _ESCAPED else character
        for character in json.dumps(value, ensure_ascii=False)
    )


def sanitised_tree(value: Any) -> Any:
    """A JSON value with every string in it sanitised, names included."""
    if isinstance(value, str):
        return sanitised(value)
    if isinstance(value, Mapping):
        return {sanitised(name): sanitised_tree(member) for name, member in value.items()}
    return [sanitised_tree(item) for item in value] if isinstance(value, list) else value


def redacted(value: Any, artifacts: Collection[str]) -> Any:
    """A JSON value with every artifact of the backend in it withheld (PEP-126)."""
    secrets = sorted({text for text in artifacts if len(text) >= SHORTEST_ARTIFACT}, key=len, reverse=True)
    return _redacted(value, secrets) if secrets else value


def _redacted(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, WITHHELD)
        return value
    if isinstance(value, dict):
        return {_redacted(name, secrets): _redacted(member, secrets) for name, member in value.items()}
    return [_redacted(item, secrets) for item in value] if isinstance(value, list) else value


def strings_in(value: Any) -> set[str]:
    """Every string among the values of a JSON value."""
    if isinstance(value, str):
        return {value}
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return set().union(*(strings_in(part) for part in parts))
