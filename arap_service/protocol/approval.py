"""Builds the typed pending approval: what waits for a decision, as one input-request value.

It describes and delivers nothing: no arguments, no approver, nothing to fill in, because the client that sees it is
the one party that may not answer.
Source: ADR-017, decisions 1 to 5 (GOV-01 to GOV-08).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

METHOD: Final = "io.mcp-hangar/approval"
"""Discriminates the value among input requests; internal, not advertised (GOV-01, GOV-13)."""

REQUIRED_PERMISSION: Final = "approval:resolve"
"""What whoever decides must hold; the value names no person (GOV-07)."""


def pending_approval(
    *,
    approval_id: str,
    server: str,
    tool: str,
    arguments_hash: str,
    expires_at: datetime,
    message: str | None = None,
    policy_basis: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """The value for an `inputRequests` map, as JSON and unchanged on the way (GOV-02).

    `arguments_hash` is that of `canonical.arguments_hash`; `policy_basis` may give `rule` and `reason`, of which only
    known ones appear (GOV-08).

    Raises:
        ValueError: for a hash of another form and for a datetime without a zone.
    """
    if not arguments_hash.startswith("sha256:"):
        raise ValueError("the arguments travel as a SHA-256 hash, never themselves")  # GOV-05
    if expires_at.tzinfo is None:
        raise ValueError("a moment needs a zone")
    params: dict[str, Any] = {
        "approvalId": approval_id,
        "subject": {"mcpServer": server, "tool": tool, "argumentsHash": arguments_hash},
        "expiresAt": expires_at.astimezone(UTC).isoformat(),
        "requiredPermission": REQUIRED_PERMISSION,
    }
    known = {name: text for name in ("rule", "reason") if (text := (policy_basis or {}).get(name))}
    if known:
        params["policyBasis"] = known
    return {"method": METHOD, "message": message or f"Approval required: {tool} on {server}", "params": params}
