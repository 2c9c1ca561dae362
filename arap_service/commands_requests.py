"""The commands for whoever decides requests at a terminal: list, show, approve and deny.

Whoever runs one logs in as the person that he is: with an access token from `ARAP_TOKEN`, or with the password of his
local account from `ARAP_PASSWORD` or asked for. Who can open the database can do no more than who cannot: the use cases
are those of the desk and of the API, and one function decides (GOV-09).
"""

from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from pydantic import TypeAdapter

from arap_service import requests
from arap_service.command_line import DEFAULT_CONFIG, Config
from arap_service.commands_rules import as_caller
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.visible import visible
from arap_service.protocol.arap import format_instant
from arap_service.views import QueueFilter, QueueRow, RequestDetail
from arap_service.web.words import members

app = typer.Typer(no_args_is_help=True, help="Requests: see and decide them as the person that you are.")
Login = Annotated[str | None, typer.Option("--as", help="The login of your own local account.")]
Password = Annotated[str | None, typer.Option(envvar="ARAP_PASSWORD", help="Better given by the environment.")]
Token = Annotated[str | None, typer.Option(envvar="ARAP_TOKEN", help="An access token instead of an account.")]
RequestId = Annotated[str, typer.Argument(help="The id of the request, as the list shows it.")]
Item = Annotated[int | None, typer.Option(help="Which thing of several, counted from 1.")]
Version = Annotated[int | None, typer.Option(help="The version that you have seen; else it is shown first.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
_ROW: TypeAdapter[QueueRow] = TypeAdapter(QueueRow)
_DETAIL: TypeAdapter[RequestDetail] = TypeAdapter(RequestDetail)


@app.command("list")
def list_command(
    config: Config = DEFAULT_CONFIG,
    *,
    login: Login = None,
    password: Password = None,
    token: Token = None,
    everything: Annotated[bool, typer.Option("--all", help="Not only what you may decide now.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the requests that you may decide now, the nearest deadline first."""

    async def work(ctx: Context, caller: Caller) -> None:
        cursor: str | None = None
        while True:
            page = await requests.queue(ctx, caller, QueueFilter(mine=not everything, cursor=cursor))
            for row in page.items:
                typer.echo(_ROW.dump_json(row).decode() if as_json else _line(row))
            cursor = page.next_cursor
            if cursor is None:
                return

    as_caller(config, login, password, token, work)


@app.command("show")
def show_command(
    request_id: RequestId,
    config: Config = DEFAULT_CONFIG,
    *,
    login: Login = None,
    password: Password = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Show one request with what a decision needs."""

    async def work(ctx: Context, caller: Caller) -> None:
        found = await requests.detail(ctx, caller, request_id)
        if as_json:
            typer.echo(_DETAIL.dump_json(found).decode())
            return
        for line in told(found, is_exact=token is not None):
            typer.echo(line)

    as_caller(config, login, password, token, work)


@app.command("approve")
def approve_command(
    request_id: RequestId,
    config: Config = DEFAULT_CONFIG,
    *,
    login: Login = None,
    password: Password = None,
    token: Token = None,
    reason: Annotated[str | None, typer.Option(help="Why; some requests need one.")] = None,
    item: Item = None,
    version: Version = None,
) -> None:
    """Approve a request, or one thing of several; if it has changed since it was shown, nothing is recorded."""
    _decide(config, (login, password, token), request_id, "approve", (reason, item, version))


@app.command("deny")
def deny_command(
    request_id: RequestId,
    config: Config = DEFAULT_CONFIG,
    *,
    login: Login = None,
    password: Password = None,
    token: Token = None,
    reason: Annotated[str | None, typer.Option(help="Why; some requests need one.")] = None,
    item: Item = None,
    version: Version = None,
) -> None:
    """Deny a request, or one thing of several; if it has changed since it was shown, nothing is recorded."""
    _decide(config, (login, password, token), request_id, "deny", (reason, item, version))


def _decide(
    config: Config,
    who: tuple[str | None, str | None, str | None],
    request_id: str,
    decision: str,
    said: tuple[str | None, int | None, int | None],
) -> None:
    async def work(ctx: Context, caller: Caller) -> None:
        await decide_shown(ctx, caller, request_id, decision, said, say=typer.echo)

    as_caller(config, *who, work)


async def decide_shown(
    ctx: Context,
    caller: Caller,
    request_id: str,
    decision: str,
    said: tuple[str | None, int | None, int | None],
    *,
    say: Callable[[str], None],
) -> None:
    """Decide what `said` (reason, thing, version) names; without a version what is shown first, and no other.

    Raises:
        StaleVersion: It has changed since it was shown, or since the version that was named; nothing is recorded.
    """
    reason, item, seen = said
    if seen is None:
        found = await requests.detail(ctx, caller, request_id)
        for line in told(found):
            say(line)
        seen = next((each.version for each in found.items if each.item == item), found.version)
        say(f"{'approving' if decision == 'approve' else 'denying'} this, version {seen}")
    after = await requests.decide(ctx, caller, request_id, decision=decision, version=seen, reason=reason, item=item)
    say(f"{after.id}  {after.status}  version {after.version}")


def _line(row: QueueRow) -> str:
    until = f"until {format_instant(row.deadline)}" if row.status == "pending" else row.status
    return f"{row.id}  {until}  {row.risk}  {row.template_title}: {_flat(row.effect)}"


def told(found: RequestDetail, *, is_exact: bool = False) -> Iterator[str]:
    """The lines that show a request: what is approved with it, as far as its template reveals that.

    `is_exact` is for whoever acts by a token, whose approval is for exactly what was asked.
    """
    yield f"{found.id}  {found.status}  version {found.version}  until {format_instant(found.deadline)}"
    yield f"{found.template_title}: {_flat(found.effect)}"
    yield f"for {found.subject['id']}, asked by {found.submitter} through {found.client_id}"
    if not found.item_count:
        yield from _terms(found, is_exact=is_exact)
    if found.justification:
        yield f"because: {_flat(found.justification)}"
    for step in found.steps:
        yield f"step {step.title}: {step.status}, {step.approvals} of {step.quorum}"
    for vote in found.votes:
        place = f" for {vote.in_place_of}" if vote.in_place_of else ""
        yield f"{vote.voter}{place}: {vote.decision}"
    for each in found.items:
        yield f"thing {each.item}: {each.status}, version {each.version}  {_flat(each.effect)}"
        yield from _terms(each, is_exact=is_exact)
    yield "you may decide it" if found.may_decide else f"you may not decide it ({found.why_not or 'it has ended'})"


def _terms(found: RequestDetail, *, is_exact: bool) -> Iterator[str]:
    """What one approval is for, and how far it reaches."""
    if found.is_emergency:
        yield "  an emergency, which somebody looks at afterwards"
    if found.caution:
        yield f"  caution: {_flat(found.caution)}"
    for argument in (*found.arguments, *found.facts):
        yield f"  {argument.pointer or '/'}: {_flat(argument.text)}"
    for said in () if found.stated is None else found.stated.values:
        yield f"  {said.pointer}: {_flat(said.text)} (filled in, proven by nobody)"
    if found.hidden:
        yield f"  not shown: {', '.join(map(_flat, found.hidden))}"
    if found.scope is not None and found.scope.may_vary and not is_exact:
        yield f"  an approval allows more than this: {_flat(found.scope.words)}"
        yield f"  what may be different: {members(found.scope.may_vary)}"


def _flat(text: str) -> str:
    return " ".join(visible(text).split())
