"""`mcp-gate keys`: the keys that seal the gate's tasks. Parses and prints; the file is changed in `key_file`."""

from pathlib import Path
from typing import Annotated

import typer

from mcp_gate.key_file import add_key, use_key
from mcp_gate.settings import load_settings

Config = Annotated[Path, typer.Option("--config", help="YAML file with the gate's settings.")]

keys_app = typer.Typer(no_args_is_help=True, help="Change the keys that seal tasks; no key is ever removed.")


@keys_app.command("rotate")
def rotate_command(config: Config) -> None:
    """Seal new tasks with a fresh key after the next start; tasks sealed before still open.

    A gate alone needs no more. Where several share a database: `keys add`, copy the file and restart all, and only
    then `keys use`, copy and restart again, so that none meets a task whose key it doesn't have.
    """
    path = load_settings(config).key_file
    typer.echo(f"{add_key(path, make_current=True)} seals from the next start on")


@keys_app.command("add")
def add_command(config: Config) -> None:
    """Add a fresh key that opens but does not seal yet; the first step where several gates share a database."""
    path = load_settings(config).key_file
    name = add_key(path, make_current=False)
    typer.echo(f"{name} is added; when every gate has the file and was restarted, run `mcp-gate keys use {name}`")


@keys_app.command("use")
def use_command(name: Annotated[str, typer.Argument(help="The key's name.")], config: Config) -> None:
    """Seal new tasks with a key that is in the file, after the next start."""
    use_key(load_settings(config).key_file, name)
    typer.echo(f"{name} seals from the next start on")
