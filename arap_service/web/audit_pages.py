"""The audit trail for auditors: all of it, or what became of one request or evaluation; and a file of it.

What is shown are ids, codes and hashes, as they are on record; nothing sealed is opened here. What may be seen is
decided in `auditing`. See design.md sections 5 and 7.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from arap_service import audit
from arap_service.auditing import reading, trail
from arap_service.auditing.export import export_lines
from arap_service.auditing.reading import AuditFilter, EntryView
from arap_service.auditing.trail import TrailFilter
from arap_service.domain.callers import Scope
from arap_service.domain.errors import UnknownTask
from arap_service.store import log
from arap_service.views import Page
from arap_service.web.asking import cursor_of, moment_of, searched
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.operation_words import KINDS
from arap_service.web.rendering import render

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 100
_PATH: Final = "/desk/audit"
_IN_MEMORY: Final = 4 * 1024 * 1024
_PIECE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """What of the trail the reader wants to see; the times are as he typed them, in UTC."""

    request: str
    evaluation: str
    issuer: str
    kind: str
    since: str
    until: str

    def href(self, path: str, **others: str) -> str:
        """A link to `path` with this choice."""
        fields = ("request", "evaluation", "issuer", "kind", "since", "until")
        chosen = {name: getattr(self, name) for name in fields} | others
        return f"{path}?{urlencode({name: value for name, value in chosen.items() if value})}"


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def audit_page(request: Request) -> Response:
    """Entries, and how far signed checkpoints cover them."""
    asked = visit(request)
    asked.require("auditors", Scope.AUDIT_READ)
    wanted = Asked(
        request=searched(request, "request"),
        evaluation=searched(request, "evaluation"),
        issuer=searched(request, "issuer"),
        kind=searched(request, "kind"),
        since=request.query_params.get("since", ""),
        until=request.query_params.get("until", ""),
    )
    since, until = moment_of(wanted.since), moment_of(wanted.until)
    issuers = await reading.issuers_of(asked.ctx, asked.caller, wanted.evaluation) if wanted.evaluation else ()
    is_unclear = len(issuers) > 1 and not wanted.issuer and not wanted.request
    found: Page[EntryView] = Page((), None)
    if not is_unclear:
        found = await _found(asked, wanted, since, until, cursor_of(request))
    more = wanted.href(asked.page.root + _PATH, cursor=found.next_cursor) if found.next_cursor else None
    values: dict[str, Any] = {
        "wanted": wanted,
        "entries": [entry for entry in found.items if _fits(entry, wanted, since, until)],
        "more": more,
        "choices": [(name, wanted.href(asked.page.root + _PATH, issuer=name)) for name in issuers]
        if is_unclear
        else [],
        "kinds": sorted(KINDS.items(), key=lambda each: each[1]),
        "standing": await trail.standing(asked.ctx, asked.caller),
        "chain": await _verified(asked, wanted.request) if wanted.request else None,
    }
    return render("audit.html", asked.page, **values)


@router.api_route(_PATH + "/export", methods=sorted(READING), response_model=None)
async def export(request: Request) -> Response:
    """Everything that the newest checkpoint covers, in the form that can be verified without the database."""
    asked = visit(request)
    asked.require("auditors", Scope.AUDIT_READ)

    def write(session: Session) -> tuple[IO[bytes], int]:
        until = log.last_checkpoint(session)
        if until is None:
            raise UnknownTask
        file: IO[bytes] = SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by whoever sends it
        file.writelines(export_lines(session, until, issuer=asked.ctx.settings.identifier))
        file.seek(0)
        return file, until.number

    file, number = await asked.ctx.database.read(write)
    asked.ctx.log.info("audit_exported", checkpoint=number, person_id=asked.caller.person_id)
    name = f'attachment; filename="audit-{number}.jsonl"'
    return StreamingResponse(
        _pieces(file), media_type="application/jsonl; charset=utf-8", headers={"Content-Disposition": name}
    )


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(partial(file.read, _PIECE), b"")


async def _found(
    asked: Visit, wanted: Asked, since: datetime | None, until: datetime | None, cursor: str | None
) -> Page[EntryView]:
    if wanted.request:
        story = AuditFilter(chain=wanted.request, cursor=cursor, limit=PAGE_SIZE)
        return await reading.entries(asked.ctx, asked.caller, story)
    if wanted.evaluation:
        story = AuditFilter(evaluation=wanted.evaluation, issuer=wanted.issuer or None, cursor=cursor, limit=PAGE_SIZE)
        return await reading.entries(asked.ctx, asked.caller, story)
    whole = TrailFilter(kind=wanted.kind or None, since=since, until=until, cursor=cursor, limit=PAGE_SIZE)
    return await trail.trail(asked.ctx, asked.caller, whole)


def _fits(entry: EntryView, wanted: Asked, since: datetime | None, until: datetime | None) -> bool:
    """Whether an entry of one story is among what the reader wants of it."""
    if wanted.kind and entry.kind != wanted.kind:
        return False
    return (since is None or entry.at >= since) and (until is None or entry.at < until)


async def _verified(asked: Visit, chain: str) -> audit.Verified | audit.Broken:
    """Whether the chain that is shown is whole, recomputed now."""
    return await asked.ctx.database.read(partial(audit.verify_chain, chain=chain))
