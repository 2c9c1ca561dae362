"""What somebody at the desk may do beside deciding, by the groups that he is in now, and which pages that opens.

The configuration names the groups (`desk`); a part that names none is open to nobody. Whether somebody may decide a
request is judged elsewhere, for each request. See design.md section 7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from arap_service.context import Context
from arap_service.domain.callers import Scope
from arap_service.settings_parts import DeskSettings
from arap_service.store.people import groups_of
from arap_service.web.sessions import Session

DECIDING: Final = frozenset([Scope.APPROVAL_RESOLVE, Scope.APPROVAL_REVOKE])


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the desk; `needs` are the rights of which one opens it, none for everybody who is logged in.

    `below` are other addresses that belong to it.
    """

    path: str
    label: str
    needs: frozenset[Scope] = frozenset()
    below: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A link of the menu; `current` is what `aria-current` says of it: page, true (somewhere below it) or nothing."""

    path: str
    label: str
    current: str | None


PLACES: Final = (
    Place("/desk", "Requests", below=("/desk/requests/",)),
    Place("/desk/approvals", "In force"),
    Place("/desk/my", "My requests"),
    Place("/desk/absence", "Absence"),
    Place("/desk/reports", "Reports", frozenset([Scope.ADMIN, Scope.AUDIT_READ])),
    Place("/desk/people", "People", frozenset([Scope.ADMIN, Scope.AUDIT_READ])),
    Place("/desk/audit", "Audit trail", frozenset([Scope.AUDIT_READ])),
    Place("/desk/deliveries", "Deliveries", frozenset([Scope.OPERATE, Scope.ADMIN])),
    Place("/desk/notices", "Notices", frozenset([Scope.OPERATE, Scope.ADMIN])),
    Place("/desk/reviews", "Emergencies", frozenset({Scope.APPROVAL_READ, Scope.ADMIN})),
    Place("/desk/rules", "Standing rules", frozenset({Scope.APPROVAL_READ, Scope.ADMIN})),
)
SIMULATOR: Final = Place("/desk/simulator", "Simulator", frozenset([Scope.ADMIN]))


async def rights_of(ctx: Context, session: Session | None) -> frozenset[Scope]:
    """What the person of a browser session may do at this moment; nothing where nobody is logged in."""
    if session is None:
        return frozenset()
    desk = ctx.settings.desk
    if not _named(desk):
        return granted(desk, ())
    return granted(desk, await ctx.database.read(partial(groups_of, person_id=session.person_id)))


def granted(desk: DeskSettings, groups: Iterable[str]) -> frozenset[Scope]:
    """The rights that membership in `groups` gives."""
    own = frozenset(groups)
    rights = set(DECIDING)
    for named, scope in (
        (desk.operators, Scope.OPERATE),
        (desk.auditors, Scope.AUDIT_READ),
        (desk.administrators, Scope.ADMIN),
    ):
        if own & named:
            rights.add(scope)
    if desk.readers is None or own & desk.readers:
        rights.add(Scope.APPROVAL_READ)
    return frozenset(rights)


def places_of(ctx: Context) -> Sequence[Place]:
    """The parts that this desk has."""
    return PLACES if ctx.rehearsal is None else (*PLACES, SIMULATOR)


def menu_of(rights: frozenset[Scope], path: str, *, places: Sequence[Place] = PLACES) -> tuple[MenuEntry, ...]:
    """The links that somebody with these rights can follow, on the page at `path`."""
    return tuple(
        MenuEntry(place.path, place.label, _current(place, path))
        for place in places
        if not place.needs or place.needs & rights
    )


def _named(desk: DeskSettings) -> frozenset[str]:
    return desk.operators | desk.auditors | desk.administrators | (desk.readers or frozenset())


def _current(place: Place, path: str) -> str | None:
    if path == place.path:
        return "page"
    below = place.below or (place.path + "/",)
    return "true" if path.startswith(below) else None
