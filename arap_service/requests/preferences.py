"""How people want to be told: what the page of a person's own notifications shows and keeps.

A person chooses among the channels and kinds that the administrator offers him, hours in which he is left alone, and
whether he gets single messages or a digest. Nobody can choose an address, and nobody chooses for somebody else.
"""

import re
import zoneinfo
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import time
from functools import cache
from typing import Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import Forbidden, InputInvalid
from arap_service.domain.notices import ASKED_FOR, NoticeKind
from arap_service.domain.quiet import ALWAYS, DIGESTS, Digest, Habits
from arap_service.settings_notifications import ChannelSettings
from arap_service.store import notices, people
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import NoticePreference

_TIME: Final = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
DEFAULT_KINDS: Final = frozenset(NoticeKind) - ASKED_FOR


@dataclass(frozen=True, slots=True)
class Preference:
    """What a person has chosen; no channels chosen means the first one that is for him, None for kinds the usual."""

    channels: frozenset[str] | None = None
    kinds: frozenset[NoticeKind] = DEFAULT_KINDS
    habits: Habits = ALWAYS
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class PreferenceView:
    """A person's preferences as his page shows them; `offered` channels reach him alone."""

    email: str | None
    offered: tuple[str, ...]
    channels: frozenset[str]
    kinds: frozenset[NoticeKind]
    digest: Digest
    digest_at: str
    quiet_from: str
    quiet_until: str
    zone: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen in the form, as text."""

    channels: Collection[str]
    kinds: Collection[str]
    digest: str
    digest_at: str
    quiet_from: str
    quiet_until: str
    zone: str


def preference(session: Session, person_id: str) -> Preference:
    """What this person has chosen, or what holds for everybody who has not."""
    row = notices.preference_of(session, person_id)
    return Preference() if row is None else _read(row)


def channels_for(
    personal: Mapping[str, ChannelSettings], groups: frozenset[str], chosen: frozenset[str] | None
) -> frozenset[str]:
    """The channels that reach somebody: those he chose as far as they are for him, else the first that is."""
    offered = offered_to(personal, groups)
    if chosen is None:
        return frozenset(offered[:1])
    return chosen.intersection(offered)


def offered_to(personal: Mapping[str, ChannelSettings], groups: frozenset[str]) -> tuple[str, ...]:
    """The channels that are for somebody in these groups, in the order of the configuration."""
    return tuple(name for name, each in personal.items() if not each.groups or not each.groups.isdisjoint(groups))


async def own_preferences(ctx: Context, caller: Caller) -> PreferenceView:
    """What the person has chosen.

    Raises:
        Forbidden: The caller is no person.
    """
    person_id, personal = _person(caller), ctx.settings.notifications.personal
    return await ctx.database.read(lambda session: _view(session, person_id, personal))


async def keep_preferences(ctx: Context, caller: Caller, chosen: Chosen) -> None:
    """Keep what the person has chosen.

    Raises:
        Forbidden: The caller is no person.
        InputInvalid: Something in it is not offered, or is no time, or no zone.
    """
    person_id, personal = _person(caller), ctx.settings.notifications.personal
    errors = _faults(chosen)
    now = ctx.clock()

    def work(session: WriteSession) -> None:
        offered = offered_to(personal, people.groups_of(session, person_id))
        wrong = [*errors, *("channels" for each in chosen.channels if each not in offered)]
        if wrong:
            listed = [{"pointer": f"/{field}", "code": "not_allowed"} for field in dict.fromkeys(wrong)]
            raise InputInvalid("The choice is not complete.", errors=listed)
        notices.keep_preference(
            session,
            {
                "person_id": person_id,
                "chosen": {"channels": sorted(chosen.channels), "kinds": sorted(chosen.kinds)},
                "digest": chosen.digest,
                "digest_at": chosen.digest_at,
                "quiet_from": chosen.quiet_from or None,
                "quiet_until": chosen.quiet_until or None,
                "zone": chosen.zone,
                "changed_at": now,
            },
        )

    await ctx.database.write(work)
    ctx.log.info("notice_preferences_changed", person_id=person_id)


@cache
def zones() -> tuple[str, ...]:
    """The names of zones that can be chosen."""
    return tuple(sorted({"UTC", *(name for name in zoneinfo.available_timezones() if "/" in name)}))


def _person(caller: Caller) -> str:
    if caller.person_id is None:
        raise Forbidden
    return caller.person_id


def _view(session: Session, person_id: str, personal: Mapping[str, ChannelSettings]) -> PreferenceView:
    found, groups = preference(session, person_id), people.groups_of(session, person_id)
    row, person = notices.preference_of(session, person_id), people.find_person(session, person_id)
    return PreferenceView(
        email=None if person is None else person.email,
        offered=offered_to(personal, groups),
        channels=channels_for(personal, groups, found.channels),
        kinds=found.kinds,
        digest=found.habits.digest,
        digest_at="08:00" if row is None else row.digest_at,
        quiet_from="" if row is None else row.quiet_from or "",
        quiet_until="" if row is None else row.quiet_until or "",
        zone=found.zone,
    )


def _read(row: NoticePreference) -> Preference:
    try:
        zone = zoneinfo.ZoneInfo(row.zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):  # this machine knows fewer than the one that kept it
        zone = zoneinfo.ZoneInfo("UTC")
    habits = Habits(
        zone=zone,
        digest=next((each for each in DIGESTS if each == row.digest), "none"),
        digest_at=time.fromisoformat(row.digest_at),
        quiet_from=None if row.quiet_from is None else time.fromisoformat(row.quiet_from),
        quiet_until=None if row.quiet_until is None else time.fromisoformat(row.quiet_until),
    )
    kinds = frozenset(kind for kind in NoticeKind if kind in row.chosen["kinds"])
    return Preference(frozenset(row.chosen["channels"]), kinds, habits, row.zone)


def _faults(chosen: Chosen) -> list[str]:
    wrong = [] if all(kind in set(NoticeKind) for kind in chosen.kinds) else ["kinds"]
    wrong += [] if chosen.digest in DIGESTS else ["digest"]
    wrong += [] if chosen.zone in zones() else ["zone"]
    wrong += [] if _is_time(chosen.digest_at) else ["digest_at"]
    for name, value, other in (
        ("quiet_from", chosen.quiet_from, chosen.quiet_until),
        ("quiet_until", chosen.quiet_until, chosen.quiet_from),
    ):
        if bool(value) != bool(other) or (value and not _is_time(value)):
            wrong.append(name)
    return wrong


def _is_time(text: str) -> bool:
    # Other forms of ISO 8601 carry a zone of their own, which no clock on a wall can be compared with.
    return _TIME.fullmatch(text) is not None
