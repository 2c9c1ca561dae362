"""Tells people: turns announcements into notices for whom they concern, and sends what is due.

At most one notice for each announcement, person and channel; sent at least once where the sender dies between sending
and recording. Whom it concerns is judged when the notice is written and again right before it is sent, so nobody is
told of what he could no longer do. Quiet hours and digests are in `domain/quiet.py`, retries in `domain/delivery.py`,
whom it concerns in `requests/recipients.py`. A failure never touches the request. Design.md section 7.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import anyio
from pydantic import JsonValue
from sqlmodel import Session

from arap_service import audit
from arap_service.channels import NotSent, Post, Poster
from arap_service.context import Context
from arap_service.domain.delivery import Blocked, Dead, DeliveryState, Retry, Unreachable, after_attempt
from arap_service.domain.notices import OF_ONES_OWN, URGENT, NoticeKind
from arap_service.domain.quiet import ALWAYS, after_quiet, moment_for
from arap_service.notice_texts import Line, line_of, message_of
from arap_service.requests.announcing import NOTICES
from arap_service.requests.preferences import Preference, channels_for, preference
from arap_service.requests.recipients import Recipient, recipients
from arap_service.settings_notifications import ChannelSettings
from arap_service.store import notices, people, tasks
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement, Notice

ROOM: Final = ""
"""The person of a notice that goes to whoever reads a channel."""
CHAIN: Final = "configuration"
ACCOUNT: Final = "/desk/account/notifications"
_BATCH: Final = 20
_AT_ONCE: Final = 40
_TO_ONE_CHANNEL: Final = 8
_LEASE_MARGIN: Final = timedelta(seconds=20)
_MOST_OF_A_DIGEST: Final = 50


@dataclass(frozen=True, slots=True)
class _Planned:
    """A notice that is to be written: to whom, by which channel, when."""

    person_id: str
    channel: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Envelope:
    """Notices that go out as one message, opened; those in `idle` concern nobody any more and do not go out."""

    channel: str
    person_id: str
    email: str | None
    preference: Preference
    notices: tuple[Notice, ...]
    lines: tuple[Line, ...]
    idle: tuple[Notice, ...]


class Notifier:
    """Tells what is announced; any number of notifiers may work on one database."""

    def __init__(
        self,
        ctx: Context,
        *,
        post: Post | None = None,
        jitter: Callable[[], float] = random.random,
        poll_seconds: float = 2.0,
    ) -> None:
        self._ctx = ctx
        self._post = post or Poster()
        self._jitter = jitter
        self._poll_seconds = poll_seconds
        self._owner = ctx.new_id("notifier")
        self._sending: Counter[str] = Counter()

    async def run(self) -> None:
        """Tell until cancelled; one slow channel holds up no other."""
        with self._ctx.database.subscribe(NOTICES) as subscription:
            async with anyio.create_task_group() as group:
                while True:
                    try:
                        await self.settle()
                        envelopes = await self._lease() if self._sending.total() < _AT_ONCE else []
                    except Exception:  # the top of a worker loop
                        self._ctx.log.exception("round_failed", loop="notifier")
                        envelopes = []
                    for envelope in envelopes:
                        group.start_soon(self._deliver, envelope)
                    if not envelopes:
                        await subscription.wait(self._poll_seconds)

    async def round(self) -> int:
        """Tell what is due now; how many messages were tried."""
        await self.settle()
        count = 0
        while envelopes := await self._lease():
            async with anyio.create_task_group() as group:
                for envelope in envelopes:
                    group.start_soon(self._deliver, envelope)
            count += sum(bool(envelope.notices) for envelope in envelopes)
        return count

    async def settle(self) -> int:
        """Write the notices of what was announced; how many announcements were worked off."""
        count = 0
        while found := await self._ctx.database.read(self._plans):
            for told, planned in found:
                count += await self._ctx.database.write(partial(self._settle, told=told, planned=planned))
        return count

    def _channels(self) -> Mapping[str, ChannelSettings]:
        return self._ctx.settings.notifications.channels

    def _plans(self, session: Session) -> list[tuple[Announcement, list[_Planned]]]:
        found = notices.open_announcements(session, limit=_BATCH)
        return [(told, self._plan(session, told)) for told in found]

    def _plan(self, session: Session, told: Announcement) -> list[_Planned]:
        now, kind = self._ctx.clock(), NoticeKind(told.kind)
        channels = {name: each for name, each in self._channels().items() if not each.kinds or kind in each.kinds}
        personal = {name: each for name, each in channels.items() if each.is_personal}
        concerned = recipients(self._ctx, session, told)
        planned = [
            _Planned(ROOM, name, now)
            for name, each in channels.items()
            if name not in personal and kind not in OF_ONES_OWN
            if any(_is_for(each, recipient) for recipient in concerned)
        ]
        for recipient in concerned:
            wishes = preference(session, recipient.person.id)
            if _wants(wishes, kind) and recipient.person.email:
                at = now if kind in URGENT else moment_for(wishes.habits, now)
                names = sorted(channels_for(personal, recipient.groups, wishes.channels))
                if kind in OF_ONES_OWN and not names:
                    names = sorted(channels_for(personal, recipient.groups, None))
                planned += [_Planned(recipient.person.id, name, at) for name in names]
        return planned

    def _settle(self, session: WriteSession, *, told: Announcement, planned: Sequence[_Planned]) -> bool:
        now = self._ctx.clock()
        heard: frozenset[str] = frozenset()
        if told.task_id is not None:
            # One after the other for each request, so that two announcements of one thing do not miss each other.
            if tasks.find_task(session, told.task_id, for_update=True) is None:
                return False
            if told.kind == NoticeKind.REQUEST_WAITING:
                heard = notices.told_of(session, told.task_id, told.kind)
        if not notices.settle(session, told.id, now=now):
            return False
        for each in planned:
            if each.person_id not in heard:
                row = {
                    "id": self._ctx.new_id("ntc"),
                    "announcement_id": told.id,
                    "person_id": each.person_id,
                    "channel": each.channel,
                    "status": "pending",
                    "version": 1,
                    "attempts": 0,
                    "earlier_attempts": 0,
                    "created_at": now,
                    "next_at": each.at,
                }
                notices.add_notice(session, row)
        return True

    async def _lease(self) -> list[Envelope]:
        ctx, now = self._ctx, self._ctx.clock()
        longest = max((each.timeout_seconds for each in self._channels().values()), default=0.0)
        until = now + timedelta(seconds=longest) + _LEASE_MARGIN
        crowded = [name for name, count in self._sending.items() if count >= _TO_ONE_CHANNEL]
        leased = await ctx.database.write(
            lambda session: notices.lease_due_notices(
                session, owner=self._owner, now=now, until=until, limit=_MOST_OF_A_DIGEST, not_by=crowded
            )
        )
        envelopes = await ctx.database.read(lambda session: self._opened(session, leased)) if leased else []
        self._sending.update(envelope.channel for envelope in envelopes)
        return envelopes

    def _opened(self, session: Session, leased: Sequence[Notice]) -> list[Envelope]:
        told = notices.announcements_of(session, leased)
        bundles: dict[tuple[str, ...], list[Notice]] = {}
        for notice in leased:
            wishes = Preference() if notice.person_id == ROOM else preference(session, notice.person_id)
            alone = wishes.habits.digest == "none" or told[notice.announcement_id].kind in URGENT
            key = (notice.channel, notice.person_id, *((notice.id,) if alone else ()))
            bundles.setdefault(key, []).append(notice)
        concerned = {key: recipients(self._ctx, session, each) for key, each in told.items()}
        return [self._envelope(session, bundle, told, concerned) for bundle in bundles.values()]

    def _envelope(
        self,
        session: Session,
        bundle: Sequence[Notice],
        told: Mapping[str, Announcement],
        concerned: Mapping[str, Sequence[Recipient]],
    ) -> Envelope:
        first, settings = bundle[0], self._ctx.settings
        person = None if first.person_id == ROOM else people.find_person(session, first.person_id)
        wishes = Preference() if person is None else preference(session, person.id)
        wanted = [
            each
            for each in bundle
            if self._concerns(each, told[each.announcement_id], concerned[each.announcement_id], wishes)
        ]
        lines = []
        for notice in wanted:
            about = told[notice.announcement_id]
            task = None if about.task_id is None else tasks.find_task(session, about.task_id)
            lines.append(line_of(about, task, base=settings.identifier, ring=self._ctx.ring))
        return Envelope(
            channel=first.channel,
            person_id=first.person_id,
            email=None if person is None else person.email,
            preference=wishes,
            notices=tuple(wanted),
            lines=tuple(lines),
            idle=tuple(each for each in bundle if each not in wanted),
        )

    def _concerns(self, notice: Notice, told: Announcement, found: Sequence[Recipient], wishes: Preference) -> bool:
        channel = self._channels().get(notice.channel)
        if notice.person_id == ROOM:
            return any(channel is None or _is_for(channel, recipient) for recipient in found)
        return _wants(wishes, NoticeKind(told.kind)) and any(each.person.id == notice.person_id for each in found)

    async def _deliver(self, envelope: Envelope) -> None:
        try:
            outcome: NotSent | None = None
            if envelope.notices:
                self._ctx.checkpoint("notifier.before_send")
                outcome = await self._send(envelope)
                self._ctx.checkpoint("notifier.after_send")
            await self._ctx.database.write(partial(self._record, envelope=envelope, outcome=outcome))
            self._count(envelope, outcome)
        except Exception:  # the top of a worker; the lease ends and it is tried again
            self._ctx.log.exception("notice_attempt_lost", channel=envelope.channel)
        finally:
            self._sending[envelope.channel] -= 1
            if not self._sending[envelope.channel]:
                del self._sending[envelope.channel]

    async def _send(self, envelope: Envelope) -> NotSent | None:
        channel = self._channels().get(envelope.channel)
        if channel is None:
            return NotSent("no_channel", is_final=True)
        base = self._ctx.settings.identifier
        message = message_of(
            envelope.lines,
            zone=envelope.preference.habits.zone,
            preferences=None if envelope.person_id == ROOM else base + ACCOUNT,
        )
        return await self._post(channel, envelope.email, message)

    def _count(self, envelope: Envelope, outcome: NotSent | None) -> None:
        if not envelope.notices:
            return
        code = "sent" if outcome is None else outcome.code
        self._ctx.metrics.told(envelope.channel, "sent" if outcome is None else "failed")
        ids = [notice.id for notice in envelope.notices]
        self._ctx.log.info("notice_attempted", channel=envelope.channel, notice_ids=ids, outcome=code)

    def _record(self, session: WriteSession, *, envelope: Envelope, outcome: NotSent | None) -> None:
        now, message = self._ctx.clock(), self._ctx.new_id("msg")
        for notice in envelope.idle:
            notices.finish_notice(session, notice, status="dropped", finished_at=now)
        told = notices.announcements_of(session, envelope.notices)
        for notice in envelope.notices:
            about = told[notice.announcement_id]
            values = self._outcome(notice, about, envelope.preference, outcome, now=now)
            held = notices.finish_notice(session, notice, message=message if outcome is None else None, **values)
            if held and outcome is not None and (notice.attempts == 0 or values["status"] == "dead"):
                _note(session, notice, about, outcome.code, status=values["status"], now=now)

    def _outcome(
        self, notice: Notice, told: Announcement, wishes: Preference, outcome: NotSent | None, *, now: datetime
    ) -> dict[str, Any]:
        attempts = notice.attempts + 1
        if outcome is None:
            return {"status": "sent", "attempts": attempts, "finished_at": now, "last_error": None}
        state = DeliveryState(attempts - notice.earlier_attempts, now)  # the number of attempts ends it, not the hours
        fault = Blocked(outcome.code) if outcome.is_final else Unreachable(outcome.code)
        decided = after_attempt(state, fault, now=now, jitter=self._jitter())
        if isinstance(decided, Retry):
            habits = ALWAYS if told.kind in URGENT else wishes.habits
            again = after_quiet(habits, decided.at)
            return {"status": "pending", "attempts": attempts, "next_at": again, "last_error": outcome.code}
        assert isinstance(decided, Dead)  # noqa: S101  # there is no other end without an answer
        return {"status": "dead", "attempts": attempts, "finished_at": now, "last_error": outcome.code}


def _wants(wishes: Preference, kind: NoticeKind) -> bool:
    return kind in wishes.kinds or kind in OF_ONES_OWN


def _is_for(channel: ChannelSettings, recipient: Recipient) -> bool:
    return not channel.groups or not channel.groups.isdisjoint(recipient.groups)


def _note(session: WriteSession, notice: Notice, told: Announcement, code: str, *, status: str, now: datetime) -> None:
    """That somebody could not be told goes into the record of the request, once when it begins and once at the end."""
    detail: dict[str, JsonValue] = {
        "notice": notice.id,
        "about": told.kind,
        "channel": notice.channel,
        "attempts": notice.attempts + 1,
        "error": code,
    }
    kind = "notice_given_up" if status == "dead" else "notice_failed"
    audit.append(session, told.task_id or CHAIN, kind=kind, actor="notifier", detail=detail, now=now)
