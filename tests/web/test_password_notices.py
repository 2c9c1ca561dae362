"""The owner of an account is told that its password is another one, by a real mail server; OWASP ASVS 5.0, 6.3.7."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arap_service.store.people_tables import Account
from arap_service.web import passwords
from arap_service.web.password_pages import PATH
from tests.clock import FakeClock
from tests.mail import html_of, text_of
from tests.notices import Telling, telling_world
from tests.service import app_for
from tests.web.desk import PASSWORD, QUICK, Browser

pytestmark = pytest.mark.anyio
NEW = ("a kite over the harbour", "rowing on a cold lake")


@pytest.fixture
async def telling(
    service_url: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Telling]:
    """A desk that tells by mail and into a room; Ann and Bob have accounts."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    now, hashed = clock(), QUICK.hash(PASSWORD)
    async with telling_world(tmp_path, service_url, clock, room={}) as made:
        rows = [
            Account(login=name, person_id=name, password_hash=hashed, created_at=now, changed_at=now)
            for name in ("ann", "bob")
        ]
        await made.ctx.database.write(lambda session: session.add_all(rows))
        yield made


async def changed(telling: Telling, *new: str) -> None:
    """Ann gives herself these passwords, one after the other."""
    ann, current = Browser(app_for(telling.ctx)), PASSWORD
    assert (await ann.log_in("ann")).status_code == 303
    for typed in new:
        fields = {"current": current, "new": typed, "again": typed}
        assert (await ann.submit(PATH, seen=await ann.get(PATH), **fields)).status_code == 303
        current = typed
    await ann.client.aclose()


async def test_whoever_changes_his_password_is_told_and_nobody_else_and_no_room(telling: Telling) -> None:
    await changed(telling, NEW[0])
    await telling.notifier.round()
    assert telling.told() == [("ann", "Your password was changed")]
    assert telling.said() == []
    [message] = telling.mail.to("ann@corp.example")
    for text in (text_of(message), html_of(message)):
        assert "https://approvals.example/desk/account" in text
        assert "If you know nothing of it, tell them at once." in text
    for text in (str(message), text_of(message), html_of(message)):
        assert not any(password in text for password in (PASSWORD, NEW[0]))


async def test_he_hears_of_each_change_at_once_whatever_was_chosen_in_his_name(telling: Telling) -> None:
    """Somebody who has his password could have chosen it, to be left alone."""
    await telling.prefer("ann", kinds=[], channels=[], digest="daily", quiet_from="00:00", quiet_until="23:59")
    await changed(telling, *NEW)
    await telling.notifier.round()
    assert telling.told() == [("ann", "Your password was changed")] * 2


async def test_a_change_that_is_refused_is_told_to_nobody(telling: Telling) -> None:
    ann = Browser(app_for(telling.ctx))
    await ann.log_in("ann")
    fields = {"current": "not the password", "new": NEW[0], "again": NEW[0]}
    assert (await ann.submit(PATH, seen=await ann.get(PATH), **fields)).status_code == 403
    await telling.notifier.round()
    assert telling.told() == []
    await ann.client.aclose()
