"""Who there is and who belongs where, and who says so: for those who answer for it. Nothing is changed here.

People and groups come from the import, from the commands and from providers of identity; see docs/operating.md.
"""

from dataclasses import dataclass
from typing import Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import InvalidRequest
from arap_service.domain.visible import visible
from arap_service.store import roster
from arap_service.store.people_tables import Membership
from arap_service.store.tasks import is_storable
from arap_service.views import Page

_KIND: Final = "people"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """One person: groups with their sources, identities as (who vouches, name), and local accounts."""

    id: str
    name: str
    email: str | None
    is_active: bool
    groups: tuple[tuple[str, str], ...]
    identities: tuple[tuple[str, str], ...]
    accounts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """A page of people, and all groups with how many active people are in each."""

    people: Page[PersonRow]
    groups: tuple[tuple[str, int], ...]


async def people(
    ctx: Context, caller: Caller, *, q: str | None, group: str | None, after: str | None, limit: int
) -> Roster:
    """People by name, those of one group or with a text in their name, id or address.

    Raises:
        Forbidden: The caller is neither administrator nor auditor.
        InvalidRequest: A part of the selection is malformed.
    """
    if not caller.may(Scope.ADMIN):
        caller.require(Scope.AUDIT_READ)
    if not all(is_storable(text) for text in (q, group) if text is not None):
        raise InvalidRequest("The text can be no name.", pointer="/q")
    place = None
    if after is not None:
        name, person_id = read_cursor(after, _KIND, str, str)
        place = (str(name), str(person_id))
        if not all(map(is_storable, place)):
            raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")

    def look(session: Session) -> Roster:
        found = roster.people_page(session, q=q, group=group, after=place, limit=limit + 1)
        shown = found[:limit]
        ids = [person.id for person in shown]
        groups, known, logins = (
            roster.memberships_of(session, ids),
            roster.identities_of_all(session, ids),
            roster.accounts_of_all(session, ids),
        )
        rows = tuple(
            PersonRow(
                id=visible(person.id),
                name=visible(person.name),
                email=None if person.email is None else visible(person.email),
                is_active=person.active,
                groups=tuple((each.group_name, _said_by(each)) for each in groups if each.person_id == person.id),
                identities=tuple((each.iss, each.sub) for each in known if each.person_id == person.id),
                accounts=tuple(each.login for each in logins if each.person_id == person.id and each.active),
            )
            for person in shown
        )
        more = cursor(_KIND, shown[-1].name, shown[-1].id) if len(found) > limit else None
        return Roster(people=Page(rows, more), groups=tuple(roster.group_sizes(session)))

    return await ctx.database.read(look)


def _said_by(membership: Membership) -> str:
    """Who says so: local, or the issuer without the mark of how its claims were read."""
    return membership.source.partition("|")[0]
