"""The commands about people: bring them in, and say which principals are one person."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from arap_service import commands_delegations
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly, writing
from arap_service.directory import Imported, import_people, link_identity, read_people, unlink_identity
from arap_service.scim import Attribute, Reading
from arap_service.settings import load_settings
from arap_service.store.database import WriteSession
from arap_service.surroundings import utc_now

app = typer.Typer(no_args_is_help=True, help="People who may decide.")
commands_delegations.install(app)
Issuer = Annotated[str, typer.Option("--iss", help="Who names the person so.")]
Subject = Annotated[str, typer.Option("--sub", help="The name there.")]
PersonId = Annotated[str, typer.Argument(help="The id of the person.")]


class _Undone(Exception):  # not an error: what was only tried goes back with it
    def __init__(self, found: Imported) -> None:
        self.found = found


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="A people file (YAML), or resources of SCIM 2.0 (JSON).")],
    config: Config = DEFAULT_CONFIG,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    deactivate_missing: Annotated[
        bool, typer.Option("--deactivate-missing", help="Deactivate everybody whom the file does not name.")
    ] = False,
    issuer: Annotated[str | None, typer.Option(help="Of a SCIM file: the provider that knows its people.")] = None,
    id_from: Annotated[
        Attribute, typer.Option(help="Of a SCIM file: the attribute that becomes the id of a person.")
    ] = "userName",
    subject_from: Annotated[
        Attribute, typer.Option(help="Of a SCIM file: the attribute that the provider's tokens name.")
    ] = "id",
) -> None:
    """Bring in people, their groups, identities and managers."""
    with failing_clearly():
        people = read_people(file, Reading(id_from=id_from, issuer=issuer, subject_from=subject_from))
        if deactivate_missing and not people.people:
            fail("people: the file names nobody, and would deactivate everybody")

        def work(session: WriteSession) -> Imported:
            found = import_people(session, people, now=utc_now(), deactivate_missing=deactivate_missing)
            if dry_run:
                raise _Undone(found)
            return found

        try:
            found = writing(load_settings(config), work)
        except _Undone as undone:
            found = undone.found
    for change in found.changes:
        typer.echo(change)
    if found.missing and not deactivate_missing:
        typer.echo(f"Not in the file and left as they are: {', '.join(found.missing)}")
    count = "1 person is" if found.count == 1 else f"{found.count} people are"
    typer.echo("Nothing was changed." if dry_run else f"{count} up to date.")


@app.command("link")
def link_command(person: PersonId, config: Config = DEFAULT_CONFIG, *, iss: Issuer, sub: Subject) -> None:
    """Say that a principal is this person."""
    with failing_clearly():
        work = partial(link_identity, person_id=person, iss=iss, sub=sub, now=utc_now())
        is_new = writing(load_settings(config), work)
    typer.echo(f"{sub} is {person} {'now' if is_new else 'already'}.")


@app.command("unlink")
def unlink_command(person: PersonId, config: Config = DEFAULT_CONFIG, *, iss: Issuer, sub: Subject) -> None:
    """Take a principal away from this person and log it out."""
    with failing_clearly():
        settings = load_settings(config)
        work = partial(unlink_identity, person_id=person, iss=iss, sub=sub, issuer=settings.identifier, now=utc_now())
        writing(settings, work)
    typer.echo(f"{sub} is not {person} any more.")
