"""`mcp-gate conformance`: parses, runs, prints and writes. Exit status: 0, 1, 2 or 3, as docs/conformance.md has it."""

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from blackbox_kit.command import (
    FAILED,
    NOT_RUN,
    OK,
    USAGE,
    UsageWrong,
    Watching,
    checked_url,
    concluded,
    observed,
    repeated,
    status,
    wide_console,
    writable,
)
from blackbox_kit.hands import each_its_own
from blackbox_kit.table import listed
from mcp_gate.conformance.catalogue import NoSuchCheck, chosen
from mcp_gate.conformance.control import Control, ControlInvalid, Hands, Secret, read_control
from mcp_gate.conformance.model import Check, Report
from mcp_gate.conformance.rules import rules
from mcp_gate.conformance.running import HttpSubject, Run, StdioSubject, Subject, Unreachable, client_player
from mcp_gate.conformance.table import SUITE

PROGRAM: Final = ("mcp-gate", "conformance")
__all__ = ["FAILED", "conformance", "main", "status"]

File = Annotated[Path | None, typer.Option(help="Write it there as well.")]


def conformance(
    *,
    url: Annotated[str | None, typer.Option(help="The server under test, over streamable HTTP.")] = None,
    stdio: Annotated[str | None, typer.Option(help="Or the command that starts it, over stdio.")] = None,
    client: Annotated[
        str | None, typer.Option(help="A client under test: a command with {url} and {tool} in it.")
    ] = None,
    control: Annotated[Path | None, typer.Option(help="What the deployment offers (YAML); see docs.")] = None,
    token_env: Annotated[str | None, typer.Option(help="Variable with the caller's bearer token.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="One check or one group; may be given again.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checks, and run nothing.")] = False,
    strict: Annotated[bool, typer.Option(help="A SHOULD counts as well, and what is skipped was not run.")] = False,
    anyway: Annotated[bool, typer.Option(help="Run everything even if the server declares no tasks.")] = False,
    json_: Annotated[Path | None, typer.Option("--json", help="Write everything to this file as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file.")] = None,
    checks: Annotated[Path | None, typer.Option(help="Write checks.json of the public MCP suite.")] = None,
) -> None:
    """Test any MCP server, or client, against SEP-2848: approvals of tool calls as tasks."""
    try:
        wanted = chosen(only or ())
        if list_:
            listed(wanted, rules(), wide_console())
            raise typer.Exit(OK)
        given = _control(control, token_env)
        subject = _subject(url, stdio, client)
        if subject is None:
            wanted = tuple(check for check in wanted if check.of_client)
        writable(json_, junit, checks)
        options = {"url": url, "stdio": stdio, "client": client, "control": control, "token_env": token_env}
        repeat = repeated(PROGRAM, {**options, "anyway": anyway})
        play = partial(_run, Hands(*given), subject, client, wanted, anyway=anyway)
        outcomes = observed("mcp-gate", wanted, play)
    except (NoSuchCheck, ControlInvalid, UsageWrong) as error:
        _end(str(error), USAGE)
    except Unreachable as error:
        _end(f"no server to test: {error}", NOT_RUN)
    target, transport = (client or "", "a scripted server") if subject is None else (subject.target, subject.transport)
    report, files = Report(target, transport, outcomes, rules()), {"json": json_, "junit": junit, "checks": checks}
    raise typer.Exit(concluded("mcp-gate", SUITE, report, at=_now(), strict=strict, repeat=repeat, **files))


async def _run(
    hands: Hands,
    subject: Subject | None,
    client: str | None,
    checks: Sequence[Check],
    watching: Watching,
    *,
    anyway: bool,
) -> None:
    tokens = hands.control.tokens
    first, second = await hands.token(tokens.first), await hands.token(tokens.second)
    each_its_own({"first": first, "second": second})
    play = None if client is None else client_player(client, seconds=hands.control.seconds.check)
    await Run(hands, subject, tokens=(first, second), client=play, anyway=anyway).all(checks, watching.told)


def _subject(url: str | None, stdio: str | None, client: str | None) -> Subject | None:
    if url is not None and stdio is not None:
        raise UsageWrong("give either --url or --stdio")
    if client is not None and not _words(client, "--client"):
        raise UsageWrong("--client names no program")
    if url is not None:
        return HttpSubject(checked_url(url))
    if stdio is not None:
        if not _words(stdio, "--stdio"):
            raise UsageWrong("--stdio names no program")
        return StdioSubject(stdio)
    if client is None:
        raise UsageWrong("give a server with --url or --stdio, or a client with --client")
    return None


def _words(command: str, option: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        raise UsageWrong(f"{option} is no command: a quotation mark is missing") from None


def _control(path: Path | None, token_env: str | None) -> tuple[Control, Path]:
    found = Control() if path is None else read_control(path)
    folder = Path.cwd() if path is None else path.resolve().parent
    if token_env is not None:
        tokens = found.tokens.model_copy(update={"first": Secret(env=token_env)})
        found = found.model_copy(update={"tokens": tokens})
    return found, folder


def _end(text: str, code: int) -> NoReturn:
    sys.stderr.write(f"mcp-gate: {text}\n")
    raise typer.Exit(code)


def _now() -> datetime:
    return datetime.now(UTC)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("conformance")(conformance)


def main() -> None:
    """Entry point of `mcp-gate conformance`."""
    app(prog_name="mcp-gate conformance")
