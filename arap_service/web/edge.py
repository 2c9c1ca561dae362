"""The way in and out of every page: session, origin and form token before it; errors as pages and headers after it.

A route of the desk cannot be reached around this class, so no page can forget a check: whatever is not GET or HEAD is
refused unless it comes from a form of ours (design.md section 7). What a page does is decided by its handler.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, Final
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import ArapError
from arap_service.domain.forms import MOST_FIELDS
from arap_service.requests.several import MOST
from arap_service.store.database import StoreUnavailable
from arap_service.web import sessions
from arap_service.web.alerts import alerts_of
from arap_service.web.asking import zone_named
from arap_service.web.forms import UnreadableForm, only
from arap_service.web.rendering import Page, render
from arap_service.web.rights import menu_of, places_of, rights_of
from arap_service.web.security import PAGE_HEADERS, form_token, is_form_token, is_same_origin
from arap_service.web.sessions import LOGIN_COOKIE, Session

Handler = Callable[[Request], Awaitable[Response]]
READING: Final = frozenset(["GET", "HEAD"])
REPLACE_PATH: Final = "/desk/account/password"
_WITHOUT_OWN_PASSWORD: Final = frozenset({REPLACE_PATH, "/logout"})
FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_FIELDS: Final = max(MOST_FIELDS, MOST) + 8  # with the token and the buttons


class LoginNeeded(Exception):
    """The page is for people who are logged in."""


class Refused(Exception):
    """The request is not a form of ours; the text is for the reader."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.text = text


@dataclass(frozen=True, slots=True)
class Visit:
    """One request to the desk after the checks: where it stands, who asks, the fields of the form.

    `secret` is the cookie that the form token belongs to: the session's, or before log-in one of its own.
    `rights` are those of the person, as his groups are now.
    """

    ctx: Context
    page: Page
    session: Session | None
    secret: str | None
    fields: dict[str, str]
    rights: frozenset[Scope] = frozenset()

    def page_with(self, token: str) -> Page:
        """The page with another form token, for somebody whose first form this is."""
        return replace(self.page, form_token=token)

    def require(self, who: str, *scopes: Scope) -> None:
        """Insist on one of these rights; `who` says in the plural whom they make somebody.

        Raises:
            LoginNeeded: Nobody is logged in.
            Refused: The person has none of them.
        """
        if self.session is None:
            raise LoginNeeded
        if self.rights.isdisjoint(scopes):
            raise Refused(403, "This page is not for you", f"It is for {who}. Nothing was changed.")

    @property
    def caller(self) -> Caller:
        """The person at the browser, as the use cases know callers.

        Raises:
            LoginNeeded: Nobody is logged in.
        """
        if self.session is None:
            raise LoginNeeded
        return Caller(
            iss=self.session.iss,
            sub=self.session.sub,
            client_id="desk",
            scopes=self.rights,
            channel="desk",
            person_id=self.session.person_id,
            proved_at=self.session.authenticated_at,
        )


def visit(request: Request) -> Visit:
    """What the route found out about this request."""
    found: Visit = request.state.visit
    return found


class DeskRoute(APIRoute):
    """A route whose handler runs only after the checks, and whose every answer is a page with the desk's headers."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """The handler with the checks before it and the error pages behind it."""
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            response = await _answered(request, handler)
            for name, value in PAGE_HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return guarded


async def _answered(request: Request, handler: Handler) -> Response:
    ctx: Context = request.app.state.context
    page = _page(ctx, request, None, "")
    try:
        request.state.visit = found = await _visit(ctx, request)
        page = found.page
        if found.session is not None and found.session.must_change and page.path not in _WITHOUT_OWN_PASSWORD:
            return _sent_to(request, page, REPLACE_PATH)
        return await handler(request)
    except LoginNeeded:
        return _sent_to(request, page, "/login")
    except Refused as refused:
        return error_page(page, refused.status, title=refused.title, text=refused.text)
    except ArapError as error:
        return error_page(page, error.status)
    except (UnreadableForm, RequestValidationError):
        return error_page(page, 400)
    except HTTPException as error:
        return error_page(page, error.status_code)
    except StoreUnavailable as error:
        ctx.log.warning("desk_store_unavailable", reason=error.reason)
        return error_page(page, 503)


def _page(ctx: Context, request: Request, session: Session | None, token: str) -> Page:
    root = ctx.settings.base_path
    return Page(
        root=root,
        path=request.url.path.removeprefix(root),
        now=ctx.clock(),
        person=None if session is None else session.name,
        form_token=token,
        warning=_warning(ctx),
    )


def _warning(ctx: Context) -> str | None:
    if ctx.rehearsal is not None:
        return "This is a simulator: it approves, denies and misbehaves as it is told. Nothing here is a real decision."
    if ctx.settings.authentication == "none":
        return "This service does not check who calls it. Do not use it for real decisions."
    if ctx.settings.builtin_issuer.enabled:
        return "This service issues its own access tokens. Do not use it for real decisions."
    return None


async def _visit(ctx: Context, request: Request) -> Visit:
    refreshing = "hx-request" in request.headers
    secret = request.cookies.get(sessions.COOKIE)
    session = await sessions.find(ctx, secret, in_use=not refreshing)
    if session is None:
        secret = request.cookies.get(LOGIN_COOKIE) or None  # the form token of an empty one is known to anybody
    token = session.form_token if session else form_token(secret) if secret else ""
    rights = await rights_of(ctx, None if session is not None and session.must_change else session)
    page = _page(ctx, request, session, token)
    if session is not None:
        menu = menu_of(rights, page.path, places=places_of(ctx))
        zone = zone_named(session.zone)
        alerts = () if refreshing else await alerts_of(ctx, rights)
        page = replace(page, menu=menu, alerts=alerts, zone=zone or UTC, is_zone_chosen=zone is not None)
    fields = {} if request.method in READING else await _form(ctx, request, session, secret)
    return Visit(ctx=ctx, page=page, session=session, secret=secret, fields=fields, rights=rights)


async def _form(ctx: Context, request: Request, session: Session | None, secret: str | None) -> dict[str, str]:
    if not is_same_origin(request.headers, identifier=ctx.settings.identifier):
        ctx.log.warning("desk_form_refused", reason="origin")
        raise Refused(
            403, "That did not come from this page", "Nothing was changed. Please use the forms of this desk."
        )
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise Refused(415, "That is not a form of this desk", "Nothing was changed.")
    async with request.form(max_files=0, max_fields=MAX_FIELDS) as form:
        fields = only(form.multi_items())
    if secret is None or not is_form_token(fields.pop("form_token", None), secret=secret):
        ctx.log.warning("desk_form_refused", reason="token" if session else "no_session")
        raise Refused(
            403,
            "This form is no longer valid",
            "Nothing was changed. You were logged out, or logged in again, since the page was opened. "
            "Please go back to the desk and try once more.",
        )
    return fields


def _sent_to(request: Request, page: Page, path: str) -> Response:
    """To another page first, which leads back here afterwards."""
    target = f"{page.path}?{request.url.query}" if request.url.query else page.path
    location = page.root + path + (f"?next={quote(target, safe='')}" if request.method in READING else "")
    if "hx-request" in request.headers:
        # The script would follow a redirect and put the form into the list.
        return Response(status_code=204, headers={"HX-Redirect": page.root + path})
    return RedirectResponse(location, status_code=303)


ERRORS: Final = {
    400: ("That request could not be read", "Nothing was changed. Please go back to the desk and try once more."),
    403: ("You may not do this", "Nothing was changed. Somebody else has to decide this request."),
    404: ("There is nothing here", "Either it never existed, it has been removed, or it is not for you to see."),
    405: ("That is not possible here", "Nothing was changed."),
    409: ("This changed in the meantime", "Nothing of what you sent was recorded. Please look at it again."),
    410: ("This request is no longer kept", "Its details were removed after the time for which they are stored."),
    422: ("Your decision was not recorded", "Something in it is missing or no longer possible. Please decide again."),
    413: ("That was too long", "Nothing was changed. Please write less."),
    429: ("Please wait a little", "Too many attempts in a short time. Nothing was changed."),
    503: ("The desk cannot reach its database", "Nothing was changed. Please try again in a minute."),
}


def error_page(page: Page, status: int, *, title: str | None = None, text: str | None = None) -> Response:
    """An error in words that say what happened to the data and where to go on."""
    usual = ERRORS.get(status, ("That did not work", "Nothing was changed."))
    link, link_text = ("/desk", "Go to the requests") if page.person else ("/login", "Go to the log-in page")
    return render(
        "error.html",
        page,
        status=status,
        error_status=status,
        title=title or usual[0],
        text=text or usual[1],
        link=page.root + link,
        link_text=link_text,
    )
