"""`mcp-gate tasks`: what the gate's database knows of its tasks, for an operator. Parses and prints, changes nothing.

No argument, result or word of a decider is shown; they are sealed, and the queries do not read them.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer
from sqlalchemy import Connection

from mcp_gate import migrate
from mcp_gate.database import Database
from mcp_gate.figures import listed_tasks, shown_task
from mcp_gate.lifecycle import Phase
from mcp_gate.settings import ConfigurationInvalid, load_settings
from mcp_gate.writable import visible

Result = TypeVar("Result")
Config = Annotated[Path, typer.Option("--config", help="YAML file with the gate's settings.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

tasks_app = typer.Typer(no_args_is_help=True, help="Inspect the tasks of a gate, as its operator.")


@tasks_app.command("list")
def list_command(
    config: Config,
    *,
    phase: Annotated[Phase | None, typer.Option(help="Only tasks in this phase; by default all that are open.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    as_json: Json = False,
) -> None:
    """List tasks, the newest first, at most 500; arguments are not shown."""
    rows = _read(config, lambda connection: listed_tasks(connection, phase=phase, tool=tool))
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        state = row["phase"] if row["ending"] is None else f"{row['phase']} ({row['ending']})"
        due = "" if row["next_due"] is None else f"  next look {_plain(row['next_due'])}"
        typer.echo(visible(f"{_plain(row['created_at'])}  {state:12}  {row['id']}  {row['tool']}  {row['sub']}{due}"))
    if not rows:
        typer.echo("No task is open." if phase is None and tool is None else "There is no such task.")


@tasks_app.command("show")
def show_command(task_id: Annotated[str, typer.Argument(help="The task's id.")], config: Config) -> None:
    """Show one task whole as JSON, with its record and what was or will be told to the backend."""
    found = _read(config, lambda connection: shown_task(connection, task_id))
    if found is None:
        raise ConfigurationInvalid("there is no such task; `mcp-gate tasks list` shows those that are open")
    _print_json(found)


def _read(config: Path, work: Callable[[Connection], Result]) -> Result:
    settings = load_settings(config)
    migrate.check(settings.database)

    async def run() -> Result:
        database = Database.open(settings.database)
        try:
            return await database.read(work)
        finally:
            await database.aclose()

    return anyio.run(run)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, default=_plain))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)
