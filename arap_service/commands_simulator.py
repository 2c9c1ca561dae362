"""`arap simulate`: plays scenarios of a running simulator against an enforcement point, and says which rules it kept.

The status is 0 when every rule was kept, 1 when one was broken (or something is wrong with the command), and 3 when
nothing was broken but something could not be seen. See docs/simulator.md.
"""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import httpx2
import typer
from rich.console import Console
from rich.table import Table

from arap_service import dev
from arap_service.client import ClientCredentials
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly
from arap_service.settings import Settings, load_settings
from arap_service.simulator.driving import ControlRefused, Pace, Played, Target, Trigger, play
from arap_service.simulator.evidence import Finding
from arap_service.simulator.scenarios import SCENARIOS, Scenario

UNSEEN: Final = 3
_COLOURS: Final = {Finding.KEPT: "green", Finding.BROKEN: "bold red", Finding.UNSEEN: "yellow"}
_JSON: Final = "Print JSON instead of a table."


def simulate(
    scenarios: Annotated[
        list[str] | None, typer.Argument(metavar="SCENARIO...", help="Names of scenarios, or all; none lists them.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    *,
    target: Annotated[str, typer.Option(help="The client that the enforcement point is for the service.")] = "gate",
    template: Annotated[str, typer.Option(help="The template that its calls need.")] = "tool-call",
    trigger: Annotated[
        str | None,
        typer.Option(help="A command that makes the call, run without a shell; without one you are asked to make it."),
    ] = None,
    effects: Annotated[
        Path | None, typer.Option(help="A file to which the tool adds a line whenever it runs, to count its runs.")
    ] = None,
    director: Annotated[
        str, typer.Option(help="The client of the built-in issuer with the scope admin.")
    ] = "simulator",
    secrets_file: Annotated[
        Path | None, typer.Option("--secrets", help="What arap init wrote; secrets.json beside the configuration.")
    ] = None,
    patience: Annotated[float, typer.Option(min=0.1, help="Seconds until a scenario is given up.")] = 60,
    settle: Annotated[float, typer.Option(min=0, help="Seconds to go on watching when it is over.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help=_JSON)] = False,
) -> None:
    """Play scenarios against an enforcement point that works with a running simulator, and judge what it does."""
    if not scenarios:
        _list(as_json=as_json)
        return
    chosen = _chosen(scenarios)
    settings, auth = _directed(config, director, secrets_file=secrets_file)
    count = None if effects is None else lambda: _lines(effects)
    targets = [
        (scenario, Target(target, template, trigger=_trigger(trigger, scenario), count=count)) for scenario in chosen
    ]
    pace = Pace(patience=patience, settle=settle)
    try:
        played = asyncio.run(_play(targets, settings.identifier, auth=auth, pace=pace))
    except ControlRefused as error:
        fail(f"simulate: {error}")
    _show(played, as_json=as_json)
    raise typer.Exit(_status(played))


def _directed(config: Path, director: str, *, secrets_file: Path | None) -> tuple[Settings, ClientCredentials]:
    with failing_clearly():
        settings = load_settings(config)
        secret = dev.secret_of(director, secrets_file or config.parent / "secrets.json")
    token_endpoint = f"{settings.identifier}/issuer/token"
    return settings, ClientCredentials(token_endpoint, client_id=director, client_secret=secret)


async def _play(
    targets: Sequence[tuple[Scenario, Target]], identifier: str, *, auth: httpx2.Auth, pace: Pace
) -> list[Played]:
    async with httpx2.AsyncClient(base_url=identifier, auth=auth, trust_env=False) as control:
        played = []
        for scenario, target in targets:
            if sys.stderr.isatty():
                typer.echo(f"{scenario.name}: watching, for {pace.patience:g} seconds at most ...", err=True)
            played.append(await play(scenario, control, target, pace=pace))
        return played


def _chosen(names: Sequence[str]) -> list[Scenario]:
    if list(names) == ["all"]:
        return list(SCENARIOS.values())
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        fail(*(f"simulate: there is no scenario {name}; arap simulate lists them" for name in unknown))
    return [SCENARIOS[name] for name in names]


def _trigger(command: str | None, scenario: Scenario) -> Trigger | None:
    if command is None:
        typer.echo(f"{scenario.name}: {scenario.says} {scenario.asks}", err=True)
        return None
    words = shlex.split(command)

    async def call() -> bool:
        environment = {**os.environ, "ARAP_SCENARIO": scenario.name}
        done = await anyio.run_process(words, check=False, stdout=sys.stderr, stderr=sys.stderr, env=environment)
        return done.returncode == 0

    return call


def _lines(file: Path) -> int:
    try:
        return file.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def _list(*, as_json: bool) -> None:
    if as_json:
        listed = [{"name": each.name, "says": each.says, "asks": each.asks} for each in SCENARIOS.values()]
        typer.echo(json.dumps(listed, indent=2))
        return
    table = Table("scenario", "what happens")
    for scenario in SCENARIOS.values():
        table.add_row(scenario.name, scenario.says)
    Console().print(table)


def _show(played: Sequence[Played], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([_said(each) for each in played], indent=2))
        return
    table = Table("scenario", "rule", "the enforcement point …", "finding", "seen")
    for each in played:
        for verdict in each.verdicts:
            finding = f"[{_COLOURS[verdict.finding]}]{verdict.finding}[/]"
            table.add_row(each.scenario, verdict.rule, verdict.asks, finding, verdict.saw)
        if not each.is_over:
            table.add_row(each.scenario, "", "comes to the end of the scenario", "[yellow]not seen[/]", "time ran out")
    Console(width=_width()).print(table)


def _width() -> int | None:
    # Where nobody looks, no line should be folded.
    return None if sys.stdout.isatty() else 200


def _said(played: Played) -> dict[str, Any]:
    return {
        "scenario": played.scenario,
        "over": played.is_over,
        "observations": played.observations,
        "verdicts": [
            {"rule": each.rule, "asks": each.asks, "finding": each.finding, "saw": each.saw} for each in played.verdicts
        ],
    }


def _status(played: Sequence[Played]) -> int:
    findings = frozenset[Finding]().union(*(each.findings for each in played))
    if Finding.BROKEN in findings:
        return 1
    return UNSEEN if Finding.UNSEEN in findings or not all(each.is_over for each in played) else 0
