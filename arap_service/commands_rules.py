"""The commands of what stands after a decision: standing rules, and the reviews of emergencies.

Whoever runs one logs in as the person that he is, with the password of his local account from `ARAP_PASSWORD` or asked
for; the use cases are those of the desk and of the API, with the rights that the person has at the desk.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import structlog
import typer

from arap_service.api.auth import Authenticator
from arap_service.command_line import DEFAULT_CONFIG, Config, fail, failing_clearly
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import ArapError
from arap_service.protocol.arap import format_instant
from arap_service.requests import reviews, standing_rules
from arap_service.settings import load_settings
from arap_service.store import migrate
from arap_service.store.people import groups_of
from arap_service.store.people_tables import Account
from arap_service.surroundings import open_context
from arap_service.web.login import WRONG, gatekeeper, proved_account
from arap_service.web.rights import granted

Result = TypeVar("Result")
rules_app = typer.Typer(no_args_is_help=True, help="Standing rules: always decide like this.")
reviews_app = typer.Typer(no_args_is_help=True, help="Emergencies that were used, and what came of them.")
As = Annotated[str, typer.Option("--as", help="The login of your own local account.")]
Password = Annotated[
    str, typer.Option(envvar="ARAP_PASSWORD", prompt=True, hide_input=True, help="Better given by the environment.")
]


@rules_app.command("list")
def list_rules(
    login: As,
    password: Password,
    config: Config = DEFAULT_CONFIG,
    *,
    status: Annotated[standing_rules.State | None, typer.Option(help="Only those.")] = None,
) -> None:
    """List rules and proposals, the newest first."""

    async def work(ctx: Context, caller: Caller) -> None:
        after: str | None = None
        while True:
            page = await standing_rules.list_rules(ctx, caller, status=status, after=after)
            for rule in page.items:
                until = "" if rule.expires_at is None else f" until {format_instant(rule.expires_at)}"
                silent = "" if rule.suspended is None else f", silent: its {rule.suspended} may not do that any more"
                typer.echo(f"{rule.id}  {rule.status}{silent}{until}  used {rule.uses} times  {rule.effect}")
                typer.echo(f"    {rule.template_title}; for {rule.days} days; proposed by {rule.proposed_by}")
            after = page.next_cursor
            if after is None:
                return

    _run(config, login, password, work)


@rules_app.command("confirm")
def confirm_rule(
    rule_id: Annotated[str, typer.Argument(help="Its id, as the list shows it.")],
    login: As,
    password: Password,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Put a proposed rule into force, as an administrator who did not propose it."""

    async def work(ctx: Context, caller: Caller) -> None:
        rule = await standing_rules.confirm_rule(ctx, caller, rule_id)
        until = "" if rule.expires_at is None else format_instant(rule.expires_at)
        typer.echo(f"In force until {until}: {rule.effect}")

    _run(config, login, password, work)


@rules_app.command("end")
def end_rule(
    rule_id: Annotated[str, typer.Argument(help="Its id, as the list shows it.")],
    login: As,
    password: Password,
    config: Config = DEFAULT_CONFIG,
) -> None:
    """End a rule or a proposal at once."""

    async def work(ctx: Context, caller: Caller) -> None:
        rule = await standing_rules.end_rule(ctx, caller, rule_id)
        typer.echo(f"Ended after {rule.uses} uses: {rule.effect}")

    _run(config, login, password, work)


@reviews_app.command("list")
def list_reviews(
    login: As,
    password: Password,
    config: Config = DEFAULT_CONFIG,
    *,
    state: Annotated[reviews.State | None, typer.Option(help="Only those.")] = None,
) -> None:
    """List reviews, the one that is due first before the others."""

    async def work(ctx: Context, caller: Caller) -> None:
        after: str | None = None
        while True:
            page = await reviews.list_reviews(ctx, caller, state=state, after=after)
            for review in page.items:
                stands = review.outcome or ("overdue" if review.is_overdue else "open")
                approvers = ", ".join(review.approved_by)
                typer.echo(f"{review.approval_id}  {stands}  due {format_instant(review.due_at)}  {review.effect}")
                typer.echo(f"    request {review.request_id}; approved by {approvers}")
            after = page.next_cursor
            if after is None:
                return

    _run(config, login, password, work)


@reviews_app.command("close")
def close_review(
    approval_id: Annotated[str, typer.Argument(help="The id of the approval, as the list shows it.")],
    outcome: Annotated[Literal["justified", "unjustified"], typer.Argument(help="What you found.")],
    login: As,
    password: Password,
    config: Config = DEFAULT_CONFIG,
    *,
    note: Annotated[str, typer.Option(help="Why; it is kept with the request.")],
) -> None:
    """Close a review, as an owner or administrator who had no part in the request."""

    async def work(ctx: Context, caller: Caller) -> None:
        review = await reviews.close_review(ctx, caller, approval_id, outcome=outcome, note=note)
        typer.echo(f"Closed as {review.outcome}: {review.effect}")

    _run(config, login, password, work)


def _run(config: Path, login: str, password: str, work: Callable[[Context, Caller], Awaitable[None]]) -> None:
    as_caller(config, login, password, None, work)


def as_caller(
    config: Path,
    login: str | None,
    password: str | None,
    token: str | None,
    work: Callable[[Context, Caller], Awaitable[None]],
) -> None:
    """Do `work` as whoever proves who he is by a token, or by the password of his local account, asked for if need be.

    What the use case refuses is told in one line, with its code.
    """
    if token is None and login is None:
        fail("say who you are: --as and the password of your account, or an access token in ARAP_TOKEN")
    if token is None and password is None:
        password = typer.prompt("Password", hide_input=True, err=True)
    with failing_clearly():
        settings = load_settings(config)
        migrate.check(settings.database)

        async def run() -> None:
            # Standard output is for what was asked for; what happened is in the record of the request.
            ctx = replace(await open_context(settings), log=structlog.wrap_logger(structlog.ReturnLogger()))
            try:
                if token is not None:
                    caller = await Authenticator(
                        ctx.trust, clock=ctx.clock, skew_seconds=settings.clock_skew_seconds
                    ).caller(token)
                else:
                    caller = await _logged_in(ctx, (login or "").strip().casefold()[:200], password or "")
                await work(ctx, caller)
            finally:
                await ctx.aclose()

        try:
            asyncio.run(run())
        except ArapError as error:
            code = error.extra.get("code")
            fail(f"{error}{'' if code is None else f' ({code})'}")


async def _logged_in(ctx: Context, login: str, password: str) -> Caller:
    account: Account | str = WRONG
    if ctx.settings.login.local:
        account = await proved_account(ctx, gatekeeper(), login, password=password)
    if isinstance(account, str):
        fail(account)
    if account.first_until is not None:
        fail("This password was set for you: log in at the desk and replace it first.")
    person_id = account.person_id
    groups = await ctx.database.read(lambda session: groups_of(session, person_id))
    return Caller(
        iss=ctx.settings.identifier,
        sub=account.login,
        client_id="command line",
        scopes=granted(ctx.settings.desk, groups),
        channel="cli",
        person_id=person_id,
    )
