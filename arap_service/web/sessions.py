"""Browser sessions: a random secret in a `__Host-` cookie, everything else in a row of the database.

A session ends thirty minutes after its last use, twelve hours after the log-in, at log-out, and when its person or its
account is deactivated. Only a digest of the secret is stored, so that a copy of the database opens no session. What a
session allows is decided elsewhere.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

from arap_service.context import Context
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, WebSession
from arap_service.store.sessions import (
    remove_stale_web_sessions,
    remove_web_session,
    touch_web_session,
    web_session,
)
from arap_service.web.security import form_token

COOKIE: Final = "__Host-arap-desk"
LOGIN_COOKIE: Final = "__Host-arap-login"
IDLE: Final = timedelta(minutes=30)
ABSOLUTE: Final = timedelta(hours=12)
LOGIN_SECONDS: Final = 3_600
# Writing at every page would serialise readers behind the writer; a minute is precise enough for half an hour.
_TOUCH_AFTER: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in, and the token that his forms carry."""

    person_id: str
    name: str
    iss: str
    sub: str
    form_token: str


def digest(secret: str) -> str:
    """The key of a session in the database."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def begin(session: WriteSession, account: Account, *, iss: str, secret: str, old: str | None, now: datetime) -> None:
    """Open a session under a new secret in this unit of work, and end the one that the browser brought along."""
    if old is not None:
        remove_web_session(session, digest(old))
    remove_stale_web_sessions(session, now=now, idle_since=now - IDLE)
    session.add(
        WebSession(
            digest=digest(secret),
            person_id=account.person_id,
            iss=iss,
            sub=account.login,
            csrf=form_token(secret),
            created_at=now,
            seen_at=now,
            expires_at=now + ABSOLUTE,
        )
    )


async def find(ctx: Context, secret: str | None, *, in_use: bool) -> Session | None:
    """The session behind a cookie, if it is still good; `in_use`: a person asks, not a page refreshing itself."""
    if not secret:
        return None
    key, now = digest(secret), ctx.clock()
    found = await ctx.database.read(lambda session: web_session(session, key))
    if found is None:
        return None
    row, person = found
    if now >= row.expires_at or now - row.seen_at >= IDLE:
        return None
    if in_use and now - row.seen_at >= _TOUCH_AFTER:
        await ctx.database.write(lambda session: touch_web_session(session, key, at=now))
    return Session(row.person_id, person.name, row.iss, row.sub, row.csrf)


async def end(ctx: Context, secret: str) -> None:
    """Forget the session behind a cookie."""
    await ctx.database.write(lambda session: remove_web_session(session, digest(secret)))


def set_cookie(response: Response, name: str, value: str, *, max_age: int | None = None) -> None:
    """Hand the browser a cookie that scripts cannot read and other hosts cannot set."""
    response.set_cookie(name, value, max_age=max_age, path="/", secure=True, httponly=True, samesite="lax")


def drop_cookie(response: Response, name: str) -> None:
    """Tell the browser to forget a cookie."""
    response.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")
