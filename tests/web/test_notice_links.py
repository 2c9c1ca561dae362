"""What mail scanners do with a message: every link of it fetched with GET and HEAD, by nobody and by a reader."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import func, select

from arap_service.store.tables import AuditEntry, Task, Vote
from tests.clock import FakeClock
from tests.mail import html_of, text_of
from tests.notices import telling_world
from tests.service import app_for, http

pytestmark = pytest.mark.anyio
LINK = re.compile(r"https://approvals\.example[^\s\"<]+")


async def test_scanner_that_fetches_every_link_changes_nothing(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with telling_world(tmp_path, service_url, clock) as telling:
        task_id = await telling.world.pending()
        await telling.notifier.round()
        [message] = telling.mail.to("ann@corp.example")
        links = set(LINK.findall(text_of(message))) | set(LINK.findall(html_of(message)))
        assert links == {
            f"https://approvals.example/desk/requests/{task_id}",
            "https://approvals.example/desk/account/notifications",
        }

        def state(session: Any) -> tuple[Any, ...]:
            rows = [session.exec(select(func.count()).select_from(table)).one() for table in (AuditEntry, Vote)]
            task = session.get(Task, task_id)
            return (*rows, task.status, task.version)

        before = await telling.ctx.database.read(state)
        async with http(app_for(telling.ctx)) as scanner:
            for link in sorted(links):
                for method in ("GET", "HEAD"):
                    answer = await scanner.request(method, link)
                    assert answer.status_code == 303
                    assert answer.headers["location"].startswith("/login")
                assert (await scanner.post(link)).status_code in {403, 405, 415}
        assert await telling.ctx.database.read(state) == before
