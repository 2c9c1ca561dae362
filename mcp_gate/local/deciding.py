"""The one way in which a local request is decided: it authenticates the approver and refuses everybody else.

The caller of the tool, the client and the agent never decide their own request, whatever names they have elsewhere;
who may decide is read from the rules of now. GOV-09, GOV-10; design section 8.
"""

import hashlib
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from sqlalchemy import Connection

from arap_service.protocol.sealing import KeyRing
from mcp_gate.local.calls import asked_call
from mcp_gate.local.requests import LocalRequest, find_request, store_decision
from mcp_gate.local.tables import RequestStatus
from mcp_gate.settings_local import Local, LocalApprover

LONGEST_REASON: Final = 2000
_NOBODY: Final = LocalApprover(secret_hash="sha256:" + "0" * 64)


class NotDecided(Exception):
    """The request was not decided, and nothing changed; the text says why, and shows nothing that is sealed."""


@dataclass(frozen=True, slots=True)
class Vote:
    """Who decides what; `secret` is what the approver was given when he was made one."""

    approver: str
    secret: str
    decision: Literal["approve", "deny"]
    reason: str | None = None


def decide(
    connection: Connection, ring: KeyRing, local: Local, request_id: str, *, vote: Vote, now: datetime
) -> LocalRequest:
    """Decides a pending request in one unit of work, and returns it as it was decided.

    Raises:
        NotDecided: The approver is not known, his secret is wrong, he is not eligible, or nothing is pending.
    """
    approver = _authenticated(local, vote)
    if vote.reason is not None and not 0 < len(vote.reason) <= LONGEST_REASON:
        raise NotDecided(f"the reason must have 1 to {LONGEST_REASON} characters")
    if vote.decision == "deny" and vote.reason is None:
        raise NotDecided("a denial needs a reason; give one with --reason")
    found = find_request(connection, ring, request_id, for_update=True)
    if found is None:
        raise NotDecided("there is no such request; `mcp-gate pending` lists those that wait")
    _require_eligible(local, found, vote.approver, approver)
    status = found.status_at(now)
    if status is not RequestStatus.PENDING:
        raise NotDecided(f"the request is {status.value} already")
    approved = vote.decision == "approve"
    is_stored = store_decision(
        connection,
        ring,
        found,
        status=RequestStatus.APPROVED if approved else RequestStatus.DENIED,
        approver=vote.approver,
        reason=vote.reason,
        now=now,
        approved_until=now + timedelta(seconds=local.approval_seconds) if approved else None,
    )
    decided = find_request(connection, ring, request_id)
    if not is_stored or decided is None:
        raise NotDecided("the request was decided by somebody else at the same moment")
    return decided


def _authenticated(local: Local, vote: Vote) -> LocalApprover:
    known = local.approvers.get(vote.approver)
    given = "sha256:" + hashlib.sha256(vote.secret.encode("utf-8", "surrogatepass")).hexdigest()
    # Compared also for a name that nobody has, so that both refusals look and take the same.
    matches = secrets.compare_digest(given, (known or _NOBODY).secret_hash)
    if known is None or not matches:
        raise NotDecided("no approver has this name and secret")
    return known


def _require_eligible(local: Local, found: LocalRequest, name: str, approver: LocalApprover) -> None:
    call = asked_call(found.question)
    rule = local.rule_for(call.tool, call.method)
    if rule is None or name not in rule.approvers:
        raise NotDecided("the rules do not name this approver for this tool")
    if found.asker is None:
        raise NotDecided("the gate no longer knows who asked")
    who = found.asker
    asking = (who.sub, who.client_id, who.agent, found.question["subject"].get("id"), *_acting(who.delegation))
    if is_one_of(asking, name, approver):  # GOV-10, GOV-12
        raise NotDecided("nobody decides what he asked for himself, through which client or agent he asked")


def _acting(delegation: object) -> Iterator[object]:
    """The names in a token's `act` chain (RFC 8693): whoever acts for somebody asks as well."""
    while isinstance(delegation, Mapping):
        yield from (delegation.get(member) for member in ("sub", "client_id", "id"))
        delegation = delegation.get("act")


def is_one_of(asking: Iterable[object], name: str, approver: LocalApprover) -> bool:
    """Whether an approver is one of those who ask, under any of his names and in any spelling."""
    names = {_folded(each) for each in asking if isinstance(each, str) and each}
    return bool(names & {_folded(each) for each in (name, *approver.identities)})


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()
