"""What the commands of all suites share: exit statuses, progress, files to write, and how a run is repeated."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from rich.console import Console

from blackbox_kit.model import Level, Outcome, Report, Suite, Verdict
from blackbox_kit.report import as_checks, as_json, as_junit
from blackbox_kit.table import word

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
    return OK


def checked_url(url: str) -> str:
    """The URL, if it is one that can be tested and shown.

    Raises:
        UsageWrong: It is none.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageWrong("--url must begin with http:// or https://")
    if "@" in urlsplit(url).netloc:
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


def written(
    suite: Suite, report: Report, *, at: datetime, json: Path | None, junit: Path | None, checks: Path | None
) -> None:
    """Write the reports that were asked for.

    Raises:
        UsageWrong: One cannot be written.
    """
    texts = (
        (json, as_json(suite, report)),
        (junit, as_junit(suite, report)),
        (checks, as_checks(suite, report, at=at)),
    )
    try:
        for path, text in texts:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageWrong(f"the report cannot be written ({type(error).__name__})") from None


def wide_console() -> Console:
    """Standard output, never narrower than the table needs."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, NARROWEST))


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
