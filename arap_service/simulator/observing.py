"""What an enforcement point was seen to do: its exchanges with the service, without anything that was said in them.

An observation holds times, statuses, ids and digests: enough to judge whether keys were reused, bindings echoed,
waiting times kept and approvals presented unchanged; never a token, an argument or a justification. What the
observations mean is judged in `judging.py`.
"""

import hashlib
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from arap_service.domain.behaviours import Endpoint
from arap_service.protocol.arap import format_instant, parse_instant

MOST_KEPT: Final = 10_000
_PATHS: Final[Mapping[tuple[str, str], Endpoint]] = {
    ("GET", "/.well-known/authzen-configuration"): Endpoint.METADATA,
    ("GET", "/jwks.json"): Endpoint.KEYS,
    ("POST", "/issuer/token"): Endpoint.TOKEN,
    ("POST", "/access/v1/evaluation"): Endpoint.EVALUATION,
    ("POST", "/access/v1/request"): Endpoint.SUBMISSION,
}
_TASK: Final = "/access/v1/request/"
_OF_TASK: Final[Mapping[tuple[str, str], Endpoint]] = {
    ("GET", ""): Endpoint.STATUS,
    ("POST", "cancel"): Endpoint.CANCEL,
    ("POST", "report"): Endpoint.REPORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One exchange: `what` is an endpoint, `callback` (one that we sent) or `decoy`; `status` is None without answer.

    `at` and `answered_at` are moments of a clock that no behaviour moves. `fault` names the behaviour that was
    carried out.
    """

    seq: int
    what: str
    at: datetime
    answered_at: datetime
    status: int | None
    client: str | None = None
    task: str | None = None
    fault: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def said(self) -> dict[str, Any]:
        """The observation as the control API shows it."""
        members: dict[str, Any] = {
            "seq": self.seq,
            "what": self.what,
            "at": format_instant(self.at),
            "answered_at": format_instant(self.answered_at),
            "status": self.status,
            "client": self.client,
            "task": self.task,
            "fault": self.fault,
            **self.facts,
        }
        return {name: value for name, value in members.items() if value is not None}


def read_observation(said: Mapping[str, Any]) -> Observation:
    """The observation that `Observation.said` has written down."""
    plain = {name: said.get(name) for name in ("status", "client", "task", "fault")}
    facts = {name: value for name, value in said.items() if name not in {*plain, "seq", "what", "at", "answered_at"}}
    at, answered_at = parse_instant(said["at"]), parse_instant(said["answered_at"])
    return Observation(seq=said["seq"], what=said["what"], at=at, answered_at=answered_at, **plain, facts=facts)


class Notebook:
    """The latest observations, numbered from 1 without a gap."""

    def __init__(self) -> None:
        self._kept: deque[Observation] = deque(maxlen=MOST_KEPT)
        self._next = 1

    @property
    def last(self) -> int:
        """The number of the latest observation; 0 when there is none."""
        return self._next - 1

    def note(self, **members: Any) -> None:
        """Keep one observation."""
        self._kept.append(Observation(seq=self._next, **members))
        self._next += 1

    def since(self, seq: int) -> Sequence[Observation]:
        """What was observed after number `seq`, oldest first."""
        return [each for each in self._kept if each.seq > seq]


def place(method: str, path: str) -> tuple[Endpoint, str | None] | None:
    """The endpoint, and the task if it is one of a task, that a request to `path` (below the base path) is for."""
    found = _PATHS.get((method, path))
    if found is not None:
        return found, None
    if not path.startswith(_TASK):
        return None
    task, _, rest = path.removeprefix(_TASK).partition("/")
    endpoint = _OF_TASK.get((method, rest))
    return None if endpoint is None or not task else (endpoint, task)


def digest(value: Any) -> str | None:
    """A short name for a value that is not shown, the same for the same JSON; None for None."""
    if value is None:
        return None
    text = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True, default=str).encode()
    return hashlib.sha256(text).hexdigest()[:16]


def facts_of(
    endpoint: Endpoint, *, sent: bytes, answered: bytes, headers: Mapping[str, str], key: str | None
) -> dict[str, Any]:
    """What is worth remembering of an exchange: `sent` and `answered` are bodies, `headers` those of the answer."""
    asked, answer = _object(sent), _object(answered)
    wait = headers.get("retry-after")
    facts: dict[str, Any] = {"retry_after": int(wait) if wait is not None and wait.isdigit() else None}
    match endpoint:
        case Endpoint.EVALUATION:
            facts |= _evaluation(asked, answer)
        case Endpoint.SUBMISSION:
            bare = None if key is None else key.strip('"').encode()
            facts |= {"key": digest(bare), "body": digest(sent), **_submission(asked), **_task(answer)}
        case Endpoint.STATUS | Endpoint.CANCEL:
            facts |= _task(answer)
        case Endpoint.REPORT:
            facts |= {name: asked.get(name) for name in ("disposition", "generation")}
        case _:
            pass
    return {name: value for name, value in facts.items() if value is not None}


def _evaluation(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    context, said = _within(asked, "context"), _within(answer, "context")
    approval, offer = context.get("approval"), _within(said, "access_request")
    question = [asked.get(name) for name in ("subject", "resource", "action")]
    return {
        "tool": _text(_within(asked, "resource").get("id")),
        "question": digest([*question, context.get("arguments_hash")]),
        "approval": _text(approval.get("id")) if isinstance(approval, dict) else None,
        "presented": digest(approval),
        "decision": answer.get("decision") if isinstance(answer.get("decision"), bool) else None,
        "next_action": _text(said.get("next_action")),
        "wait": said.get("retry_after"),
        "offer": digest(offer.get("binding_token")),
        "evaluation": _text(said.get("evaluation_id")) if offer else None,
    }


def _submission(asked: Mapping[str, Any]) -> dict[str, Any]:
    denial = _within(asked, "denial")
    question = [asked.get(name) for name in ("subject", "resource", "action")]
    return {
        "question": digest([*question, _within(asked, "context").get("arguments_hash")]),
        "binding": digest(denial.get("binding_token")),
        "evaluation": _text(denial.get("evaluation_id")),
        "callback": bool(asked.get("callback")) or None,
    }


def _task(answer: Mapping[str, Any]) -> dict[str, Any]:
    task, result = _within(answer, "task"), _within(answer, "result")
    approval = result.get("approval")
    return {
        "task": _text(task.get("id")),
        "task_status": _text(task.get("status")),
        "granted": _text(approval.get("id")) if isinstance(approval, dict) else None,
        "given": digest(approval),
    }


def _within(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _text(value: Any) -> str | None:
    return value[:255] if isinstance(value, str) else None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
