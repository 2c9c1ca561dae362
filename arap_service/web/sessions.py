"""Browser sessions: a random secret in a `__Host-` cookie, everything else in a row of the database.

A session ends so long after its last use and so long after the log-in as is configured, at log-out, when the provider
says so, when its person or its account is deactivated, and when people no longer log in its way. Only a digest of the
secret is stored, so that a copy of the database opens no session. What a session allows is decided elsewhere.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from starlette.responses import Response

from arap_service.context import Context
from arap_service.settings_login import LoginSettings
from arap_service.store.database import ReadSession, WriteSession
from arap_service.store.notices import preference_of
from arap_service.store.people_tables import Person, WebSession
from arap_service.store.sessions import (
    remove_stale_web_sessions,
    remove_web_session,
    touch_web_session,
    web_session,
)
from arap_service.web.security import form_token

COOKIE: Final = "__Host-arap-desk"
LOGIN_COOKIE: Final = "__Host-arap-login"
LOGIN_SECONDS: Final = 3_600
# Writing at every page would serialise readers behind the writer; a minute is precise enough for half an hour.
_TOUCH_AFTER: Final = timedelta(seconds=60)
_BROWSERS: Final = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"))
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in, and the token that his forms carry; `zone` is whose clocks he has chosen.

    With `must_change` he has come with a password that was set for him, and has to replace it before anything else.
    """

    person_id: str
    name: str
    iss: str
    sub: str
    form_token: str
    digest: str
    method: str
    authenticated_at: datetime
    typed_sealed: bytes | None
    zone: str | None = None
    must_change: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """Somebody has proved who he is: as which principal, by which way, and when that was.

    `provider_sub` and `provider_sid` are what the provider calls him and its own session.
    """

    person_id: str
    iss: str
    sub: str
    at: datetime
    method: Literal["local", "provider"] = "local"
    provider_sub: str | None = None
    provider_sid: str | None = None
    browser: str = ""
    must_change: bool = False


def digest(secret: str) -> str:
    """The key of a session in the database."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def begin(
    session: WriteSession, proved: Proved, *, settings: LoginSettings, secret: str, old: str | None, now: datetime
) -> None:
    """Open a session under a new secret in this unit of work, and end the one that the browser brought along.

    What its person had typed into a form that has to wait moves over.
    """
    typed = None
    if old is not None:
        before = web_session(session, digest(old))
        typed = before[0].typed_sealed if before is not None and before[0].person_id == proved.person_id else None
        remove_web_session(session, digest(old))
    remove_stale_web_sessions(session, now=now, idle_since=now - timedelta(seconds=settings.idle_seconds))
    session.add(
        WebSession(
            digest=digest(secret),
            person_id=proved.person_id,
            iss=proved.iss,
            sub=proved.sub,
            csrf=form_token(secret),
            created_at=now,
            seen_at=now,
            expires_at=now + timedelta(seconds=settings.absolute_seconds),
            authenticated_at=proved.at,
            method=proved.method,
            browser=proved.browser,
            provider_sub=proved.provider_sub,
            provider_sid=proved.provider_sid,
            typed_sealed=typed,
            must_change=proved.must_change,
        )
    )


async def find(ctx: Context, secret: str | None, *, in_use: bool) -> Session | None:
    """The session behind a cookie, if it is still good; `in_use`: a person asks, not a page refreshing itself."""
    if not secret:
        return None
    key, now, settings = digest(secret), ctx.clock(), ctx.settings.login

    def look(session: ReadSession) -> tuple[WebSession, Person, str | None] | None:
        found = web_session(session, key)
        if found is None:
            return None
        preference = preference_of(session, found[1].id)
        return (*found, None if preference is None else preference.zone)

    found = await ctx.database.read(look)
    if found is None:
        return None
    row, person, zone = found
    if not is_good(row, settings=settings, now=now):
        return None
    if in_use and now - row.seen_at >= _TOUCH_AFTER:
        await ctx.database.write(lambda session: touch_web_session(session, key, at=now))
    return Session(
        row.person_id,
        person.name,
        row.iss,
        row.sub,
        row.csrf,
        key,
        row.method,
        row.authenticated_at,
        row.typed_sealed,
        zone,
        row.must_change,
    )


def is_good(row: WebSession, *, settings: LoginSettings, now: datetime) -> bool:
    """Whether a stored session still opens the desk, as people log in now."""
    if now >= row.expires_at or now - row.seen_at >= timedelta(seconds=settings.idle_seconds):
        return False
    return settings.local if row.method == "local" else settings.oidc is not None and settings.oidc.issuer == row.iss


def browser_of(agent: str | None) -> str:
    """Browser and system in two words, for somebody who looks for a session that is not his: `Firefox on Linux`."""
    said = agent or ""
    browser = next((name for mark, name in _BROWSERS if mark in said), None)
    if browser is None and re.search(r"Version/[\d.]+.* Safari/", said):
        browser = "Safari"
    system = next((name for mark, name in _SYSTEMS if mark in said), None)
    return " on ".join(filter(None, (browser or "A browser", system)))


def set_cookie(response: Response, name: str, value: str, *, max_age: int | None = None) -> None:
    """Hand the browser a cookie that scripts cannot read and other hosts cannot set."""
    response.set_cookie(name, value, max_age=max_age, path="/", secure=True, httponly=True, samesite="lax")


def drop_cookie(response: Response, name: str) -> None:
    """Tell the browser to forget a cookie."""
    response.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")
