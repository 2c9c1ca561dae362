"""The desk of the tests: a database on each engine, a clock that stands still, three people."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.web import passwords
from tests.clock import FakeClock
from tests.service import app_for, service_context, settings_for
from tests.web.desk import QUICK, Browser, add_person
from tests.web.policy import POLICY


@pytest.fixture
async def context(
    service_url: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Context]:
    """A context with the desk's policy; Grace and Linus are maintainers, Olga is not, Ada asks."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock) as opened:
        add_person(opened, "grace", name="Grace Hopper", groups=("maintainers", "treasurers"))
        add_person(opened, "linus", name="Linus Example", groups=("maintainers",))
        add_person(opened, "olga", name="Olga Outside")
        add_person(opened, "ada", name="Ada Asker", groups=("maintainers",), identities=("https://id.example|ada",))
        yield opened


@pytest.fixture
def app(context: Context) -> FastAPI:
    """The application, without background work."""
    return app_for(context)


@pytest.fixture
async def browser(app: FastAPI) -> AsyncIterator[Browser]:
    """A browser that nobody is logged in to."""
    fresh = Browser(app)
    yield fresh
    await fresh.client.aclose()


@pytest.fixture
async def grace(app: FastAPI) -> AsyncIterator[Browser]:
    """The browser of a maintainer who is logged in."""
    hers = Browser(app)
    assert (await hers.log_in("grace")).status_code == 303
    yield hers
    await hers.client.aclose()


@pytest.fixture
async def linus(app: FastAPI) -> AsyncIterator[Browser]:
    """The browser of a second maintainer who is logged in."""
    his = Browser(app)
    assert (await his.log_in("linus")).status_code == 303
    yield his
    await his.client.aclose()
