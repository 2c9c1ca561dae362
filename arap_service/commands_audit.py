"""The commands of the audit log: verify it, export it, sign a checkpoint, show what became of one evaluation.

`verify` on an export needs no database and no network: the file, and the service's public keys from elsewhere. Commands
call what the service itself uses and decide nothing of their own.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from arap_service import audit
from arap_service.auditing.checkpoints import LogBroken, Notary
from arap_service.auditing.export import ExportInvalid, export_lines, issuer_of, static_issuers, verify_lines
from arap_service.auditing.revealing import record_revealing, revealing
from arap_service.auditing.stored import read_with, verify_stored
from arap_service.auditing.verification import Report, Signed, Verifier
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly
from arap_service.domain.visible import visible
from arap_service.key_file import load_ring
from arap_service.keys import Keys
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import InvalidJson, strict_loads
from arap_service.protocol.sealing import KeyRing
from arap_service.settings import load_settings
from arap_service.store import migrate
from arap_service.store.database import Database, ReadSession
from arap_service.store.log_tables import AuditCheckpoint
from arap_service.surroundings import utc_now

app = typer.Typer(no_args_is_help=True, help="The audit log.")
Jwks = Annotated[
    Path | None, typer.Option("--jwks", help="The service's public keys, as `arap audit keys` prints them.")
]
Witness = Annotated[
    Path | None,
    typer.Option("--witness", help="A checkpoint kept from `arap audit checkpoint`; the log must still contain it."),
]


@dataclass(frozen=True, slots=True)
class _Log:
    """A database with its keys, for the length of a command."""

    notary: Notary
    ring: KeyRing

    @property
    def database(self) -> Database:
        return self.notary.database


@app.command("verify")
def verify_command(
    file: Annotated[Path | None, typer.Argument(help="An export; without one the database is verified.")] = None,
    config: Config = DEFAULT_CONFIG,
    *,
    jwks: Jwks = None,
    witness: Witness = None,
) -> None:
    """Recompute every chain and every signed checkpoint; says what is broken, and where."""
    with failing_clearly(), _broken_inputs():
        if file is None:
            report = _verified_database(config, jwks, witness)
        elif jwks is None:
            fail("audit: an export proves nothing by its own keys; name those of the service with --jwks")
        else:
            report = _verified_file(file, jwks, witness)
    if not report.is_whole:
        more = report.fault_count - len(report.faults)
        fail(*(f"audit: {visible(fault)}" for fault in report.faults), *([f"audit: and {more} more"] if more else []))
    typer.echo(
        f"{report.chains} chains with {report.entries} entries are whole; "
        f"{report.covered} entries are under {report.checkpoints} signed checkpoints."
    )
    if report.revealed:
        typer.echo(f"{report.revealed} revealed lines are under none: they prove nothing.")


@app.command("export")
def export_command(
    file: Annotated[Path | None, typer.Argument(help="A new file; without one it goes to standard output.")] = None,
    config: Config = DEFAULT_CONFIG,
    *,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Also open what is sealed about each request; that goes on record.")
    ] = False,
) -> None:
    """Sign a checkpoint over the log and write all that it covers, as JSON lines that can be verified elsewhere."""
    with failing_clearly(), _broken_inputs(), _opened(config, to_sign=True) as opened, _output(file) as out:
        if reveal:
            record_revealing(opened.database, actor="command line", clock=utc_now)
        until = _signed(opened)
        opener = revealing(opened.ring) if reveal else None
        with _progress(until.size, "Exporting") as advance:

            def write(session: ReadSession) -> None:
                for line in export_lines(session, until, issuer=opened.notary.issuer, reveal=opener):
                    out.write(line)
                    advance(line.startswith((b'{"type":"entry"', b'{"type":"missing"')))

            opened.database.read_now(write)
    if file is not None:
        typer.echo(f"{until.size} entries are in {file}, up to checkpoint {until.number}.", err=True)


@app.command("checkpoint")
def checkpoint_command(config: Config = DEFAULT_CONFIG) -> None:
    """Sign a checkpoint over all that is in the log and print it, to be kept where nobody here can change it."""
    with failing_clearly(), _broken_inputs(), _opened(config, to_sign=True) as opened:
        typer.echo(_signed(opened).signature)


@app.command("keys")
def keys_command(config: Config = DEFAULT_CONFIG) -> None:
    """Print the public keys that checkpoints are verified with, also those that sign no longer."""
    with failing_clearly(), _opened(config) as opened:
        typer.echo(json.dumps(opened.notary.keys.log_jwks(), indent=2))


@app.command("show")
def show_command(
    evaluation_id: Annotated[str, typer.Argument(help="The evaluation_id of a denial.")],
    config: Config = DEFAULT_CONFIG,
    *,
    issuer: Annotated[
        str | None, typer.Option(help="The decision point that gave it this id, where several have given the same.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show what became of one evaluation: denial, request, votes, approval, re-evaluations, executions."""
    with failing_clearly(), _opened(config) as opened:
        own, read = opened.notary.issuer, opened.database.read_now
        by_issuer = read(lambda session: audit.chains_of_evaluation(session, evaluation_id, own=own))
        if issuer is None and len(by_issuer) > 1:
            fail("audit: several decision points have an evaluation of this id; name one:", *map(visible, by_issuer))
        chains = by_issuer.get(issuer, ()) if issuer is not None else next(iter(by_issuer.values()), ())
        entries = read(lambda session: audit.entries_of_evaluation(session, evaluation_id, chains=chains))
    if not entries:
        fail(f"audit: nothing is on record about evaluation {visible(evaluation_id)}")
    for entry in entries:
        if as_json:
            typer.echo(json.dumps(audit.as_json(entry)))
            continue
        told = {name: value for name, value in json.loads(entry.detail).items() if value is not None}
        more = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in told.items())
        typer.echo(f"{format_instant(entry.at)}  {entry.kind:<20} {visible(entry.actor)}  {visible(more)}")


@contextmanager
def _opened(config: Path, *, to_sign: bool = False) -> Iterator[_Log]:
    settings = load_settings(config)
    migrate.check(settings.database)
    ring = load_ring(settings.key_file)
    database = Database.open(settings.database)
    try:
        keys = Keys((), clock=utc_now)
        if to_sign:
            keys = asyncio.run(Keys.load_or_create(database, ring, clock=utc_now))
        else:
            asyncio.run(keys.reload(database, ring))
        yield _Log(Notary(database=database, keys=keys, issuer=settings.identifier, clock=utc_now), ring)
    finally:
        database.close()


def _signed(opened: _Log) -> AuditCheckpoint:
    made = asyncio.run(opened.notary.sign())
    if made is None:
        fail("audit: the log is empty")
    return made


def _verified_database(config: Path, jwks: Path | None, witness: Path | None) -> Report:
    with _opened(config) as opened:
        issuer, own = opened.notary.issuer, opened.notary.keys.log_jwks()
        # A key that the ring opens was made by whoever has the ring; a database alone could hold any.
        trusted = own if jwks is None else _json(jwks)
        verifier = _verifier(issuer, trusted, witness)
        size = opened.database.read_now(audit.count)
        with _progress(size, "Verifying") as advance:
            return opened.database.read_now(lambda session: verify_stored(session, verifier, progress=advance))


def _verified_file(file: Path, jwks: Path, witness: Path | None) -> Report:
    with file.open("rb") as lines:
        verifier = _verifier(issuer_of(lines.readline()), _json(jwks), witness)
        with _progress(file.stat().st_size, "Verifying") as advance:
            return verify_lines(_counted(lines, advance), verifier)


def _verifier(issuer: str, jwks: object, witness: Path | None) -> Verifier:
    read = read_with(static_issuers(issuer, jwks))
    if witness is None:
        return Verifier(read)
    signature = witness.read_text(encoding="ascii").strip()
    claims = read(signature)
    if claims is None:
        fail("audit: the witness is no checkpoint that this service has signed")
    return Verifier(
        read,
        Signed(
            number=cast("int", claims["number"]),
            size=cast("int", claims["size"]),
            root=str(claims["root"]),
            signature=signature,
        ),
    )


def _counted(lines: Iterable[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in lines:
        yield line
        advance(len(line))


def _json(path: Path) -> object:
    try:
        value = strict_loads(path.read_bytes())
    except InvalidJson:
        fail(f"audit: {path} is not JSON")
    if not isinstance(value, dict) or not isinstance(value.get("keys"), list):
        fail(f"audit: {path} holds no keys; write them with: arap audit keys")
    return value


@contextmanager
def _broken_inputs() -> Iterator[None]:
    """An export that is none, and a log that nothing can be signed over."""
    try:
        yield
    except (ExportInvalid, LogBroken) as error:
        fail(str(error))


@contextmanager
def _output(file: Path | None) -> Iterator[BinaryIO]:
    """Where to write: a new file that only its owner may read, complete or not there at all; or standard output."""
    if file is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    if file.exists():
        fail(f"audit: {file} is there already; name a new file")
    # Neither a file that somebody has put there, whose mode would stay, nor a link to one is written to.
    opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "wb") as out:
            yield out
        os.link(part, file)  # unlike a renaming, this never replaces what came there meanwhile
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _progress(length: int, label: str) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal of whoever waits, nothing anywhere else."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with typer.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
