"""The command that tries a channel: it sends one message that says it is a test, and tells what came of it.

Nothing is kept of it, and no address is printed. Who is told what in earnest is not its business.
"""

from pathlib import Path
from typing import Annotated

import anyio
import typer

from arap_service.channels import NotSent, Poster
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly
from arap_service.domain.visible import visible
from arap_service.notice_texts import trial_message
from arap_service.settings import load_settings

app = typer.Typer(no_args_is_help=True, help="How people are told.")
WORDS = {
    "refused": "not sent: the server could not be reached, or did not take it",
    "timeout": "not known: the server did not answer in time",
    "address": "not sent: its address is not one that Apprise understands",
    "address_unreadable": "not sent: the file with its address cannot be read",
    "no_email": "not sent: it reaches one person at a time; name a mailbox with --to",
}


@app.callback()
def notify() -> None:
    """How people are told."""


@app.command("test")
def trial_command(
    channel: Annotated[str, typer.Argument(help="Name of the channel, as in `notifications.channels`.")],
    config: Config = DEFAULT_CONFIG,
    *,
    to: Annotated[str | None, typer.Option(help="E-mail address, for a channel that reaches one person.")] = None,
) -> None:
    """Send one message by a channel and say what came of it."""
    with failing_clearly():
        channels = load_settings(Path(config)).notifications.channels
        if channel not in channels:
            known = ", ".join(sorted(channels)) or "none"
            fail(f"there is no channel {visible(channel)}; configured: {known}")
        outcome: NotSent | None = anyio.run(Poster(), channels[channel], to, trial_message())
    if outcome is not None:
        fail(f"{channel}: {WORDS.get(outcome.code, outcome.code)}")
    typer.echo(f"{channel}: taken by the server; look whether it arrives")
