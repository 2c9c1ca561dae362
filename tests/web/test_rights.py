"""Which groups open which parts of the desk, and what the menu shows of that; design.md section 7."""

import re
from dataclasses import replace

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.domain.callers import Scope
from arap_service.settings_parts import DeskSettings
from arap_service.web.rights import DECIDING, MenuEntry, Place, granted, menu_of
from tests.service import app_for
from tests.web.desk import Browser, commit_request

DESK = DeskSettings(
    readers=frozenset({"staff"}),
    operators=frozenset({"ops"}),
    auditors=frozenset({"audit"}),
    administrators=frozenset({"admins"}),
)
MENU = re.compile(r'<li><a href="([^"]*)"(?: aria-current="(\w+)")?>')


@pytest.mark.parametrize(
    ("groups", "more"),
    [
        ((), ()),
        (("strangers",), ()),
        (("staff",), (Scope.APPROVAL_READ,)),
        (("ops",), (Scope.OPERATE,)),
        (("audit",), (Scope.AUDIT_READ,)),
        (("admins",), (Scope.ADMIN,)),
        (("ops", "audit", "staff"), (Scope.OPERATE, Scope.AUDIT_READ, Scope.APPROVAL_READ)),
    ],
)
def test_a_group_opens_exactly_its_part(groups: tuple[str, ...], more: tuple[Scope, ...]) -> None:
    assert granted(DESK, groups) == DECIDING | set(more)


def test_a_desk_that_names_no_group_is_closed_but_for_the_requests() -> None:
    everything = ("ops", "audit", "admins", "staff", "")
    assert granted(DeskSettings(), everything) == DECIDING | {Scope.APPROVAL_READ}
    assert granted(DeskSettings(readers=frozenset()), everything) == DECIDING


def test_the_menu_holds_what_the_reader_may_open_and_marks_where_he_is() -> None:
    places = (
        Place("/desk", "Requests", below=("/desk/requests/",)),
        Place("/desk/audit", "Audit", frozenset([Scope.AUDIT_READ])),
        Place("/desk/people", "People", frozenset([Scope.AUDIT_READ, Scope.ADMIN])),
    )

    def menu(*rights: Scope, path: str = "/desk") -> list[tuple[str, str | None]]:
        return [(entry.label, entry.current) for entry in menu_of(frozenset(rights), path, places=places)]

    assert menu() == [("Requests", "page")]
    assert menu(Scope.ADMIN, path="/desk/requests/x") == [("Requests", "true"), ("People", None)]
    assert menu(Scope.AUDIT_READ, path="/desk/audit/x") == [("Requests", None), ("Audit", "true"), ("People", None)]
    assert menu_of(frozenset(), "/desk", places=places) == (MenuEntry("/desk", "Requests", "page"),)


@pytest.mark.anyio
async def test_the_menu_stands_on_every_page_of_somebody_who_is_logged_in_and_on_no_other(
    grace: Browser, browser: Browser
) -> None:
    assert MENU.findall((await grace.get("/desk")).text.split("</nav>")[0])[0] == ("/desk", "page")
    assert MENU.findall((await grace.get("/desk/none")).text.split("</nav>")[0])[0] == ("/desk", "")
    assert 'aria-label="Main"' not in (await browser.get("/login")).text


@pytest.mark.anyio
async def test_where_readers_are_named_others_see_only_what_names_them(
    context: Context, app: FastAPI, grace: Browser
) -> None:
    task_id = await commit_request(app, context)
    closed = app_for(replace(context, settings=context.settings.model_copy(update={"desk": DESK})))
    olga, her = Browser(closed), Browser(closed)
    await olga.log_in("olga")
    await her.log_in("grace")
    assert (await olga.get(f"/desk/requests/{task_id}")).status_code == 404
    assert task_id not in (await olga.get("/desk?show=all")).text
    assert (await her.get(f"/desk/requests/{task_id}")).status_code == 200, "a step names her"
    assert task_id in (await her.get("/desk")).text
    await olga.client.aclose()
    await her.client.aclose()
