"""`arap conformance`: parses, runs, prints and writes. Exit status: 0, 1, 2 or 3, as docs/conformance.md has it."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from arap_service.conformance.catalogue import CHECKS
from arap_service.conformance.control import PROFILES, ROLES, Control, ControlInvalid, Hands, Secret, read_control
from arap_service.conformance.running import Run, Unreachable
from arap_service.conformance.suite import PREFIX, SUITE
from blackbox_kit.choosing import NoSuchCheck, chosen_of
from blackbox_kit.command import (
    NOT_RUN,
    OK,
    USAGE,
    UsageWrong,
    checked_url,
    concluded,
    observed,
    repeated,
    wide_console,
    writable,
)
from blackbox_kit.model import Report, Rule
from blackbox_kit.table import listed

PROGRAM: Final = ("arap", "conformance")
REFERENCE: Final = re.compile(r" ?\(\{\{[^}]*\}\}\)")
RULES: Final = {
    check.id: Rule(REFERENCE.sub("", check.sentence).replace("{{", "").replace("}}", ""), check.source)
    for check in CHECKS
}


def conformance(
    *,
    url: Annotated[
        str | None, typer.Option(help="The identifier of the decision point, as its metadata has it.")
    ] = None,
    control: Annotated[Path | None, typer.Option(help="What the deployment offers (YAML); see docs.")] = None,
    token_file: Annotated[
        list[str] | None, typer.Option(help="ROLE=FILE with a bearer token; may be given again.")
    ] = None,
    profile: Annotated[list[str] | None, typer.Option(help="What the service supports, instead of looking.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="One check or one group; may be given again.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checks, and run nothing.")] = False,
    strict: Annotated[bool, typer.Option(help="A SHOULD counts as well, and what is skipped was not run.")] = False,
    json_: Annotated[Path | None, typer.Option("--json", help="Write everything to this file as JSON.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file.")] = None,
    checks: Annotated[Path | None, typer.Option(help="Write checks.json, as the public MCP suite writes it.")] = None,
) -> None:
    """Test any access request service and its decision point against the Access Request and Approval Profile."""
    try:
        wanted = chosen_of(CHECKS, only or (), prefix=PREFIX)
        if list_:
            listed(wanted, RULES, wide_console())
            raise typer.Exit(OK)
        if url is None:
            raise UsageWrong("give the decision point with --url")
        hands = Hands(*_control(control, token_file or ()))
        run = Run(hands, checked_url(url).rstrip("/"), profiles=_profiles(profile))
        repeat = repeated(
            PROGRAM, {"url": url, "control": control, "token_file": token_file or (), "profile": profile or ()}
        )
        writable(json_, junit, checks)
        outcomes = observed("arap", wanted, lambda watching: run.all(wanted, watching.told))
    except (NoSuchCheck, ControlInvalid, UsageWrong) as error:
        _end(str(error), USAGE)
    except Unreachable as error:
        _end(f"no decision point to test: {error}", NOT_RUN)
    report, files = Report(run.target, "HTTP", outcomes, RULES), {"json": json_, "junit": junit, "checks": checks}
    raise typer.Exit(concluded("arap", SUITE, report, at=_now(), strict=strict, repeat=repeat, **files))


def _control(path: Path | None, token_files: Sequence[str]) -> tuple[Control, Path]:
    found = Control() if path is None else read_control(path)
    folder = Path.cwd() if path is None else path.resolve().parent
    tokens = dict(found.tokens)
    for given in token_files:
        role, equals, file = given.partition("=")
        if not equals or role not in ROLES:
            raise UsageWrong(f"--token-file is ROLE=FILE, the role one of {', '.join(ROLES)}")
        tokens[role] = Secret(file=Path(file).resolve())
    return found.model_copy(update={"tokens": tokens}), folder


def _profiles(given: Sequence[str] | None) -> tuple[str, ...] | None:
    for name in given or ():
        if name not in PROFILES:
            raise UsageWrong(f"there is no profile {name}; there are {', '.join(PROFILES)}")
    return tuple(given) if given else None


def _end(text: str, code: int) -> NoReturn:
    sys.stderr.write(f"arap: {text}\n")
    raise typer.Exit(code)


def _now() -> datetime:
    return datetime.now(UTC)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("conformance")(conformance)


def main() -> None:
    """Entry point of `python -m arap_service.conformance`."""
    app(prog_name="arap conformance")
