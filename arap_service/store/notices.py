"""Every statement about announcements and notices: each announcement once, each person once, one sender at a time.

A lease ends by itself, so a sender that dies holds nothing up for long; what it was sending is then sent again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, update
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement, Notice, NoticePreference
from arap_service.store.people_tables import Person
from arap_service.store.rows import inserting


@dataclass(frozen=True, slots=True)
class NoticeBacklog:
    """Notices that are not done: waiting in all, of these the ones that failed before, and those given up."""

    waiting: int
    failing: int
    dead: int
    failing_channels: tuple[str, ...]


def add_announcement(session: WriteSession, row: Mapping[str, Any]) -> bool:
    """Keep an announcement unless there is one with its key; whether it is new."""
    made = inserting(session, Announcement).values(**row).on_conflict_do_nothing(index_elements=["key"])
    return session.execute(made.returning(col(Announcement.id))).first() is not None


def open_announcements(session: Session, *, limit: int) -> Sequence[Announcement]:
    """Announcements whose notices are not written yet, the oldest first."""
    found = select_rows(Announcement).where(col(Announcement.settled_at).is_(None))
    return session.exec(found.order_by(col(Announcement.at), col(Announcement.id)).limit(limit)).all()


def settle(session: WriteSession, announcement_id: str, *, now: datetime) -> bool:
    """Close an announcement; whether this did it."""
    closed = (
        update(Announcement)
        .where(col(Announcement.id) == announcement_id, col(Announcement.settled_at).is_(None))
        .values(settled_at=now)
        .returning(col(Announcement.id))
    )
    return session.execute(closed).first() is not None


def add_notice(session: WriteSession, row: Mapping[str, Any]) -> None:
    """Keep a notice unless this person has one of this announcement by this channel."""
    made = inserting(session, Notice).values(**row)
    session.execute(made.on_conflict_do_nothing(index_elements=["announcement_id", "person_id", "channel"]))


def told_of(session: Session, task_id: str, kind: str) -> frozenset[str]:
    """The people who have a notice of this kind about this task, whatever became of it; the empty name is a room."""
    found = (
        select(col(Notice.person_id))
        .join(Announcement, col(Announcement.id) == col(Notice.announcement_id))
        .where(col(Announcement.task_id) == task_id, col(Announcement.kind) == kind)
    )
    return frozenset(session.execute(found).scalars())


# Sending


def lease_due_notices(
    session: WriteSession, *, owner: str, now: datetime, until: datetime, limit: int, not_by: Collection[str] = ()
) -> Sequence[Notice]:
    """Take at most `limit` due notices for `owner`, those of one person together, none by the channels in `not_by`."""
    free = or_(col(Notice.lease_until).is_(None), col(Notice.lease_until) <= now)
    due = (
        select(col(Notice.id))
        .where(col(Notice.status) == "pending", col(Notice.next_at) <= now, free)
        .where(col(Notice.channel).not_in(list(not_by)))
        .order_by(col(Notice.next_at), col(Notice.person_id), col(Notice.channel), col(Notice.id))
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(
        update(Notice)
        .where(col(Notice.id).in_(due))
        .values(lease_owner=owner, lease_until=until, version=col(Notice.version) + 1)
        .returning(Notice),
        execution_options={"populate_existing": True},
    ).all()


def finish_notice(session: WriteSession, notice: Notice, **values: Any) -> bool:
    """Record what became of a notice, if the lease under which it was sent is still held; whether it was."""
    done = (
        update(Notice)
        .where(
            col(Notice.id) == notice.id,
            col(Notice.version) == notice.version,
            col(Notice.lease_owner) == notice.lease_owner,
            col(Notice.status) == "pending",
        )
        .values(lease_owner=None, lease_until=None, version=notice.version + 1, **values)
        .returning(col(Notice.id))
    )
    return session.execute(done).first() is not None


def announcements_of(session: Session, notices: Sequence[Notice]) -> dict[str, Announcement]:
    """What these notices tell about, by the id of the announcement."""
    ids = {notice.announcement_id for notice in notices}
    found = session.exec(select_rows(Announcement).where(col(Announcement.id).in_(ids)))
    return {row.id: row for row in found}


# People and what they prefer


def active_people(session: Session) -> Sequence[Person]:
    """Everybody who may be told at all."""
    return session.exec(select_rows(Person).where(col(Person.active)).order_by(col(Person.id))).all()


def preference_of(session: Session, person_id: str) -> NoticePreference | None:
    """How this person wants to be told, if he has said so."""
    return session.get(NoticePreference, person_id)


def keep_preference(session: WriteSession, row: Mapping[str, Any]) -> None:
    """Keep what a person prefers in place of what he preferred before."""
    made = inserting(session, NoticePreference).values(**row)
    changed = {name: made.excluded[name] for name in row if name != "person_id"}
    session.execute(made.on_conflict_do_update(index_elements=["person_id"], set_=changed))


# For operators


def notices_page(
    session: Session, *, status: str | None, after: tuple[datetime, str] | None, limit: int
) -> Sequence[tuple[Notice, Announcement]]:
    """At most `limit` notices with what they tell about, the newest first, after a place in that order."""
    found = select_rows(Notice, Announcement).join(Announcement, col(Announcement.id) == col(Notice.announcement_id))
    if status is not None:
        found = found.where(Notice.status == status)
    if after is not None:
        at, notice_id = after
        beyond = and_(col(Notice.created_at) == at, col(Notice.id) < notice_id)
        found = found.where(or_(col(Notice.created_at) < at, beyond))
    return session.exec(found.order_by(col(Notice.created_at).desc(), col(Notice.id).desc()).limit(limit)).all()


def find_notice(session: Session, notice_id: str) -> tuple[Notice, Announcement] | None:
    """One notice with what it tells about."""
    notice = session.get(Notice, notice_id)
    return None if notice is None else (notice, session.get_one(Announcement, notice.announcement_id))


def restart_notice(session: WriteSession, notice_id: str, *, now: datetime) -> Notice | None:
    """Make a notice due now, its schedule beginning anew; None when there is none or it is just being sent."""
    free = or_(col(Notice.lease_until).is_(None), col(Notice.lease_until) <= now)
    return session.scalars(
        update(Notice)
        .where(col(Notice.id) == notice_id, free)
        .values(
            status="pending",
            next_at=now,
            finished_at=None,
            restarted_at=now,
            earlier_attempts=col(Notice.attempts),
            lease_owner=None,
            lease_until=None,
            version=col(Notice.version) + 1,
        )
        .returning(Notice),
        execution_options={"populate_existing": True},
    ).one_or_none()


def notice_backlog(session: Session) -> NoticeBacklog:
    """What is still to be told, what fails, and what was given up."""
    rows = session.execute(
        select(col(Notice.status), col(Notice.channel), func.count(), func.count(col(Notice.last_error)))
        .where(col(Notice.status).in_(("pending", "dead")))
        .group_by(col(Notice.status), col(Notice.channel))
    ).all()
    waiting = sum(count for status, _, count, _ in rows if status == "pending")
    failing = sum(failed for status, _, _, failed in rows if status == "pending")
    dead = sum(count for status, _, count, _ in rows if status == "dead")
    channels = sorted({channel for status, channel, _, failed in rows if status == "dead" or failed})
    return NoticeBacklog(waiting, failing, dead, tuple(channels))


def forget_notices(session: WriteSession, *, before: datetime) -> None:
    """Remove what was announced before then and is not about a request that is still kept."""
    session.execute(delete(Notice).where(_of(before), col(Notice.status) != "pending"))
    session.execute(
        delete(Announcement).where(
            col(Announcement.at) < before,
            col(Announcement.settled_at).is_not(None),
            ~select(col(Notice.id)).where(col(Notice.announcement_id) == col(Announcement.id)).exists(),
        )
    )


def _of(before: datetime) -> Any:
    return col(Notice.announcement_id).in_(select(col(Announcement.id)).where(col(Announcement.at) < before))
