"""What the client of a request declared, per request, as the protocol of 2026 has it.

Clients of the handshake era can show the same capabilities, but their wire carries neither tasks nor rounds, so the
protocol version counts as well. MCP Tasks extension, "Capability Negotiation"; PEP-02.
"""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mcp_gate.errors import TASKS_EXTENSION


def extension_declared(ctx: ServerRequestContext[Any, Any], extension: str) -> bool:
    """Whether this very request declares `extension`, and its wire can carry what that entails."""
    capabilities = ctx.session.client_capabilities
    declared = (capabilities.extensions or {}) if capabilities is not None else {}
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and extension in declared


def tasks_declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this very request may be answered with a task (PEP-02)."""
    return extension_declared(ctx, TASKS_EXTENSION)


def can_be_asked(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether this very request declares that a form can be shown to somebody; a bare declaration means forms."""
    declared = ctx.session.client_capabilities
    elicitation = None if declared is None else declared.elicitation
    if elicitation is None or ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    return elicitation.form is not None or elicitation.url is None
