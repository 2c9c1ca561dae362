"""`mcp-gate conformance`: parses, runs, prints and writes. Exit status: 0, 1, 2 or 3, as docs/conformance.md has it."""

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NoReturn, Self
from urllib.parse import urlsplit

import anyio
import typer
from rich.console import Console

from mcp_gate.conformance.catalogue import NoSuchCheck, chosen
from mcp_gate.conformance.control import Control, ControlInvalid, Hands, Secret, read_control
from mcp_gate.conformance.model import Check, Level, Outcome, Report, Verdict
from mcp_gate.conformance.report import as_checks, as_json, as_junit
from mcp_gate.conformance.rules import rules
from mcp_gate.conformance.running import HttpSubject, Run, StdioSubject, Subject, Unreachable, client_player
from mcp_gate.conformance.table import listed, show, word

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_RUN: Final = 3
NARROWEST: Final = 160

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
            listed(wanted, rules(), _console())
            raise typer.Exit(OK)
        given = _control(control, token_env)
        subject = _subject(url, stdio, client)
        repeat = _repeat(url=url, stdio=stdio, client=client, control=control, token_env=token_env, anyway=anyway)
        report = anyio.run(lambda: _run(Hands(*given), subject, client, wanted, anyway=anyway))
    except (NoSuchCheck, ControlInvalid, UsageWrong) as error:
        _end(str(error), USAGE)
    except Unreachable as error:
        _end(f"no server to test: {error}", NOT_RUN)
    except KeyboardInterrupt:
        _end("interrupted", NOT_RUN)
    show(report, _console(), repeat=repeat)
    try:
        for path, text in ((json_, as_json(report)), (junit, as_junit(report)), (checks, as_checks(report, at=_now()))):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        _end(f"the report cannot be written ({type(error).__name__})", USAGE)
    raise typer.Exit(status(report, strict=strict))


class UsageWrong(Exception):
    """The command line asks for what cannot be."""


def status(report: Report, *, strict: bool) -> int:
    """The exit status that a report means."""
    level = None if strict else Level.MUST
    if report.count(Verdict.FAIL, level=level):
        return FAILED
    if report.count(Verdict.ERROR) or (strict and report.count(Verdict.SKIPPED)):
        return NOT_RUN
    return OK


async def _run(
    hands: Hands, subject: Subject | None, client: str | None, checks: Sequence[Check], *, anyway: bool
) -> Report:
    tokens = hands.control.tokens
    first, second = await hands.token(tokens.first), await hands.token(tokens.second)
    play = None if client is None else client_player(client, seconds=hands.control.seconds.check)
    run = Run(hands, subject, tokens=(first, second), client=play, anyway=anyway)
    if subject is None:
        checks = [check for check in checks if check.of_client]
    with Watching(len(checks)) as watching:
        outcomes = await run.all(checks, watching.told)
    target = client if subject is None else subject.target
    return Report(target or "", "a scripted server" if subject is None else subject.transport, outcomes, rules())


class Watching:
    """Says on standard error how far the run is: one line that changes at a terminal, one for each check elsewhere."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._total = total
        self._done = 0
        self._status = self._console.status("starting …") if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def told(self, outcome: Outcome) -> None:
        """One more is done."""
        self._done += 1
        line = f"{self._done}/{self._total}  {word(outcome):8}{outcome.check.id}"
        if self._status is not None:
            self._status.update(line)
        else:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _subject(url: str | None, stdio: str | None, client: str | None) -> Subject | None:
    if url is not None and stdio is not None:
        raise UsageWrong("give either --url or --stdio")
    if url is not None:
        if not url.startswith(("http://", "https://")):
            raise UsageWrong("--url must begin with http:// or https://")
        if "@" in urlsplit(url).netloc:
            raise UsageWrong("--url must have no name and password in it; use a token, with --token-env or tokens")
        return HttpSubject(url)
    if stdio is not None:
        if not _words(stdio, "--stdio"):
            raise UsageWrong("--stdio names no program")
        return StdioSubject(stdio)
    if client is None or not _words(client, "--client"):
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


def _repeat(**options: str | Path | bool | None) -> list[str]:
    """The command line of this run without its reports; tokens are never on it."""
    words = ["mcp-gate", "conformance"]
    for name, value in options.items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST))


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
