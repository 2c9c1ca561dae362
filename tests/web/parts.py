"""A desk whose parts are open to groups, for the tests of pages that only some may open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from arap_service.context import Context
from arap_service.settings_parts import DeskSettings
from tests.service import app_for
from tests.web.desk import Browser, add_person

DESK: Final = DeskSettings(
    operators=frozenset({"ops"}), auditors=frozenset({"audit"}), administrators=frozenset({"admins"})
)
GROUPS: Final = {"oscar": "ops", "audrey": "audit", "adam": "admins", "nobody": "strangers"}


@asynccontextmanager
async def member(context: Context, name: str, **changes: Any) -> AsyncIterator[Browser]:
    """The browser of somebody of `GROUPS`, or of a maintainer, at a desk that knows the groups."""
    opened = replace(context, settings=context.settings.model_copy(update={"desk": DESK}), **changes)
    if name in GROUPS:
        add_person(opened, name, name=name.capitalize(), groups=(GROUPS[name],))
    browser = Browser(app_for(opened))
    try:
        assert (await browser.log_in(name)).status_code == 303
        yield browser
    finally:
        await browser.client.aclose()


async def who_may(context: Context, path: str) -> set[str]:
    """Who of `GROUPS` can open a page; for everybody else it must say that it is not for him."""
    may = set()
    for name in GROUPS:
        async with member(context, name) as browser:
            answer = await browser.get(path)
            assert answer.status_code in {200, 403}, answer.text
            assert ("This page is not for you" in answer.text) == (answer.status_code == 403)
            assert (f'href="{path}"' in answer.text.split("</nav>")[0]) == (answer.status_code == 200), (
                "as the menu says"
            )
            may |= {name} if answer.status_code == 200 else set()
    return may
