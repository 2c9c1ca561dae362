"""What the gate keeps of a task beyond the machine's own fields, and how each part is sealed.

Encodes and seals, decides nothing. Every value is bound to its table, row and column, under the task's own key, so
that a sealed value moved to another row doesn't open (PEP-131, PEP-133).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from arap_service.protocol.sealing import DataKey, KeyRing, SealBroken, new_data_key
from mcp_gate.backend import NOTHING, Handle, InputQuestion, Supplied
from mcp_gate.lifecycle import GateTask, TaskId
from mcp_gate.mapping import CallBinding, Principal
from mcp_gate.tables import Delivery, InputState, SubmissionState

Json = dict[str, Any]


class Vault:
    """Seals and opens the columns of one task."""

    def __init__(self, ring: KeyRing, task_id: str, wrapped: bytes) -> None:
        """Unwraps the task's key; raises `SealBroken` when the ring can't."""
        self._task_id = task_id
        self._key = DataKey(ring, wrapped, key_place(task_id))

    def seal(self, column: str, plaintext: bytes, *, part: str = "") -> bytes:
        """Seals `plaintext` for `column` of this task; `part` tells several rows of one table apart."""
        return self._key.seal(plaintext, aad=f"{column}:{self._task_id}:{part}")

    def open(self, column: str, sealed: bytes, *, part: str = "") -> bytes:
        """What was sealed for this place; raises `SealBroken`."""
        return self._key.open(sealed, aad=f"{column}:{self._task_id}:{part}")

    def seal_json(self, column: str, value: object, *, part: str = "") -> bytes:
        """Seals a JSON value."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return self.seal(column, text.encode("utf-8", "surrogatepass"), part=part)

    def open_json(self, column: str, sealed: bytes, *, part: str = "") -> Any:
        """The JSON value that was sealed for this place; raises `SealBroken`."""
        return json.loads(self.open(column, sealed, part=part))


def key_place(task_id: str) -> str:
    """Where a task's wrapped key belongs."""
    return f"gate_task.data_key:{task_id}"


def wrapped_key(ring: KeyRing, task_id: str) -> bytes:
    """A fresh key for a task, wrapped."""
    return new_data_key(ring, aad=key_place(task_id))


def reference(secret: str) -> str:
    """What finds a row by a value that isn't stored in clear."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission under its key; `handle` is None until the backend answered.

    `body` is None when its seal doesn't open, and then nothing can be submitted. `artifacts` are the strings of the
    denial that no client may ever see (PEP-126); `supplied` is what somebody answered for it.
    """

    generation: int
    key: str
    state: SubmissionState
    created_at: datetime
    body: bytes | None
    handle: Handle | None = None
    artifacts: tuple[str, ...] = ()
    supplied: Supplied = NOTHING


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task with everything that a step needs.

    `binding` is None when it doesn't open under its seal or the task's key is lost: then nothing may run.
    """

    task: GateTask
    digest: str
    fingerprint: str
    server: str
    tool: str
    owner: Principal
    submission: Submission
    binding: CallBinding | None = None
    approval: Mapping[str, Any] | None = None
    next_due: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """A submission about to be recorded, before the backend hears of it (PEP-56)."""

    key: str
    body: bytes
    callback_state: str
    artifacts: tuple[str, ...] = ()
    supplied: Supplied = NOTHING


@dataclass(frozen=True, slots=True)
class NewTask:
    """An intent about to be recorded."""

    task: GateTask
    digest: str
    fingerprint: str
    binding: CallBinding
    submission: NewSubmission
    next_due: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """One question to the client, open or settled."""

    key: str
    generation: int
    version: int
    state: InputState
    request: InputQuestion
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What is written in the transaction of a transition, beside the task's own fields and the effects."""

    next_due: datetime | None = None
    handle: Handle | None = None
    approval: Mapping[str, Any] | None = None
    submission: NewSubmission | None = None
    questions: tuple[InputQuestion, ...] = ()
    result: Mapping[str, Any] | None = None
    audit: Mapping[str, Any] | None = None


NO_CHANGES: Final = Changes()


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """An outbox row whose time has come."""

    id: str
    task_id: TaskId
    kind: Delivery
    generation: int
    reference: str | None
    attempts: int
    created_at: datetime


def dump_body(body: bytes, artifacts: Sequence[str], supplied: Supplied) -> Json:
    """A submission's bytes, artifacts and answers as JSON, for the sealed column."""
    return {"body": body.decode("latin-1"), "artifacts": list(artifacts), "supplied": supplied.to_json()}


def load_body(value: Mapping[str, Any]) -> tuple[bytes, tuple[str, ...], Supplied]:
    """Bytes, artifacts and answers back from `dump_body`."""
    return value["body"].encode("latin-1"), tuple(value["artifacts"]), Supplied(**value.get("supplied", {}))


def dump_handle(handle: Handle) -> Json:
    """The handle as JSON, for the sealed column."""
    expires = None if handle.expires_at is None else handle.expires_at.isoformat()
    return {**asdict(handle), "expires_at": expires}


def load_handle(value: Mapping[str, Any]) -> Handle:
    """The handle back from `dump_handle`."""
    expires = value["expires_at"]
    return Handle(**{**value, "expires_at": None if expires is None else datetime.fromisoformat(expires)})


def opened(vault: Vault | None, column: str, sealed: bytes | None, *, part: str = "") -> bytes | None:
    """What a column holds, or None when it is empty or doesn't open."""
    if vault is None or sealed is None:
        return None
    try:
        return vault.open(column, sealed, part=part)
    except SealBroken:
        return None
