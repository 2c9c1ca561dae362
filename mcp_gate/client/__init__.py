"""A tasks extension for the MCP SDK's client: waits, resumes after restarts, and says what an outcome means."""

from mcp_gate.client.records import TaskRecord, TaskRecords
from mcp_gate.client.tasks import (
    CreatedTask,
    Disposition,
    TaskEnded,
    TasksExtension,
    TaskState,
    disposition,
    possibly_executed,
)

__all__ = [
    "CreatedTask",
    "Disposition",
    "TaskEnded",
    "TaskRecord",
    "TaskRecords",
    "TaskState",
    "TasksExtension",
    "disposition",
    "possibly_executed",
]
