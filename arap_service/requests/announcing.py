"""Says that people are to be told of something, in the transaction that causes it: the one place that does.

Whom exactly is found out when it is sent, so that whoever may not decide any more hears nothing (design.md section 7).
Nothing of what was asked for is kept here. Where no channel is configured nobody is told, and nothing is written.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

from arap_service.context import Context
from arap_service.domain.notices import NoticeKind
from arap_service.settings_notifications import NotificationSettings
from arap_service.store import notices
from arap_service.store.database import WriteSession
from arap_service.store.tables import Task

NOTICES: Final = "notices"
"""Topic that is rung when there is something to tell."""


def announce(
    ctx: Context,
    session: WriteSession,
    kind: NoticeKind,
    task: Task | None,
    *,
    now: datetime,
    about: str = "",
    item: int = 0,
    step: str | None = None,
    people: Collection[str] = (),
    groups: Collection[str] = (),
    actor: str | None = None,
) -> bool:
    """Have people told; whether this is new and somebody can be.

    `about` tells one announcement of a kind about a task from the next, such as the number of a reminder: of the same
    there is one at most, however often and by however many it is announced. Of a kind that goes to deciders `people`
    (ids of persons) and `groups` choose among those who may decide; any other goes to those whom they name. `actor`, as
    the audit writes him (`person:…`), is not told what he did himself.
    """
    if not ctx.settings.notifications.channels:
        return False
    subject = "" if task is None else task.id
    row = {
        "id": ctx.new_id("ann"),
        "key": ":".join((kind, subject, str(item), step or "", about)),
        "kind": kind.value,
        "task_id": None if task is None else task.id,
        "item": item,
        "step_id": step,
        "people": sorted(people),
        "groups": sorted(groups),
        "actor": actor,
        "at": now,
        "settled_at": None,
    }
    return _add(session, row)


def announce_password(
    session: WriteSession,
    settings: NotificationSettings,
    person_id: str,
    *,
    new_id: Callable[[str], str],
    now: datetime,
) -> None:
    """Have somebody told that the password of his account is another one; he hears of it too where he did it himself.

    Every change is an announcement of its own. It takes what a command has as well, which opens no service.
    """
    if not settings.channels:
        return
    told = new_id("ann")
    row = {
        "id": told,
        "key": f"{NoticeKind.PASSWORD_CHANGED}:{told}",
        "kind": NoticeKind.PASSWORD_CHANGED.value,
        "task_id": None,
        "item": 0,
        "step_id": None,
        "people": [person_id],
        "groups": [],
        "actor": None,
        "at": now,
        "settled_at": None,
    }
    _add(session, row)


def _add(session: WriteSession, row: Mapping[str, Any]) -> bool:
    if not notices.add_announcement(session, row):
        return False
    session.on_commit(NOTICES)
    return True
