"""The gate: turns requestable denials of MCP tool calls into tasks, and runs the tool at most once after approval."""

from mcp_gate.declaring import authzen_mapping
from mcp_gate.extension import Gate
from mcp_gate.settings import GateSettings, load_settings

__all__ = ["Gate", "GateSettings", "authzen_mapping", "load_settings"]
