"""People and groups, for administrators and auditors to look up: who belongs where, and who says so.

Nothing is changed here: people come from the import, the commands and providers of identity. See design.md section 7.
"""

from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from arap_service.domain.callers import Scope
from arap_service.roster import people
from arap_service.web.asking import cursor_of, searched
from arap_service.web.edge import READING, DeskRoute, visit
from arap_service.web.rendering import render

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 100
_PATH: Final = "/desk/people"


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def people_page(request: Request) -> Response:
    """People by name, and the groups."""
    asked = visit(request)
    asked.require("administrators and auditors", Scope.ADMIN, Scope.AUDIT_READ)
    q, group = searched(request), searched(request, "group")
    found = await people(
        asked.ctx, asked.caller, q=q or None, group=group or None, after=cursor_of(request), limit=PAGE_SIZE
    )

    def href(**choice: str) -> str:
        kept = {"q": q, "group": group, **choice}
        return f"{asked.page.root}{_PATH}?{urlencode({name: value for name, value in kept.items() if value})}"

    policy = asked.ctx.policy.current()
    values: dict[str, Any] = {
        "rows": found.people.items,
        "more": href(cursor=found.people.next_cursor) if found.people.next_cursor else None,
        "groups": [(name, count, policy.groups.get(name, ""), href(group=name)) for name, count in found.groups],
        "q": q,
        "group": group,
    }
    return render("people.html", asked.page, **values)
