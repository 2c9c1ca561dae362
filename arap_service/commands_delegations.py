"""The commands for who decides in whose place.

They do what the desk does for an administrator; on the command line that is whoever can open the database.
"""

from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly, writing
from arap_service.context import random_id
from arap_service.domain.errors import ArapError
from arap_service.domain.policy_load import load_policy
from arap_service.domain.visible import visible
from arap_service.protocol.arap import format_instant, parse_instant
from arap_service.requests.delegations import DelegationView, Wanted, delegate_in, delegations_in, end_in
from arap_service.settings import load_settings
from arap_service.store import migrate
from arap_service.surroundings import utc_now

ACTOR = "command line"


def install(people: typer.Typer) -> None:
    """Add the commands to the group of those about people."""
    people.command("delegate")(delegate_command)
    people.command("delegations")(list_command)
    people.command("end-delegation")(end_command)


def delegate_command(
    person: Annotated[str, typer.Argument(help="Who is away: the id of a person.")],
    deputy: Annotated[str, typer.Argument(help="Who decides in the meantime: the id of a person.")],
    config: Config = DEFAULT_CONFIG,
    *,
    until: Annotated[str, typer.Option(help="When that ends, with a time zone: 2026-08-14T18:00:00+02:00.")],
    begin: Annotated[str | None, typer.Option("--from", help="When it begins; now by default.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only as a member of this group.")] = None,
    template: Annotated[list[str] | None, typer.Option(help="Only requests of this template.")] = None,
) -> None:
    """Let somebody decide in the place of somebody else for a time."""
    with failing_clearly():
        settings, now = load_settings(config), utc_now()
        migrate.check(settings.database)
        wanted = Wanted(
            person_id=person,
            deputy_id=deputy,
            starts_at=now if begin is None else _instant("--from", begin),
            ends_at=_instant("--until", until),
            groups=group or (),
            templates=template or (),
        )
        policy = load_policy(settings.policy_path.read_text(encoding="utf-8"))
        work = partial(delegate_in, wanted=wanted, policy=policy, actor=ACTOR, new_id=random_id("dlg"), now=now)
        try:
            made = writing(settings, work)
        except ArapError as error:
            fail(f"people: {error}")
    typer.echo(_line(made))


def list_command(
    config: Config = DEFAULT_CONFIG,
    *,
    person: Annotated[str | None, typer.Option(help="Only those of or to this person.")] = None,
    past: Annotated[bool, typer.Option("--past", help="Those that are over as well.")] = False,
) -> None:
    """List who decides in whose place."""
    with failing_clearly():
        settings = load_settings(config)
        migrate.check(settings.database)
        found = writing(settings, partial(delegations_in, person_id=person, with_past=past, now=utc_now()))
    for view in found:
        typer.echo(_line(view))


def end_command(
    delegation_id: Annotated[str, typer.Argument(help="Which one, as the list shows it.")],
    config: Config = DEFAULT_CONFIG,
) -> None:
    """End a delegation at once."""
    with failing_clearly():
        settings = load_settings(config)
        migrate.check(settings.database)
        found = writing(settings, partial(end_in, delegation_id=delegation_id, actor=ACTOR, now=utc_now()))
    if isinstance(found, ArapError):
        fail(f"people: {found}")
    typer.echo(_line(found))


def _instant(option: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError:
        fail(f"people: {option} is a moment with a time zone, such as 2026-08-14T18:00:00+02:00")


def _line(view: DelegationView) -> str:
    only = [f"group {visible(each)}" for each in view.groups] + [f"template {visible(each)}" for each in view.templates]
    period = f"{format_instant(view.starts_at)} to {format_instant(view.ends_at)}"
    limits = f"  only {', '.join(only)}" if only else ""
    who = f"{visible(view.deputy_id)} for {visible(view.person_id)}"
    return f"{view.id}  {view.state.replace('_', ' ')}  {who}  {period}{limits}"
