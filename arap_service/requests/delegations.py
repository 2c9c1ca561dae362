"""Deciding in somebody's place while he is away: who says so, for how long, for what, and how that ends.

Only entered and ended here; whether one counts is judged at the moment of deciding (`voters.py`): one seat, no chains,
and whatever excludes the one excludes the other..
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pydantic import JsonValue
from sqlmodel import Session

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import ArapError, Forbidden, InvalidRequest, InvalidTaskState, UnknownTask
from arap_service.domain.policy import Policy
from arap_service.policy_source import CHAIN
from arap_service.protocol.arap import format_instant
from arap_service.store import delegations as stored
from arap_service.store import people, tasks
from arap_service.store.database import WriteSession
from arap_service.store.delegation_tables import Delegation

LONGEST: Final = timedelta(days=366)
MOST_OPEN: Final = 20
MOST_LISTED: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be delegated: `deputy_id` decides for `person_id`; no `groups` and no `templates` mean all."""

    person_id: str
    deputy_id: str
    starts_at: datetime
    ends_at: datetime
    groups: Collection[str] = ()
    templates: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationView:
    """A delegation as people see it; `state` is planned, in_force, over or ended."""

    id: str
    person_id: str
    person: str
    deputy_id: str
    deputy: str
    starts_at: datetime
    ends_at: datetime
    groups: tuple[str, ...]
    templates: tuple[str, ...]
    state: str
    created_by: str
    ended_at: datetime | None
    ended_by: str | None


async def delegate(ctx: Context, caller: Caller, wanted: Wanted) -> DelegationView:
    """Let somebody decide in the place of the caller, or of anybody where the caller is an administrator.

    Raises:
        Forbidden: It is neither his own place, nor is he an administrator.
        InvalidRequest: The people, the period, a group or a template is none.
    """

    def work(session: WriteSession) -> DelegationView:
        _require(caller, wanted.person_id)
        return delegate_in(
            session,
            wanted,
            policy=ctx.policy.current(),
            actor=_actor(caller),
            new_id=ctx.new_id("dlg"),
            now=ctx.clock(),
        )

    found = await ctx.database.write(work)
    ctx.log.info("decisions_delegated", delegation_id=found.id)
    return found


def delegate_in(
    session: WriteSession, wanted: Wanted, *, policy: Policy, actor: str, new_id: str, now: datetime
) -> DelegationView:
    """Enter a delegation in the caller's transaction; raises as `delegate`."""
    _check(session, wanted, policy, now=now)
    row = Delegation(
        id=new_id,
        person_id=wanted.person_id,
        deputy_id=wanted.deputy_id,
        starts_at=wanted.starts_at,
        ends_at=wanted.ends_at,
        groups=sorted(set(wanted.groups)),
        templates=sorted(set(wanted.templates)),
        created_at=now,
        created_by=actor,
    )
    session.add(row)
    session.flush()
    _record(session, "delegation_made", row, actor, now=now)
    return _views(session, [row], now=now)[0]


async def delegations(
    ctx: Context, caller: Caller, *, everybody: bool = False, with_past: bool = False
) -> Sequence[DelegationView]:
    """The caller's own delegations and those to him; an administrator may see everybody's.

    Raises:
        Forbidden: He is no administrator and wants everybody's, or nobody that is known here.
    """
    if everybody:
        caller.require(Scope.ADMIN)
    elif caller.person_id is None:
        raise Forbidden("Only people have delegations.")
    whose = None if everybody else caller.person_id
    return await ctx.database.read(
        lambda session: delegations_in(session, person_id=whose, with_past=with_past, now=ctx.clock())
    )


def delegations_in(
    session: Session, *, person_id: str | None, with_past: bool, now: datetime
) -> Sequence[DelegationView]:
    """The delegations of or to a person, or all; the latest first."""
    found = stored.listed(session, person_id=person_id, now=now, with_past=with_past, limit=MOST_LISTED)
    return _views(session, found, now=now)


async def end_delegation(ctx: Context, caller: Caller, delegation_id: str) -> DelegationView:
    """End a delegation at once, as the one or the other of its people, or as an administrator.

    Raises:
        UnknownTask: There is no such delegation for this caller.
        InvalidTaskState: It is over already.
    """

    def work(session: WriteSession) -> DelegationView | ArapError:
        row = stored.find(session, delegation_id) if tasks.is_storable(delegation_id) else None
        is_own = row is not None and caller.person_id in {row.person_id, row.deputy_id}
        if row is None or not (is_own or caller.may(Scope.ADMIN)):
            raise UnknownTask("There is no such delegation.")
        return end_in(session, delegation_id, actor=_actor(caller), now=ctx.clock())

    found = await ctx.database.write(work)
    if isinstance(found, ArapError):
        raise found
    ctx.log.info("delegation_ended", delegation_id=delegation_id)
    return found


def end_in(session: WriteSession, delegation_id: str, *, actor: str, now: datetime) -> DelegationView | ArapError:
    """End a delegation in the caller's transaction; why not is returned."""
    row = stored.end(session, delegation_id, at=now, by=actor)
    if row is None:
        is_known = tasks.is_storable(delegation_id) and stored.find(session, delegation_id) is not None
        known = InvalidTaskState("The delegation is over.", current="over", version=1)
        return known if is_known else UnknownTask("There is no such delegation.")
    _record(session, "delegation_ended", row, actor, now=now)
    return _views(session, [row], now=now)[0]


def _require(caller: Caller, person_id: str) -> None:
    if caller.person_id != person_id and not caller.may(Scope.ADMIN):
        raise Forbidden("Nobody but an administrator delegates the decisions of others.")


def _check(session: Session, wanted: Wanted, policy: Policy, *, now: datetime) -> None:
    for name, person_id in (("person", wanted.person_id), ("deputy", wanted.deputy_id)):
        found = people.find_person(session, person_id) if tasks.is_storable(person_id) else None
        if found is None or not found.active:
            raise InvalidRequest("There is no such active person.", pointer=f"/{name}")
    if wanted.person_id == wanted.deputy_id:
        raise InvalidRequest("Nobody stands in for himself.", pointer="/deputy")
    if wanted.starts_at.tzinfo is None or wanted.ends_at.tzinfo is None:
        raise InvalidRequest("A moment needs its time zone.", pointer="/starts_at")
    if not wanted.starts_at < wanted.ends_at or wanted.ends_at <= now:
        raise InvalidRequest("The end comes after the beginning, and after now.", pointer="/ends_at")
    if wanted.ends_at - max(wanted.starts_at, now) > LONGEST:
        raise InvalidRequest(f"A delegation lasts {LONGEST.days} days at most.", pointer="/ends_at")
    unknown = sorted(set(wanted.templates) - policy.templates.keys())
    if unknown:
        raise InvalidRequest("The rules have no template of this name.", pointer="/templates")
    own = people.groups_of(session, wanted.person_id)
    if not own.issuperset(wanted.groups):
        raise InvalidRequest("The person is not in this group.", pointer="/groups")
    if stored.open_count(session, wanted.person_id, now=now) >= MOST_OPEN:
        raise InvalidRequest(f"A person has {MOST_OPEN} open delegations at most.", pointer="/person")


def _record(session: WriteSession, kind: str, row: Delegation, actor: str, *, now: datetime) -> None:
    detail: dict[str, JsonValue] = {
        "delegation": row.id,
        "person": row.person_id,
        "deputy": row.deputy_id,
        "from": format_instant(row.starts_at),
        "until": format_instant(row.ends_at),
        "groups": [*row.groups],
        "templates": [*row.templates],
    }
    audit.append(session, CHAIN, kind=kind, actor=actor, detail=detail, now=now)


def _views(session: Session, rows: Sequence[Delegation], *, now: datetime) -> list[DelegationView]:
    names = people.names_of(session, {row.person_id for row in rows} | {row.deputy_id for row in rows})
    return [
        DelegationView(
            id=row.id,
            person_id=row.person_id,
            person=names.get(row.person_id, row.person_id),
            deputy_id=row.deputy_id,
            deputy=names.get(row.deputy_id, row.deputy_id),
            starts_at=row.starts_at,
            ends_at=row.ends_at,
            groups=tuple(row.groups),
            templates=tuple(row.templates),
            state=_state(row, now=now),
            created_by=row.created_by,
            ended_at=row.ended_at,
            ended_by=row.ended_by,
        )
        for row in rows
    ]


def _state(row: Delegation, *, now: datetime) -> str:
    if row.ended_at is not None:
        return "ended"
    if now >= row.ends_at:
        return "over"
    return "planned" if now < row.starts_at else "in_force"


def _actor(caller: Caller) -> str:
    return caller.principal if caller.person_id is None else f"person:{caller.person_id}"
