"""What an enforcement point may look up before it requests: which fields come from catalogs, and the values in them.

Every call names the denial that it serves, by evaluation id, and sees what may be requested for that denial and nothing
else (ARS-110, ARS-112). The right to look is not the right to submit. Search terms are used and forgotten: no log and
no record has them (ARS-113). Catalog companion of the profile, "Catalogs Document", "Catalog Endpoint".
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.catalogs import Catalog, catalog_tuple, list_items, may_list
from arap_service.domain.errors import ExpiredDenial, Forbidden, InvalidRequest, NotFound
from arap_service.domain.policy import Policy, Question, Template, facts_of
from arap_service.protocol.expressions import ExpressionError, Facts
from arap_service.protocol.sealing import SealBroken
from arap_service.records import recorded_denial
from arap_service.store import tasks

MOST_ITEMS: Final = 100
"""A page is never longer, whatever limit is asked for."""


@dataclass(frozen=True, slots=True)
class CatalogQuery:
    """What is looked up; `scope` holds every other parameter of the call, those that mean nothing included."""

    q: str = ""
    cursor: str | None = None
    limit: int = 20
    scope: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Served:
    """The denial that a call serves: its template, and what conditions read of it."""

    policy: Policy
    template: Template
    facts: Facts


async def catalogs_document(
    ctx: Context, caller: Caller, template_id: str, *, evaluation_id: str | None
) -> dict[str, Any]:
    """The Catalogs Document of a denial whose template has this id.

    Raises:
        RateLimited, Forbidden, InvalidRequest, NotFound, ExpiredDenial: As `look_up`.
    """
    served = await _serve(ctx, caller, evaluation_id)
    if served.template.id != template_id or not served.template.catalogs:
        raise NotFound
    fields: dict[str, Any] = {}
    for pointer, field in served.template.catalogs.items():
        query = urlencode({"evaluation_id": str(evaluation_id)})
        reference: dict[str, Any] = {
            "endpoint": f"{ctx.settings.identifier}/access/v1/catalogs/{field.catalog}?{query}",
            "search_param": "q",
        }
        if field.scope:
            reference["scope_params"] = dict(field.scope)
        fields[pointer] = reference
    return {"fields": fields}


async def look_up(
    ctx: Context, caller: Caller, catalog_id: str, *, evaluation_id: str | None, query: CatalogQuery
) -> dict[str, Any]:
    """A page of a catalog, as far as it may be requested for this denial.

    Raises:
        RateLimited: The client asks more often than it may.
        Forbidden: The caller may look at no catalog, or not at this one for this denial.
        InvalidRequest: No denial is named, a scope parameter is missing, or the cursor belongs to another look-up.
        NotFound: There is no such denial of this client's, or its template knows no such catalog.
        ExpiredDenial: Nothing can be requested for it any more.
    """
    served = await _serve(ctx, caller, evaluation_id)
    if catalog_id not in {field.catalog for field in served.template.catalogs.values()}:
        raise NotFound
    catalog = served.policy.catalogs[catalog_id]
    if not may_list(catalog, served.facts):
        raise Forbidden("This catalog is not open for what was denied.")
    scope = _scope(catalog, query.scope or {})
    seal = _seal(caller, catalog, str(evaluation_id), q=query.q, scope=scope)
    listed = list_items(
        catalog,
        served.facts,
        scope=scope,
        q=query.q,
        after=_place(ctx, query.cursor, seal),
        limit=min(query.limit, MOST_ITEMS),
    )
    answer: dict[str, Any] = {"items": list(listed.items), "total": listed.total}
    if listed.after is not None:  # ARS-111
        sealed = ctx.ring.seal(json.dumps(listed.after).encode(), aad=seal)
        answer["next_cursor"] = base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()
    return answer


async def _serve(ctx: Context, caller: Caller, evaluation_id: str | None) -> _Served:
    caller.require(Scope.CATALOG)  # ARS-110: a right of its own
    ctx.rates.check("catalog", caller.client_id)  # ARS-113
    if not evaluation_id:  # ARS-112
        raise InvalidRequest("The evaluation_id of the denial is required.", pointer="/evaluation_id")
    policy = ctx.policy.current()
    row = await ctx.database.read(lambda session: tasks.find_denial(session, evaluation_id))
    if row is None or (row.caller, row.client_id) != (caller.principal, caller.client_id):
        raise NotFound("There is no such denial.")
    if ctx.clock() >= row.expires_at:
        raise ExpiredDenial
    template = policy.templates.get(row.template_id)
    if template is None:
        raise NotFound
    try:
        about = catalog_tuple(recorded_denial(row, ctx.ring).about, row.binding_members)
        return _Served(policy, template, facts_of(policy, Question(*about, client_id=caller.client_id)))
    except (SealBroken, ExpressionError):
        ctx.log.warning("denial_unreadable", evaluation_id=row.evaluation_id)
        raise NotFound from None


def _scope(catalog: Catalog, given: Mapping[str, str]) -> dict[str, str]:
    for name in catalog.scope:
        if not given.get(name):
            raise InvalidRequest("A scope parameter of this catalog is missing.", pointer=f"/{name}")
    return {name: given[name] for name in catalog.scope}


def _seal(caller: Caller, catalog: Catalog, evaluation_id: str, *, q: str, scope: Mapping[str, str]) -> str:
    """What a cursor is bound to: the caller and everything that he asked but for the length of a page (ARS-111)."""
    asked = [caller.principal, caller.client_id, catalog.id, evaluation_id, q, scope]
    return f"catalog:{hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()}:page"


def _place(ctx: Context, cursor: str | None, seal: str) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        sealed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        label, value = json.loads(ctx.ring.open_(sealed, aad=seal))
    except (ValueError, SealBroken):
        raise InvalidRequest("The cursor does not belong to this look-up.", pointer="/cursor") from None
    return label, value
