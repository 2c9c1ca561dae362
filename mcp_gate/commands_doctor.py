"""`mcp-gate doctor`: prints what `doctor` finds, and sets the status."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
import typer

from mcp_gate.arap_channel import open_http
from mcp_gate.doctor import PATIENCE_SECONDS, Finding, State, diagnose
from mcp_gate.settings import GateSettings, load_settings

UNHEALTHY = 1


def doctor(
    config: Annotated[Path, typer.Option("--config", help="YAML file with the gate's settings.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines for people.")] = False,
) -> None:
    """Look for what does not work or is not safe: one line each with what to do; status 1 if anything has failed."""
    found = anyio.run(_diagnose, load_settings(config), config)
    if as_json:
        typer.echo(json.dumps([finding.as_json() for finding in found], indent=2, ensure_ascii=False))
    else:
        for finding in found:
            typer.echo(finding.line)
    if any(finding.state is State.FAILED for finding in found):
        raise typer.Exit(UNHEALTHY)


async def _diagnose(settings: GateSettings, config: Path) -> list[Finding]:
    async with open_http(timeout_seconds=PATIENCE_SECONDS) as http:
        return await diagnose(settings, config=config, http=http, clock=lambda: datetime.now(UTC))
