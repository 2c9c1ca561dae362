"""The commands of the service: serve it, prepare and migrate what it needs, bring in people, check rules and audit.

Whatever an operator can get wrong is one line per fault on standard error and a status that is not 0; tracebacks are
for our own mistakes. Commands call the same functions as the service does and decide nothing of their own.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs the sources gets a sentence instead of a syntax error
    raise SystemExit("arap: Python 3.11 or newer is needed, this is " + sys.version.split()[0])

import asyncio
import json
import secrets
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from arap_service import (
    commands_audit,
    commands_deliveries,
    commands_notify,
    commands_operation,
    commands_people,
    commands_requests,
    commands_rules,
    commands_simulator,
    dev,
    logs,
)
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly, writing
from arap_service.conformance.command import conformance
from arap_service.context import random_id
from arap_service.directory import add_account
from arap_service.domain.policy_load import PolicyInvalid, load_policy, policy_schema
from arap_service.key_file import load_ring
from arap_service.keys import Use, rotate
from arap_service.policy_check import case_files, run_case
from arap_service.protocol.arap import format_instant
from arap_service.requests.announcing import announce_password
from arap_service.serving import end_within, serve
from arap_service.settings import load_settings
from arap_service.store import migrate
from arap_service.store.database import Database, WriteSession
from arap_service.surroundings import utc_now
from arap_service.web.passwords import check_new, hash_password

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The approval service: a decision point, access requests, and a desk for those who decide them.",
)
account = typer.Typer(no_args_is_help=True, help="Local accounts of reviewers.")
policy = typer.Typer(no_args_is_help=True, help="The rules file.")
keys = typer.Typer(no_args_is_help=True, help="Signing keys.")
for name, group in (("account", account), ("people", commands_people.app), ("policy", policy), ("keys", keys)):
    app.add_typer(group, name=name)
app.add_typer(commands_audit.app, name="audit")
app.add_typer(commands_deliveries.app, name="deliveries")
app.add_typer(commands_notify.app, name="notify")
app.add_typer(commands_requests.app, name="requests")
app.add_typer(commands_rules.rules_app, name="rules")
app.add_typer(commands_rules.reviews_app, name="reviews")
app.command("simulate")(commands_simulator.simulate)
app.command("conformance")(conformance)
commands_operation.install(app, policy)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer's own signature
    if asked:
        typer.echo(f"arap {metadata.version('arap')}")
        raise typer.Exit


@app.callback()
def every_command(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """What every command shares."""


@app.command("serve")
def serve_command(
    config: Config = DEFAULT_CONFIG,
    *,
    die_with_stdin: Annotated[
        bool, typer.Option("--die-with-stdin", help="Stop when standard input ends, as a child of a supervisor.")
    ] = False,
) -> None:
    """Serve until stopped."""
    with failing_clearly():
        settings = load_settings(config)
        logs.configure(settings.log_level)
        migrate.check(settings.database)
        asyncio.run(serve(settings, die_with_stdin=die_with_stdin, stopping=end_within))


@app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    *,
    is_dev: Annotated[bool, typer.Option("--dev", help="For this machine alone: plain http on loopback.")] = False,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where the service will listen.")] = 8400,
    gate_port: Annotated[int, typer.Option(min=1, max=65535, help="Where the gate will listen.")] = 8500,
    simulator: Annotated[
        bool, typer.Option("--simulator", help="A simulator, to test enforcement points; see arap simulate.")
    ] = False,
) -> None:
    """Write a complete configuration with fresh keys, clients and reviewers."""
    if not is_dev:
        fail(
            "init: add --dev for a configuration of this machine alone; for a real one begin with what it writes, "
            "and replace the built-in issuer and insecure_loopback"
        )
    with failing_clearly():
        prepared = dev.prepare(folder, port=port, gate_port=gate_port, now=utc_now(), simulator=simulator)
    typer.echo(f"Written to {prepared.folder}: arap.yaml, policy.yaml, keys.json, arap.db; gate.yaml for a gate before")
    clients = "gate, resolver, agent and simulator" if simulator else "gate, resolver and agent"
    typer.echo(f"an MCP server of yours; secrets.json with the secrets of the clients {clients}.")
    for login, password in prepared.passwords.items():
        typer.echo(f"Reviewer {login}, password {password}")
    typer.echo(f"Now run: arap serve --config {prepared.folder / 'arap.yaml'}")
    typer.echo(f"Then open: http://127.0.0.1:{prepared.port}/desk")
    typer.echo(f"A token for the agent, while it serves: arap token agent --config {prepared.folder / 'arap.yaml'}")


@app.command("token")
def token_command(
    client_id: Annotated[str, typer.Argument(help="A client of the built-in issuer, such as agent.")],
    config: Config = DEFAULT_CONFIG,
    *,
    secrets_file: Annotated[
        Path | None, typer.Option("--secrets", help="What arap init wrote; secrets.json beside the configuration.")
    ] = None,
) -> None:
    """Print an access token of the built-in issuer of a running service, to try things out."""
    with failing_clearly():
        secret = dev.secret_of(client_id, secrets_file or config.parent / "secrets.json")
        typer.echo(dev.fetch_token(load_settings(config), client_id, secret=secret))


@app.command("migrate")
def migrate_command(config: Config = DEFAULT_CONFIG) -> None:
    """Bring the database to the tables of this release."""
    with failing_clearly():
        migrate.upgrade(load_settings(config).database)
    typer.echo("The database is up to date.")


@account.command("add")
def account_add(
    login: Annotated[str, typer.Argument(help="What the person types to log in.")],
    *,
    person: Annotated[str, typer.Option("--person", help="The id of the person.")],
    config: Config = DEFAULT_CONFIG,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
) -> None:
    """Give a person a local account, or his account another password; a random one is shown unless one is given."""
    with failing_clearly():
        settings = load_settings(config)
        password = sys.stdin.readline().rstrip("\r\n") if password_stdin else secrets.token_urlsafe(15)
        if password_stdin:
            about = (login, person, urlsplit(settings.identifier).hostname or "")
            check_new(password, about=about, breached=settings.login.breached_passwords)
        hashed = hash_password(password)
        now = utc_now()
        until = now + timedelta(seconds=settings.login.first_password_seconds)

        def work(session: WriteSession) -> None:
            issuer = settings.identifier
            if add_account(
                session, login, person_id=person, password_hash=hashed, first_until=until, issuer=issuer, now=now
            ):
                announce_password(session, settings.notifications, person, new_id=random_id, now=now)

        writing(settings, work)
    typer.echo(f"Account {login} is ready." if password_stdin else f"Account {login} is ready, password {password}")
    end = format_instant(until.replace(microsecond=0))
    typer.echo(f"It is for the first log-in, where its owner has to replace it, until {end}.")


@policy.command("check")
def policy_check(file: Annotated[Path, typer.Argument(help="A rules file (YAML).")]) -> None:
    """Say whether a rules file could be put in force, and if not, everything that is wrong with it."""
    with failing_clearly():
        version = load_policy(file.read_text(encoding="utf-8")).version
    typer.echo(f"{file}: in order, version {version[:12]}")


@policy.command("test")
def policy_test(
    file: Annotated[Path, typer.Argument(help="A rules file (YAML).")],
    cases: Annotated[list[Path], typer.Argument(help="Case files, or folders of them.")],
) -> None:
    """Put questions with known answers to a rules file, and show every answer that differs."""
    with failing_clearly():
        rules = load_policy(file.read_text(encoding="utf-8"))
    results, faults = [], []
    for path in case_files(cases):
        try:
            results.append(run_case(rules, path))
        except PolicyInvalid as error:
            faults += [f"{path}: {problem}" for problem in error.problems]
        except (OSError, UnicodeDecodeError):
            faults.append(f"{path}: cannot be read")
    faults += [f"{each.path}: {each.says}: {difference}" for each in results for difference in each.differences]
    if faults or not results:
        fail(*(faults or ["policy: no case was found"]))
    typer.echo(f"{len(results)} cases hold.")


@policy.command("schema")
def policy_schema_command() -> None:
    """Print the JSON Schema of rules files, for an editor."""
    typer.echo(json.dumps(policy_schema(), indent=2))


@keys.command("rotate")
def keys_rotate(use: Annotated[Use, typer.Argument()], config: Config = DEFAULT_CONFIG) -> None:
    """Publish a new signing key; it takes over after a quarter of an hour, the old one stays published."""
    with failing_clearly():
        settings = load_settings(config)
        opened = Database.open(settings.database)
        try:
            kid = asyncio.run(rotate(opened, load_ring(settings.key_file), use=use, now=utc_now()))
        finally:
            opened.close()
    typer.echo(f"Key {kid} is published.")


def main() -> None:
    """What the console script calls."""
    app()
