"""One state of one page of the desk, and everything that is looked at when it is there.

What each page of the guide says to a screen reader is kept in `names/`: `ARAP_NAMES=1` writes the files anew, and a
person looks at the difference. `ARAP_SCREENSHOTS=1` (`make screenshots`) takes the pictures of `docs/images`.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from playwright.sync_api import Page, expect
from starlette.routing import BaseRoute

from arap_service.web.desk import install
from tests.browser.checks import faults, look, names, unfold, unreachable, words
from tests.browser.rooms import Room

IN_THE_DARK: Final = frozenset({"queue", "request", "form", "simulator"})  # every kind of thing that takes the focus
NAMES: Final = Path(__file__).parent / "names"
IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
# What nobody opens as a page: files, and pieces that a script puts into one.
NO_PAGES: Final = frozenset(
    {
        "/",  # leads to the desk
        "/login/callback",  # leads on; what is refused there is the page of errors
        "/desk/audit/export",
        "/desk/reports/figures.csv",
        "/desk/reports/figures.json",
        "/desk/live/queue",
        "/desk/live/requests/{task_id}",
        "/desk/live/requests/{task_id}/outcome",
        "/desk/static/{version}/{name}",
    }
)
# The pages of those who run the service name its parts; a reviewer's pages do not.
FOR_OPERATORS: Final = (
    "/desk/audit",
    "/desk/deliveries",
    "/desk/notices",
    "/desk/people",
    "/desk/reports",
    "/desk/simulator",
)
JARGON: Final = re.compile(
    r"\b(tasks?|templates?|principals?|subjects?|tokens?|evaluations?|callbacks?|endpoints?|payloads?|dispositions?"
    r"|quorum|veto|scopes?|revok\w*|revocation|evaluators?|resolvers?|submitters?|JSON|URN|HTTP|API|PDP|PEP|MCP|ARAP"
    r"|AuthZEN|OAuth|OIDC|CSRF|idempoten\w*|webhooks?|schemas?|null|none_\w+|\w+_hash|enforcement point)\b"
)


@dataclass(frozen=True, slots=True)
class State:
    """A page in a state: its name, the route that answers, how one gets there, and whether the guide shows it.

    `says` is what stands there in this state alone. A page of the guide needs none: all of its names are on record.
    """

    name: str
    route: str
    open: Callable[[Room], Page]
    in_guide: bool = False
    says: str = ""


def seen(name: str, route: str, path: str, *, who: str = "rita", in_guide: bool = False, says: str = "") -> State:
    """A state that is there as soon as somebody opens the address; `{name}` in it is a request of the room."""

    def opened(room: Room) -> Page:
        return room.open(path.format_map({key: asked.id for key, asked in room.ids.items()}), who=who)

    return State(name, route, opened, in_guide, says)


def pages() -> set[str]:
    """Every route of the desk that somebody can open, as the application has it."""
    return routes("GET") - NO_PAGES


def routes(method: str) -> set[str]:
    """The routes of the desk that take `method`."""
    app = FastAPI()
    install(app)
    return {route.path for route in _routes(app.routes) if method in (route.methods or ())}


def _routes(found: Sequence[BaseRoute]) -> Iterator[APIRoute]:
    for route in found:
        included = getattr(route, "original_router", None)
        if isinstance(included, APIRouter):
            yield from _routes(included.routes)
        elif isinstance(route, APIRoute):
            yield route


def wrong(state: State, room: Room) -> list[str]:
    """Everything that is not right on the page in this state."""
    page = state.open(room)
    page.wait_for_load_state()  # else a page may be looked at of which only the beginning has come
    if state.says:
        expect(page.locator("body").get_by_text(state.says).filter(visible=True).first).to_be_visible()
    look(page, "light", 1440)
    _pictured(state, page)
    said = words(page)
    found = [*_elsewhere(state, page), *(_different(state.name, names(page)) if state.in_guide else ())]
    unfold(page)
    found += [*faults(page), *unreachable(page)]
    if state.name in IN_THE_DARK:
        look(page, "dark", 1440)
        found += [f"in the dark, {each}" for each in unreachable(page)]
    if not urlsplit(page.url).path.startswith(FOR_OPERATORS):
        found += sorted({f"jargon: {word[0]}" for word in JARGON.finditer(said)})
    return found


def stale(states: Iterable[State]) -> set[str]:
    """Files of names that no state has."""
    return {path.stem for path in NAMES.glob("*.txt")} - {state.name for state in states if state.in_guide}


def _elsewhere(state: State, page: Page) -> Iterator[str]:
    pattern = re.sub(r"\\{_:path\\}", ".*", re.escape(state.route))
    pattern = re.sub(r"\\{\w+\\}", "[^/]+", pattern)
    path = urlsplit(page.url).path
    if not re.fullmatch(pattern + r"(?:/\w+)?", path):
        yield f"{path} is not {state.route}"


def _pictured(state: State, page: Page) -> None:
    if not state.in_guide or not os.environ.get("ARAP_SCREENSHOTS"):
        return
    IMAGES.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": 1080, "height": 1000})
    height = min(
        1000, 16 + page.evaluate("document.querySelector('main').lastElementChild.getBoundingClientRect().bottom")
    )
    page.screenshot(
        path=IMAGES / f"{state.name}.png",
        clip={"x": 0, "y": 0, "width": 1080, "height": height},
        animations="disabled",
    )
    look(page, "light", 1440)


def _different(name: str, told: str) -> Iterator[str]:
    path = NAMES / f"{name}.txt"
    if os.environ.get("ARAP_NAMES"):
        NAMES.mkdir(exist_ok=True)
        path.write_text(told, encoding="utf-8")
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if told.splitlines() != known:
        yield "names and roles changed (ARAP_NAMES=1 keeps the new ones):"
        yield from unified_diff(known, told.splitlines(), "kept", "now", n=1, lineterm="")
