"""The commands of whoever runs the service: look for trouble, copy the database, explain a decision.

They print and set the status; what they print is found in `doctor.py`, `backup.py` and `policy_explain.py`.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from arap_service.backup import NotBackedUp, back_up
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly
from arap_service.doctor import State, diagnose
from arap_service.jwks import fetch
from arap_service.policy_explain import explain, question_of, read_rules, told
from arap_service.protocol.authzen import InvalidShape, tuple_of
from arap_service.protocol.canonical import InvalidJson, strict_loads
from arap_service.settings import load_settings
from arap_service.surroundings import guarded, utc_now

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines for people.")]


def install(app: typer.Typer, policy: typer.Typer) -> None:
    """Add the commands to the root and to the group about rules."""
    app.command("doctor")(doctor_command)
    app.command("backup")(backup_command)
    policy.command("explain")(explain_command)


def doctor_command(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Look for what does not work or is not safe: one line each with what to do; status 1 if anything has failed."""
    with failing_clearly():
        settings = load_settings(config)
        found = asyncio.run(diagnose(settings, config=config, clock=utc_now, get=fetch, outbound=guarded(settings)))
    failed = sum(finding.state is State.FAILED for finding in found)
    if as_json:
        typer.echo(json.dumps([finding.as_json() for finding in found], indent=2, ensure_ascii=False))
    else:
        for finding in found:
            typer.echo(finding.line)
    if failed:
        raise typer.Exit(1)


def backup_command(
    file: Annotated[Path, typer.Argument(help="A new file for the copy.")], config: Config = DEFAULT_CONFIG
) -> None:
    """Copy the SQLite database to a new file while the service runs, and prove the copy."""
    with failing_clearly():
        settings = load_settings(config)
        try:
            made = back_up(settings.database, file)
        except NotBackedUp as error:
            fail(str(error))
    typer.echo(f"{made.path}: whole, {made.size} bytes, tables {made.revision}.")
    typer.echo(f"It is sealed with the keys in {settings.key_file}: keep a copy of that file, apart from this one.")


def explain_command(
    request: Annotated[Path, typer.Argument(help="An evaluation request (JSON).")],
    rules: Annotated[Path | None, typer.Option("--rules", help="The rules file, instead of that of --config.")] = None,
    config: Config = DEFAULT_CONFIG,
    *,
    client: Annotated[str | None, typer.Option("--client", help="The client that asks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what the rules make of a request and why: which were tried, what each condition gave, who may decide."""
    with failing_clearly():
        path = load_settings(config).policy_path if rules is None else rules
        known = read_rules(path.read_text(encoding="utf-8"))
        asked = _request(request)
    found = explain(known, question_of(asked, client_id=client))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    for line in told(found):
        typer.echo(line)


def _request(path: Path) -> dict[str, Any]:
    try:
        value = strict_loads(path.read_bytes())
        if not isinstance(value, dict):
            fail(f"{path}: is not a JSON object")
        tuple_of(value)
    except InvalidJson:
        fail(f"{path}: is not valid JSON")
    except InvalidShape as error:
        fail(f"{path}: the member {error.pointer or '/'} is missing or of the wrong type")
    return value
