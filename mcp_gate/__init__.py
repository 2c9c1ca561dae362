"""The gate: turns requestable denials of MCP tool calls into tasks, and runs the tool at most once after approval."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp_gate.declaring import authzen_mapping
    from mcp_gate.extension import Gate
    from mcp_gate.settings import GateSettings, load_settings

__all__ = ["Gate", "GateSettings", "authzen_mapping", "load_settings"]

# Found when first asked for, so that `mcp_gate.conformance` and `mcp_gate.client` need nothing that the gate needs.
_WHERE: Final = {
    "Gate": "mcp_gate.extension",
    "GateSettings": "mcp_gate.settings",
    "authzen_mapping": "mcp_gate.declaring",
    "load_settings": "mcp_gate.settings",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
