"""The commands of the outbox: list deliveries, send them again, enable an endpoint that had said 410.

They do what the API does for whoever has the right `admin`; on the command line that is whoever can open the database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from arap_service import outbox
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly
from arap_service.domain.delivery import DeliveryStatus
from arap_service.domain.errors import ArapError
from arap_service.domain.visible import visible
from arap_service.outbox import MAX_LIMIT, DeliveryFilter, DeliveryView
from arap_service.protocol.arap import format_instant
from arap_service.settings import load_settings
from arap_service.store import migrate
from arap_service.store.database import Database
from arap_service.surroundings import utc_now

ACTOR = "command line"
app = typer.Typer(no_args_is_help=True, help="Deliveries of callbacks and events.")
_VIEW: TypeAdapter[DeliveryView] = TypeAdapter(DeliveryView)


@app.command("list")
def list_command(
    config: Config = DEFAULT_CONFIG,
    *,
    status: Annotated[DeliveryStatus | None, typer.Option(help="Only those; dead ones were given up.")] = None,
    request: Annotated[str | None, typer.Option(help="Only those about this request.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List deliveries, the newest first, and the endpoints that nothing is sent to."""
    with failing_clearly(), _faults(), _opened(config) as database:
        for view in _all(database, DeliveryFilter(status=status, request=request, limit=MAX_LIMIT)):
            typer.echo(_VIEW.dump_json(view, exclude={"attempts_made"}).decode() if as_json else _line(view))
        for row in [] if as_json else database.read_now(outbox.silenced_of):
            typer.echo(f"disabled since {format_instant(row.at)}: {visible(row.client_id)} {visible(row.endpoint)}")


@app.command("redeliver")
def redeliver_command(
    delivery_ids: Annotated[list[str], typer.Argument(help="Ids of deliveries, as the list shows them.")],
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Have deliveries sent again under their ids; enables their endpoints if they had said 410."""
    with failing_clearly(), _faults(), _opened(config) as database:
        for delivery_id in delivery_ids:
            database.write_now(partial(outbox.restart, delivery_id=delivery_id, actor=ACTOR, now=utc_now()))
            typer.echo(f"{visible(delivery_id)} will be sent again.")


@app.command("enable")
def enable_command(
    client_id: Annotated[str, typer.Argument(help="Whose endpoint it is, as the list shows it.")],
    endpoint: Annotated[str, typer.Argument(help="The endpoint that had said 410.")],
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Send to an endpoint again that had said it wants nothing more."""
    with failing_clearly(), _faults(), _opened(config) as database:
        database.write_now(
            partial(outbox.enable_in, client_id=client_id, endpoint=endpoint, actor=ACTOR, now=utc_now())
        )
    typer.echo("What comes next is sent there; what was disabled can be sent again with: arap deliveries redeliver")


def _all(database: Database, wanted: DeliveryFilter) -> Iterator[DeliveryView]:
    more: str | None = None
    while True:
        asked = DeliveryFilter(status=wanted.status, request=wanted.request, limit=wanted.limit, cursor=more)
        page = database.read_now(partial(outbox.page_of, wanted=asked))
        yield from page.items
        more = page.next_cursor
        if more is None:
            return


def _line(view: DeliveryView) -> str:
    what = f" ({view.last_error})" if view.last_error else ""
    whose = view.client_id if view.subscription is None else f"subscription {view.subscription}"
    return (
        f"{view.id}  {format_instant(view.created_at)}  {view.status}{what}  {view.event} of {view.request_id}  "
        f"{view.attempts} {'attempt' if view.attempts == 1 else 'attempts'}  {visible(whose)} {visible(view.endpoint)}"
    )


@contextmanager
def _opened(config: Path) -> Iterator[Database]:
    settings = load_settings(config)
    migrate.check(settings.database)
    database = Database.open(settings.database)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except ArapError as error:
        fail(f"deliveries: {error}")
