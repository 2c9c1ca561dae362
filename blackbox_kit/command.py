"""What the commands of all suites share: exit statuses, progress, files to write, and how a run is repeated."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

import anyio
from rich.console import Console

from blackbox_kit.causes import cause_of
from blackbox_kit.model import Check, Level, Outcome, Report, Suite, Verdict
from blackbox_kit.report import as_checks, as_json, as_junit
from blackbox_kit.table import show, word

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_RUN: Final = 3
NARROWEST: Final = 160


class UsageWrong(Exception):
    """The command line asks for what cannot be."""


def status(report: Report, *, strict: bool) -> int:
    """The exit status that a report means."""
    level = None if strict else Level.MUST
    if report.count(Verdict.FAIL, level=level):
        return FAILED
    if report.count(Verdict.ERROR) or (strict and report.count(Verdict.SKIPPED)):
        return NOT_RUN
    # What was asked of nobody is kept by nobody.
    return OK if report.count(Verdict.PASS) or report.count(Verdict.FAIL) else NOT_RUN


def checked_url(url: str) -> str:
    """The URL, if it is one that can be tested and shown.

    Raises:
        UsageWrong: It is none.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageWrong("--url must begin with http:// or https://")
    try:
        parts = urlsplit(url)
        can_be = bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        can_be, parts = False, urlsplit("")
    if not can_be:
        raise UsageWrong("--url is no URL with a host and a port that there can be")
    if "@" in parts.netloc:
        raise UsageWrong("--url must have no name and password in it; use a token, with --token-env or tokens")
    return url


def repeated(words: Sequence[str], options: Mapping[str, str | Path | bool | Sequence[str] | None]) -> list[str]:
    """The command line of a run without its reports; tokens are never on it."""
    found = list(words)
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif isinstance(value, str | Path):
            found += [option, str(value)]
        elif value:
            found += [part for one in value for part in (option, one)]
    return found


def writable(*paths: Path | None) -> None:
    """See that reports can be written, before a run is made for them.

    Raises:
        UsageWrong: One cannot.
    """
    for path in paths:
        if path is None:
            continue
        was_there = path.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a", encoding="utf-8").close()
            if not was_there:
                path.unlink()
        except (OSError, ValueError) as error:
            raise UsageWrong(_unwritten(path, error)) from None


def written(
    suite: Suite, report: Report, *, at: datetime, json: Path | None, junit: Path | None, checks: Path | None
) -> tuple[str, ...]:
    """Write the reports that were asked for, each by itself; what could not be written, and why."""
    complaints = []
    for path, text in ((json, as_json), (junit, as_junit), (checks, partial(as_checks, at=at))):
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text(suite, report), encoding="utf-8")
        except (OSError, ValueError) as error:
            complaints.append(_unwritten(path, error))
    return tuple(complaints)


def _unwritten(path: Path | None, error: Exception) -> str:
    return f"the report {path} cannot be written ({cause_of(error)})"


def observed(
    program: str, checks: Sequence[Check], run: Callable[["Watching"], Awaitable[object]]
) -> tuple[Outcome, ...]:
    """The outcome of every check; if somebody interrupts `run`, what it did not come to was not run."""
    with Watching(len(checks)) as watching:
        try:
            anyio.run(run, watching)
        except KeyboardInterrupt:
            sys.stderr.write(f"{program}: interrupted\n")
    left = checks[len(watching.outcomes) :]
    return (*watching.outcomes, *(Outcome(one, Verdict.ERROR, "the run was interrupted before it") for one in left))


def concluded(
    program: str,
    suite: Suite,
    report: Report,
    *,
    at: datetime,
    strict: bool,
    repeat: Sequence[str],
    json: Path | None,
    junit: Path | None,
    checks: Path | None,
) -> int:
    """Show a report and write it where that was asked for; the exit status."""
    show(suite, report, wide_console(), repeat=repeat)
    found = status(report, strict=strict)
    if complaints := written(suite, report, at=at, json=json, junit=junit, checks=checks):
        sys.stderr.write(f"{program}: {'; '.join(complaints)}\n")
        return found or USAGE
    return found


def wide_console() -> Console:
    """Standard output, never narrower than the table needs."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST))


class Watching:
    """Says on standard error how far the run is: one line that changes at a terminal, one for each check elsewhere."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        self._total = total
        self.outcomes: list[Outcome] = []
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
        self.outcomes.append(outcome)
        line = f"{len(self.outcomes)}/{self._total}  {word(outcome):8}{outcome.check.id}"
        if self._status is not None:
            self._status.update(line)
        else:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
