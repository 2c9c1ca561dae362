"""What goes wrong in the gate, and the JSON-RPC error that a client is told.

Codes are MCP's (2026-07-28 core and the Tasks extension) and COAZ's denial. Messages are fixed texts: nothing of
the backend, of the arguments or of an exception reaches the wire.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import JsonValue

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
TOOL_APPROVAL_EXTENSION: Final = "io.modelcontextprotocol/tool-approval"
APPROVAL_EXTENSION: Final = "io.mcp-hangar/approval"


class GateError(Exception):
    """A request that the gate answers with a JSON-RPC error; `data` is the error's `data` member or None."""

    code: ClassVar[int] = -32603
    text: ClassVar[str] = "Internal error"

    def __init__(self, message: str | None = None, *, data: Mapping[str, JsonValue] | None = None) -> None:
        super().__init__(message or self.text)
        self.message = message or self.text
        self.data = None if data is None else dict(data)


class Unavailable(GateError):
    """The decision point, the backend or the gate itself cannot answer; nothing ran (-32603)."""

    text = "The authorization service is unavailable; the tool did not run"


class InvalidParams(GateError):
    """The caller's parameters are wrong (-32602)."""

    code = -32602
    text = "Invalid params"


class TaskNotFound(InvalidParams):
    """Unknown and foreign tasks look the same (-32602)."""  # PEP-71, PEP-134

    text = "Task not found"


class MissingCapability(GateError):
    """The request did not declare the tasks extension (-32021, HTTP 400)."""  # PEP-07

    code = -32021
    text = "Missing required client capability"

    def __init__(self) -> None:
        super().__init__(data={"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})


class MethodDenied(GateError):
    """A method that no mapping covers (-32001)."""  # PEP-26

    code = -32001
    text = "Access denied"


class HeaderMismatch(GateError):
    """A routing header that contradicts the body (-32020, HTTP 400)."""

    code = -32020
    text = "Mcp-Name does not match params.taskId"
