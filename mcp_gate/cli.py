"""The commands of the gate: run a gateway, prepare its database, call tools and look after tasks.

Parses and prints; every decision is elsewhere. A fault of configuration or surroundings is one line on stderr and a
status other than 0.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer

from mcp_gate import migrate as migration
from mcp_gate.client.command import Target, TaskCommands
from mcp_gate.client.records import TaskRecords
from mcp_gate.commands_doctor import doctor
from mcp_gate.commands_explain import explain
from mcp_gate.commands_keys import keys_app
from mcp_gate.commands_local import approver_command, decide_command, pending
from mcp_gate.commands_tasks import tasks_app
from mcp_gate.conformance.command import conformance
from mcp_gate.database import StoreUnavailable
from mcp_gate.logs import configure_logging
from mcp_gate.proxy import GatewayBroken, build, end_within, serve
from mcp_gate.runtime import Parts
from mcp_gate.settings import ConfigurationInvalid, GateSettings, load_ring, load_settings
from mcp_gate.upstream import UpstreamMissing

KILL_AT: Final = "MCP_GATE_KILL_AT"
STOP_AT: Final = "MCP_GATE_STOP_AT"
FAULT: Final = 2
KNOWN_FAULTS: Final = (
    ConfigurationInvalid,
    GatewayBroken,
    StoreUnavailable,
    migration.SchemaOutdated,
    UpstreamMissing,
)

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help="Approvals for MCP tool calls."
)
task_app = typer.Typer(no_args_is_help=True, help="Look after tasks that earlier calls left behind.")
app.add_typer(task_app, name="task")
app.add_typer(tasks_app, name="tasks")
app.add_typer(keys_app, name="keys")
app.command()(doctor)
app.command()(explain)
app.command()(pending)
app.command("decide")(decide_command)
app.command("approver")(approver_command)
app.command("conformance")(conformance)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer's own signature
    if asked:
        typer.echo(f"mcp-gate {metadata.version('arap')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Approvals for MCP tool calls."""
    del version


Config = Annotated[Path, typer.Option("--config", help="YAML file with the gate's settings.")]
TokenFile = Annotated[Path | None, typer.Option(help="File that holds the bearer token.")]
TokenEnv = Annotated[str | None, typer.Option(help="Environment variable that holds the bearer token.")]
Records = Annotated[
    Path | None, typer.Option("--records", help="Where task ids are kept; by default ~/.local/state/mcp-gate/tasks.")
]


@app.command()
def proxy(
    config: Config,
    *,
    die_with_stdin: Annotated[
        bool, typer.Option("--die-with-stdin", help="Stop when stdin is closed; for supervisors.")
    ] = False,
) -> None:
    """Stand before an MCP server and gate its tool calls."""
    settings = load_settings(config)
    checkpoint = checkpoint_from(os.environ.get(KILL_AT), stop=os.environ.get(STOP_AT))
    gateway = build(settings, parts=Parts(checkpoint=checkpoint))
    load_ring(settings.key_file, create=True)
    migration.upgrade(settings.database)  # before a client is listening, so that a fault is told at once
    anyio.run(lambda: serve(gateway, die_with_stdin=die_with_stdin, stopping=end_within))


@app.command()
def check(config: Config) -> None:
    """Check the settings, the key file and the database, and change nothing."""
    settings = load_settings(config)
    load_ring(settings.key_file, create=False)
    migration.check(settings.database)
    typer.echo("ok")


@app.command()
def migrate(config: Config) -> None:
    """Create the key file and bring the database to this release."""
    settings: GateSettings = load_settings(config)
    load_ring(settings.key_file, create=True)
    migration.upgrade(settings.database)
    typer.echo("ok")


@app.command()
def call(
    server: Annotated[str, typer.Argument(help="URL of the MCP server, or the command that starts it.")],
    tool: Annotated[str, typer.Argument(help="Name of the tool.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments as key=value; JSON, unless the tool wants text.")
    ] = None,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the task's end.")] = True,
    token_file: TokenFile = None,
    token_env: TokenEnv = None,
    records: Records = None,
) -> None:
    """Call a tool; a call that needs approval becomes a task whose id is kept on disk."""
    commands = _commands(server, token_file=token_file, token_env=token_env, records=records)
    raise typer.Exit(anyio.run(lambda: commands.call(tool, arguments or [], wait=wait)))


@task_app.command("list")
def list_tasks(records: Records = None) -> None:
    """Show the tasks on record, oldest first."""
    for record in _records(records).all():
        typer.echo(f"{record.created_at}  {record.status:15}  {record.task_id}  {record.tool}  {record.server}")


@task_app.command("get")
def get_task(
    task_id: str,
    *,
    server: Annotated[str | None, typer.Option(help="URL or command, when the task is not on record.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the task's end.")] = False,
    token_file: TokenFile = None,
    token_env: TokenEnv = None,
    records: Records = None,
) -> None:
    """Show a task, and its result when it has one."""
    known = _server_of(task_id, server, records)
    commands = _commands(known, token_file=token_file, token_env=token_env, records=records)
    raise typer.Exit(anyio.run(lambda: commands.get(task_id, wait=wait)))


@task_app.command("cancel")
def cancel_task(
    task_id: str,
    *,
    server: Annotated[str | None, typer.Option(help="URL or command, when the task is not on record.")] = None,
    token_file: TokenFile = None,
    token_env: TokenEnv = None,
    records: Records = None,
) -> None:
    """Ask for a task's cancellation."""
    known = _server_of(task_id, server, records)
    commands = _commands(known, token_file=token_file, token_env=token_env, records=records)
    raise typer.Exit(anyio.run(lambda: commands.cancel(task_id)))


def _records(directory: Path | None) -> TaskRecords:
    return TaskRecords.default() if directory is None else TaskRecords(directory)


def _server_of(task_id: str, given: str | None, records: Path | None) -> str:
    if given is not None:
        return given
    found = _records(records).find(task_id)
    if found is None:
        raise ConfigurationInvalid("the task is not on record; name its server with --server")
    return found.server


def _commands(server: str, *, token_file: Path | None, token_env: str | None, records: Path | None) -> TaskCommands:
    target = Target(server, token=_token(token_file, token_env))
    return TaskCommands(target, _records(records), say=lambda text: typer.echo(text, err=True), show=typer.echo)


def _token(file: Path | None, variable: str | None) -> str | None:
    if file is not None:
        try:
            return file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise ConfigurationInvalid(f"--token-file: {file} cannot be read") from None
    if variable is not None:
        if variable not in os.environ:
            raise ConfigurationInvalid(f"--token-env: {variable} is not set")
        return os.environ[variable]
    return None


def checkpoint_from(kill: str | None, *, stop: str | None = None) -> Callable[[str], None]:
    """A checkpoint that kills this process at a point `name`, or with `name:n` at its n-th passage; for crash tests.

    At the point `stop` the process is frozen instead, until somebody lets it go on.
    """
    armed = [
        _Armed(spec, number) for spec, number in ((kill, signal.SIGKILL), (stop, signal.SIGSTOP)) if spec is not None
    ]

    def checkpoint(passed: str) -> None:
        for point in armed:
            if point.is_reached(passed):
                os.kill(os.getpid(), point.number)

    return checkpoint


class _Armed:
    """A point at which something is to happen, once."""

    def __init__(self, spec: str, number: signal.Signals) -> None:
        self.number: Final = number
        self._name, _, nth = spec.partition(":")
        self._left = int(nth or 1)

    def is_reached(self, passed: str) -> bool:
        self._left -= passed == self._name
        return passed == self._name and self._left == 0


@contextmanager
def _one_line() -> Iterator[None]:
    """Turn the faults that an operator can mend into one line."""
    try:
        yield
    except KNOWN_FAULTS as error:
        _fail(str(error))
    except BaseExceptionGroup as group:
        known = group.subgroup(KNOWN_FAULTS)
        if known is None:
            raise
        _fail(_first_text(known))
    except KeyboardInterrupt:
        raise SystemExit(0) from None


def _first_text(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


def _fail(text: str) -> None:
    sys.stderr.write(f"mcp-gate: {text}\n")
    raise SystemExit(FAULT)


def run_command(arguments: Sequence[str] | None = None) -> None:
    """Run one command, of this process's own arguments when none are given.

    Raises:
        SystemExit: with the command's status.
    """
    with _one_line():
        app(args=None if arguments is None else list(arguments))


def main() -> None:
    """Entry point of `mcp-gate`."""
    configure_logging()
    run_command()
