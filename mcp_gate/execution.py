"""What the engine hands to an executor and what it gets back: facts about one invocation, no decisions."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One invocation of a tool, from the captured binding; what is made for it ends with its approval (PEP-107)."""

    tool: str
    arguments: Mapping[str, Any]
    task_id: str
    approved_until: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Executed:
    """The tool answered with a `CallToolResult`; `is_error` is its `isError`."""

    result: Mapping[str, Any]
    is_error: bool


@dataclass(frozen=True, slots=True)
class ReceivedError:
    """A JSON-RPC error was received as the response to the call."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class NoResponse:
    """No response to the call was received; whether the tool ran cannot be known. `reason` is for the log."""

    reason: str


Outcome = Executed | ReceivedError | NoResponse
Execute = Callable[[ToolCall], Awaitable[Outcome]]
