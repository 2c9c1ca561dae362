"""Reading the audit log by machine: all of it, one chain, or everything that became of one evaluation; page by page.

The right to read it is one of its own and no part of the right to see requests. What is shown are ids, codes and
hashes; what people and tools said is not in the log. See design.md sections 5 and 6; PDP-78, ARS-123.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlmodel import Session

from arap_service import audit
from arap_service.auditing.places import place_entries
from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import InvalidRequest, NotFound
from arap_service.protocol.arap import format_instant, parse_instant
from arap_service.store import log
from arap_service.store.log_tables import AuditCheckpoint
from arap_service.store.tables import AuditEntry
from arap_service.store.tasks import is_storable
from arap_service.views import Page

MAX_LIMIT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    """One entry of a chain; `detail` is what was recorded, `previous` and `hash` are its links."""

    chain: str
    seq: int
    at: datetime
    kind: str
    actor: str
    evaluation_id: str | None
    detail: Mapping[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointView:
    """A signed checkpoint: the root over the first `size` entries of the log, as a compact JWS in `signature`."""

    number: int
    at: datetime
    size: int
    root: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries: those about one evaluation, those of one chain, or all, the oldest first.

    `issuer` is the decision point that has given the evaluation its id, where several have given the same.
    """

    evaluation: str | None = None
    issuer: str | None = None
    chain: str | None = None
    cursor: str | None = None
    limit: int = 100


async def entries(ctx: Context, caller: Caller, wanted: AuditFilter) -> Page[EntryView]:
    """A page of the audit log.

    Raises:
        Forbidden: The caller may not read it.
        InvalidRequest: A part of the selection is malformed.
    """
    caller.require(Scope.AUDIT_READ)
    if wanted.evaluation is not None and wanted.chain is not None:
        raise InvalidRequest("Ask for an evaluation or for a chain.", pointer="/chain")
    if wanted.evaluation is None and wanted.issuer is not None:
        raise InvalidRequest("An issuer belongs to an evaluation.", pointer="/issuer")
    for name, text in (("evaluation", wanted.evaluation), ("issuer", wanted.issuer), ("chain", wanted.chain)):
        if text is not None and not is_storable(text):
            raise InvalidRequest("The text cannot be in the log.", pointer=f"/{name}")
    if wanted.evaluation is not None:
        return await _of_evaluation(ctx, wanted, wanted.evaluation)
    if wanted.chain is not None:
        return await _of_chain(ctx, wanted, wanted.chain)
    return await _of_all(ctx, wanted)


async def issuers_of(ctx: Context, caller: Caller, evaluation_id: str) -> tuple[str, ...]:
    """The decision points that have given an evaluation this id, as far as it is on record.

    Raises:
        Forbidden: The caller may not read the audit log.
    """
    caller.require(Scope.AUDIT_READ)
    if not is_storable(evaluation_id):
        return ()
    own = ctx.settings.identifier
    return tuple(await ctx.database.read(lambda session: audit.chains_of_evaluation(session, evaluation_id, own=own)))


async def newest_checkpoint(ctx: Context, caller: Caller) -> CheckpointView:
    """The newest checkpoint, for whoever keeps it out of our reach.

    Raises:
        Forbidden: The caller may not read the audit log.
        NotFound: None was signed yet.
    """
    caller.require(Scope.AUDIT_READ)
    found: AuditCheckpoint | None = await ctx.database.read(log.last_checkpoint)
    if found is None:
        raise NotFound("No checkpoint was signed yet.")
    return CheckpointView(number=found.number, at=found.at, size=found.size, root=found.root, signature=found.signature)


async def _of_evaluation(ctx: Context, wanted: AuditFilter, evaluation_id: str) -> Page[EntryView]:
    after = None
    if wanted.cursor is not None:
        at, chain, seq = read_cursor(wanted.cursor, "evaluation", str, str, int)
        try:
            after = audit.Place(parse_instant(str(at)), str(chain), int(seq))
        except ValueError:
            raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor") from None

    def look(session: Session) -> Sequence[AuditEntry]:
        by_issuer = audit.chains_of_evaluation(session, evaluation_id, own=ctx.settings.identifier)
        if wanted.issuer is None and len(by_issuer) > 1:
            several = f"Several decision points have an evaluation of this id; name one: {', '.join(by_issuer)}."
            raise InvalidRequest(several, pointer="/issuer")
        chains = by_issuer.get(wanted.issuer, ()) if wanted.issuer is not None else next(iter(by_issuer.values()), ())
        return audit.entries_of_evaluation(session, evaluation_id, chains=chains, after=after, limit=wanted.limit + 1)

    found = await ctx.database.read(look)
    last = found[: wanted.limit][-1] if found else None
    more = None if last is None else cursor("evaluation", format_instant(last.at), last.chain, last.seq)
    return _page(found, wanted, more)


async def _of_chain(ctx: Context, wanted: AuditFilter, chain: str) -> Page[EntryView]:
    after = 0 if wanted.cursor is None else int(read_cursor(wanted.cursor, "chain", int)[0])

    def look(session: Session) -> Sequence[AuditEntry]:
        return log.entries_of_chain(session, chain, after=min(after, _LARGEST), limit=wanted.limit + 1)

    found = await ctx.database.read(look)
    return _page(found, wanted, cursor("chain", after + min(len(found), wanted.limit)))


async def _of_all(ctx: Context, wanted: AuditFilter) -> Page[EntryView]:
    after = 0 if wanted.cursor is None else int(read_cursor(wanted.cursor, "all", int)[0])
    await place_entries(ctx.database)

    def look(session: Session) -> Sequence[log.Placed]:
        until = log.last_position(session)
        return log.placed_entries(session, after=after, until=until, limit=wanted.limit + 1)

    found = await ctx.database.read(look)
    # An entry that is gone is for `arap audit verify` to tell about.
    kept = [entry for _, entry in found[: wanted.limit] if entry is not None]
    more = cursor("all", found[wanted.limit - 1][0].position) if len(found) > wanted.limit else None
    return Page(tuple(map(view_of, kept)), more)


_LARGEST: Final = 2**31 - 1


def _page(found: Sequence[AuditEntry], wanted: AuditFilter, more: str | None) -> Page[EntryView]:
    return Page(tuple(map(view_of, found[: wanted.limit])), more if len(found) > wanted.limit else None)


def view_of(entry: AuditEntry) -> EntryView:
    """An entry as it is shown."""
    return EntryView(**{**audit.as_json(entry), "at": entry.at})  # type: ignore[arg-type]
