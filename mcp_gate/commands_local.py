"""`mcp-gate pending`, `decide` and `approver`: the commands of the people who decide for the local backend.

Parses and prints; deciding is in `local.deciding`. A secret is read from a file, standard input or a hidden prompt,
never from the command line, where others could read it.
"""

import hashlib
import json
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
import typer
from sqlalchemy import Connection

from arap_service.protocol.canonical import TOOL_CALL
from arap_service.protocol.sealing import KeyRing, SealBroken
from mcp_gate import migrate
from mcp_gate.database import Database
from mcp_gate.local.deciding import NotDecided, Vote, decide
from mcp_gate.local.requests import LocalRequest, find_request, pending_requests
from mcp_gate.settings import ConfigurationInvalid, GateSettings, load_ring, load_settings
from mcp_gate.settings_local import Local
from mcp_gate.writable import visible

Result = TypeVar("Result")
Config = Annotated[Path, typer.Option("--config", help="YAML file with the gate's settings.")]
Clock = Callable[[], datetime]


def pending(
    config: Config,
    request: Annotated[str | None, typer.Argument(help="A request, to see it whole with its arguments.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the calls that wait for an approver of the local backend, or show one of them whole."""
    settings, local = _local(config)
    now = _now()
    if request is None:
        waiting = _work(settings, lambda connection, ring: pending_requests(connection, ring, now=now))
        if as_json:
            _print_json([_summary(found, local) for found in waiting])
        elif not waiting:
            typer.echo("Nothing waits for a decision.")
        for found in () if as_json else waiting:
            shown = _summary(found, local)
            line = f"{shown['id']}  {shown['tool']}  asked by {shown['asked_by']}  until {shown['expires_at']}"
            typer.echo(visible(line.replace("\n", " ")))
        return
    one = _work(settings, lambda connection, ring: find_request(connection, ring, request))
    if one is None:
        raise ConfigurationInvalid("there is no such request; `mcp-gate pending` lists those that wait")
    _print_json(_whole(one, local, now=now))


def decide_command(
    request: Annotated[str, typer.Argument(help="The request, as `mcp-gate pending` shows it.")],
    config: Config,
    *,
    approver: Annotated[str, typer.Option("--as", help="Who decides: a name under local.approvers.")],
    decision: Annotated[bool, typer.Option("--approve/--deny", help="What is decided.", show_default=False)],
    reason: Annotated[str | None, typer.Option(help="Why; a denial needs a reason.")] = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="File with the approver's secret; else it is asked for, or read from stdin.")
    ] = None,
) -> None:
    """Approve or deny a call that waits, as a configured approver; nobody decides what he asked for himself."""
    settings, local = _local(config)
    word: Literal["approve", "deny"] = "approve" if decision else "deny"
    vote = Vote(approver, _secret(secret_file), word, reason)
    now = _now()
    try:
        decided = _work(settings, lambda connection, ring: decide(connection, ring, local, request, vote=vote, now=now))
    except NotDecided as error:
        raise ConfigurationInvalid(str(error)) from None
    until = "" if decided.approved_until is None else f", to be used until {_instant(decided.approved_until)}"
    typer.echo(f"{decided.id} is {decided.status.value}{until}")


def approver_command(
    name: Annotated[str, typer.Argument(help="The approver's name.")],
) -> None:
    """Make a secret for an approver, and print what to put under local.approvers; nothing is stored."""
    secret = secrets.token_urlsafe(32)
    hashed = hashlib.sha256(secret.encode()).hexdigest()
    typer.echo(f"Give this secret to {name}; it is shown once: {secret}", err=True)
    typer.echo(f"local:\n  approvers:\n    {json.dumps(name)}:\n      secret_hash: sha256:{hashed}")
    rule = f"- {{tools: [some_tool], decision: request, approvers: [{json.dumps(name)}]}}"
    typer.echo(f"  # A rule that lets this approver decide:\n  # rules:\n  #   {rule}")


def _local(config: Path) -> tuple[GateSettings, Local]:
    settings = load_settings(config)
    if settings.local is None:
        raise ConfigurationInvalid("local: is missing; this gate asks an approval backend, which decides itself")
    return settings, settings.local


def _work(settings: GateSettings, work: Callable[[Connection, KeyRing], Result]) -> Result:
    ring = load_ring(settings.key_file, create=False)
    migrate.check(settings.database)

    async def run() -> Result:
        database = Database.open(settings.database)
        try:
            return await database.write(lambda connection: work(connection, ring))
        finally:
            await database.aclose()

    try:
        return anyio.run(run)
    except SealBroken:
        raise ConfigurationInvalid("key_file: it does not hold the key that a request was sealed with") from None


def _secret(file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigurationInvalid(f"--secret-file: {file} cannot be read") from None
    if sys.stdin.isatty():
        return str(typer.prompt("Secret", hide_input=True))
    return sys.stdin.readline().rstrip("\r\n")


def _summary(found: LocalRequest, local: Local) -> dict[str, Any]:
    call = found.question["context"][TOOL_CALL]
    rule = local.rule_for(call["tool"], "")
    asker = found.asker
    through = [] if asker is None else [name for name in (asker.client_id, asker.agent) if name and name != asker.sub]
    return {
        "id": found.id,
        "tool": call["tool"],
        "asked_by": "unknown" if asker is None else " through ".join([asker.sub, *dict.fromkeys(through)]),
        "asked_at": _instant(found.created_at),
        "expires_at": _instant(found.expires_at),
        "may_decide": [] if rule is None else list(rule.approvers),
    }


def _whole(found: LocalRequest, local: Local, *, now: datetime) -> dict[str, Any]:
    call = found.question["context"][TOOL_CALL]
    return {
        **_summary(found, local),
        "status": found.status_at(now).value,
        "server": call["server"],
        "title": call.get("title"),
        "subject": found.question["subject"],
        "action": found.question["action"],
        "resource": found.question["resource"],
        "arguments": call["arguments"],
        "arguments_are_whole": call["complete"],
        "decided_by": found.decided_by,
        "reason": found.reason,
        "approved_until": None if found.approved_until is None else _instant(found.approved_until),
        "disposition": found.disposition,
    }


def _print_json(value: Any) -> None:
    typer.echo(visible(json.dumps(value, indent=2, ensure_ascii=False)))


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _now() -> datetime:
    return datetime.now(UTC)
