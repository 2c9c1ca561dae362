"""The log as a file that can be verified without the database: JSON lines, in the order of the log, up to a checkpoint.

One line is a header, an entry, a checkpoint or the end; an entry that is gone is a line that says so. Entries hold
ids, codes and hashes; what people and tools said stays sealed and out of the file, unless it is asked for, which is
recorded first. `reveal` lines are no part of what is signed. See design.md section 5.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from sqlmodel import Session

from arap_service.auditing.verification import Report, Signed, Verifier
from arap_service.keys import PublicKey, TrustedIssuers, import_public
from arap_service.protocol.arap import format_instant, parse_instant
from arap_service.protocol.canonical import InvalidJson, canonical, strict_loads
from arap_service.store import log
from arap_service.store.log_tables import AuditCheckpoint, AuditPlace
from arap_service.store.tables import AuditEntry

FORMAT: Final = "arap-audit-export"
VERSION: Final = 1

Line = Mapping[str, JsonValue]
Reveal = Callable[[Session, AuditEntry], Line | None]


class ExportInvalid(Exception):
    """The file is no export of an audit log; `line` is the first that is not as it should be."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"audit: line {line}: {what}")
        self.line = line


def export_lines(
    session: Session, until: AuditCheckpoint, *, issuer: str, reveal: Reveal | None = None
) -> Iterator[bytes]:
    """The lines of an export of everything that the checkpoint `until` covers, each with its end of line."""
    head: dict[str, JsonValue] = {"issuer": issuer, "at": format_instant(until.at), "size": until.size}
    yield _line({"type": "header", "format": FORMAT, "version": VERSION, **head})
    checkpoints = log.checkpoints(session)
    pending = next(checkpoints, None)
    position = 0
    while found := log.placed_entries(session, after=position, until=until.size, limit=log.BATCH):
        for place, entry in found:
            yield _line(_entry(place, entry))
            told = None if reveal is None or entry is None else reveal(session, entry)
            if told is not None:
                yield _line({"type": "revealed", **told})
            while pending is not None and pending.size <= place.position:
                yield _line(_checkpoint(pending))
                pending = next(checkpoints, None)
        position = found[-1][0].position
    while pending is not None and pending.size <= until.size:  # of places that are not there any more
        yield _line(_checkpoint(pending))
        pending = next(checkpoints, None)
    yield _line({"type": "end", "size": until.size})


def _line(value: Line) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _entry(place: AuditPlace, entry: AuditEntry | None) -> dict[str, JsonValue]:
    where: dict[str, JsonValue] = {"position": place.position, "chain": place.chain, "seq": place.seq}
    if entry is None:
        return {"type": "missing", **where, "hash": place.hash}
    detail = _detail(entry.detail)
    return {
        "type": "entry",
        **where,
        "at": format_instant(entry.at),
        "kind": entry.kind,
        "actor": entry.actor,
        "evaluation_id": entry.evaluation_id,
        **({"detail_text": entry.detail} if detail is None else {"detail": detail}),
        "previous": entry.previous,
        "hash": entry.hash,
        **({} if place.hash == entry.hash else {"placed_hash": place.hash}),
    }


def _detail(text: str) -> JsonValue | None:
    """The detail as an object, None where that would not give back exactly the text that was hashed."""
    try:
        value = strict_loads(text)
        return value if canonical(value).decode() == text else None
    except (InvalidJson, ValueError):
        return None


def _checkpoint(row: AuditCheckpoint) -> Line:
    known: dict[str, JsonValue] = {"number": row.number, "at": format_instant(row.at), "size": row.size}
    return {"type": "checkpoint", **known, "root": row.root, "signature": row.signature}


# Reading it back


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)


Model = TypeVar("Model", bound=_Part)


class _Header(_Part):
    format: str
    version: int
    issuer: str
    size: int


class _Place(_Part):
    # What nothing vouches for would be read beside what is signed, in a file that is called whole.
    model_config = ConfigDict(extra="forbid")

    type: str
    position: int = Field(ge=1)
    chain: str
    seq: int = Field(ge=1)
    hash: str


class _Entry(_Place):
    at: str
    kind: str
    actor: str
    evaluation_id: str | None
    detail: JsonValue = None
    detail_text: str | None = None
    previous: str
    placed_hash: str | None = None


class _Checkpoint(_Part):
    model_config = ConfigDict(extra="forbid")

    type: str
    number: int
    at: str
    size: int
    root: str
    signature: str


class _End(_Part):
    size: int


def static_issuers(issuer: str, jwks: object) -> TrustedIssuers:
    """The usable keys of a JWK Set as the only keys of one issuer; none if it is no JWK Set."""
    listed = jwks.get("keys") if isinstance(jwks, dict) else None
    keys: dict[str, PublicKey] = {}
    for jwk in listed if isinstance(listed, list) else ():
        key = import_public(jwk) if isinstance(jwk, dict) else None
        if key is not None and isinstance(jwk, dict) and isinstance(jwk.get("kid"), str):
            keys[str(jwk["kid"])] = key
    return TrustedIssuers({issuer: _StaticKeys(keys)})


class _StaticKeys:
    """Keys that are known from the beginning."""

    def __init__(self, keys: Mapping[str, PublicKey]) -> None:
        self._keys = keys

    def find(self, kid: str) -> PublicKey | None:
        return self._keys.get(kid)

    async def prepare(self, kid: str) -> None:
        """There is nobody to ask."""


def issuer_of(header: bytes) -> str:
    """Who says that the export is his, by its first line.

    Raises:
        ExportInvalid: It is not the first line of an export.
    """
    value = _parsed(1, header)
    read = _as(_Header, 1, value)
    if value.get("type") != "header" or read.format != FORMAT or read.version != VERSION:
        raise ExportInvalid(1, "is not the header of an export of this version")
    return read.issuer


def verify_lines(lines: Iterable[bytes], verifier: Verifier) -> Report:
    """Everything that is wrong with an export, whose header has been read.

    Raises:
        ExportInvalid: A line is not as it should be.
    """
    ended, revealed = None, 0
    for number, raw in enumerate(lines, start=2):
        value = _parsed(number, raw)
        if ended is not None:
            raise ExportInvalid(number, "nothing may follow the end")
        match value.get("type"):
            case "entry":
                _take(number, _as(_Entry, number, value), verifier)
            case "missing":
                place = _as(_Place, number, value)
                verifier.placed(_place(place, place.hash), None)
            case "checkpoint":
                verifier.checkpoint(_signed(number, _as(_Checkpoint, number, value)))
            case "end":
                ended = _as(_End, number, value).size
            case "revealed":
                revealed += 1
            case _:
                raise ExportInvalid(number, "is of an unknown type")
    report = verifier.report()
    if ended is None:
        verifier.fault("the export has no end: lines are missing")
    elif not (ended == verifier.size == report.covered):
        verifier.fault("the export does not end with a checkpoint over all of it")
    return replace(verifier.report(), revealed=revealed)


def _take(number: int, read: _Entry, verifier: Verifier) -> None:
    if read.detail_text is not None and "detail" in read.model_fields_set:
        raise ExportInvalid(number, "has its detail twice")
    try:
        detail = canonical(read.detail).decode() if read.detail_text is None else read.detail_text
        at = parse_instant(read.at)
    except (ValueError, TypeError):
        raise ExportInvalid(number, "is no entry") from None
    verifier.placed(_place(read, read.placed_hash or read.hash), _row(read, detail, at))


def _signed(number: int, read: _Checkpoint) -> Signed:
    try:
        at = parse_instant(read.at)
    except ValueError:
        raise ExportInvalid(number, "at is missing or of another form") from None
    return Signed(number=read.number, at=at, size=read.size, root=read.root, signature=read.signature)


def _place(read: _Place, hash_: str) -> AuditPlace:
    return AuditPlace(position=read.position, chain=read.chain, seq=read.seq, hash=hash_)


def _row(read: _Entry, detail: str, at: datetime) -> AuditEntry:
    return AuditEntry(
        chain=read.chain,
        seq=read.seq,
        at=at,
        kind=read.kind,
        actor=read.actor,
        evaluation_id=read.evaluation_id,
        detail=detail,
        previous=read.previous,
        hash=read.hash,
    )


def _parsed(number: int, raw: bytes) -> dict[str, Any]:
    try:
        value = strict_loads(raw)
    except InvalidJson:
        raise ExportInvalid(number, "is not JSON") from None
    if not isinstance(value, dict):
        raise ExportInvalid(number, "is not a JSON object")
    return value


def _as(kind: type[Model], number: int, value: dict[str, Any]) -> Model:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise ExportInvalid(number, f"{where} is missing or of another form") from None
