"""Use case: answer searches: who may do this, to what, and what may be done.

The candidates are the entities and actions that the rules file lists, and each is judged by the same rules as an
evaluation of it would be, with the same facts: whatever a search returns is permitted when asked about by itself, and
what would need an approval is not returned. Where another decision point stands before the rules, it is the one that
searches, and what the rules deny in so many words is taken out. Of the entity that is searched for only the type
counts; its id and its properties are ignored, because a candidate has its own. Long answers come in pages. Nothing is
stored.
AuthZEN Authorization API, "Search APIs".
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import anyio.lowlevel

from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import InvalidRequest, SearchUnsupported, UpstreamFailed
from arap_service.domain.policy import Permit, Policy, Question, judge
from arap_service.domain.upstream import is_mandatory
from arap_service.evaluation import refuse_inexact
from arap_service.protocol.authzen import ActionSearch, InvalidShape, Page, ResourceSearch, SubjectSearch, Wire, parse
from arap_service.protocol.canonical import Tuple4
from arap_service.protocol.sealing import SealBroken
from arap_service.upstream import NotOffered, SearchKind, Upstream, UpstreamUnavailable

MOST_RESULTS: Final = 1000
"""A page is never longer, whatever limit is asked for."""
MOST_JUDGED: Final = 2000
"""So many candidates are judged for one page; it ends there, however few were found."""
_BREATH: Final = 64  # candidates between two chances for other requests

Shape = TypeVar("Shape", bound=Wire)


@dataclass(frozen=True, slots=True)
class _Search:
    """What is searched: candidates by name, each as the entity that is returned, and the question about it.

    `asked` identifies the search among others; a page token belongs to one search. `request` is how it was asked.
    """

    kind: SearchKind
    request: Mapping[str, Any]
    names: Iterable[str]
    entity: Callable[[str], dict[str, Any]]
    question: Callable[[dict[str, Any]], Question]
    page: Page
    asked: list[Any]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page begins: after this name, and at most so many results a page."""

    after: str | None
    limit: int | None


async def search_subjects(ctx: Context, caller: Caller, request: Mapping[str, Any]) -> dict[str, Any]:
    """The subjects of one type that may do the action to the resource.

    Raises:
        InvalidRequest: It has not the shape of such a search, or its page token belongs to another one.
        RateLimited: The caller asks more often than it may; every candidate counts as an evaluation.
        SearchUnsupported, UpstreamFailed: The decision point that would know cannot search, or not now.
    """
    asked = _parsed(SubjectSearch, request)
    kind, resource, action, context = asked.subject.type, request["resource"], request["action"], _context(request)
    refuse_inexact(Tuple4({}, resource, action, context))
    policy = ctx.policy.current()
    search = _Search(
        kind="subject",
        request=request,
        names=policy.entities.get(kind, ()),
        entity=lambda name: {"type": kind, "id": name},
        question=lambda subject: Question(subject, resource, action, context, caller.client_id),
        page=asked.page,
        asked=["subject", kind, resource, action, context],
    )
    return await _answer(ctx, caller, policy, search=search)


async def search_resources(ctx: Context, caller: Caller, request: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of one type that the subject may do the action to; raises like `search_subjects`."""
    asked = _parsed(ResourceSearch, request)
    kind, subject, action, context = asked.resource.type, request["subject"], request["action"], _context(request)
    refuse_inexact(Tuple4(subject, {}, action, context))
    policy = ctx.policy.current()
    search = _Search(
        kind="resource",
        request=request,
        names=policy.entities.get(kind, ()),
        entity=lambda name: {"type": kind, "id": name},
        question=lambda resource: Question(subject, resource, action, context, caller.client_id),
        page=asked.page,
        asked=["resource", kind, subject, action, context],
    )
    return await _answer(ctx, caller, policy, search=search)


async def search_actions(ctx: Context, caller: Caller, request: Mapping[str, Any]) -> dict[str, Any]:
    """The actions that the subject may do to the resource; raises like `search_subjects`."""
    asked = _parsed(ActionSearch, request)
    subject, resource, context = request["subject"], request["resource"], _context(request)
    refuse_inexact(Tuple4(subject, resource, {}, context))
    policy = ctx.policy.current()
    search = _Search(
        kind="action",
        request=request,
        names=policy.actions.get(asked.resource.type, ()),
        entity=lambda name: {"name": name},
        question=lambda action: Question(subject, resource, action, context, caller.client_id),
        page=asked.page,
        asked=["action", subject, resource, context],
    )
    return await _answer(ctx, caller, policy, search=search)


def _parsed(shape: type[Shape], request: Mapping[str, Any]) -> Shape:
    try:
        return parse(shape, request)
    except InvalidShape as error:
        raise InvalidRequest(f"The member {error.pointer} is missing or of the wrong type.") from None


def _context(request: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = request.get("context", {})
    return context


async def _answer(ctx: Context, caller: Caller, policy: Policy, *, search: _Search) -> dict[str, Any]:
    ctx.rates.check("evaluation", caller.principal)
    seal = _aad(caller, search)
    place = _place(ctx, search.page, seal)
    if ctx.upstream is not None:
        return await _from_upstream(ctx, ctx.upstream, policy, search=search, place=place, seal=seal)
    if policy.upstream is not None:
        raise UpstreamFailed
    most = MOST_RESULTS if place.limit is None else min(place.limit, MOST_RESULTS)
    results: list[dict[str, Any]] = []
    after, is_last = place.after, True
    for count, name in enumerate(sorted(name for name in search.names if after is None or name > after)):
        if count == MOST_JUDGED or ctx.rates.take("evaluation", caller.principal) is not None:
            is_last = False
            break
        entity = search.entity(name)
        if isinstance(judge(policy, search.question(entity)), Permit):
            if len(results) == most:
                is_last = False
                break
            results.append(entity)
        after = name
        if count % _BREATH == _BREATH - 1:
            await anyio.lowlevel.checkpoint()
    # A limit of nothing gets nowhere, however often it is asked for: the next page has another one.
    token = "" if is_last else _token(ctx, _Place(after, place.limit or None), seal)
    return {"page": {"next_token": token, "count": len(results)}, "results": results}


async def _from_upstream(
    ctx: Context, upstream: Upstream, policy: Policy, *, search: _Search, place: _Place, seal: str
) -> dict[str, Any]:
    """A page of what the decision point upstream finds, without what the rules deny in so many words (PDP-70)."""
    page = {"token": place.after, "limit": place.limit}
    page = {name: value for name, value in page.items() if value is not None}
    asked = {name: value for name, value in search.request.items() if name != "page"}
    try:
        found = await upstream.search(search.kind, {**asked, "page": page} if page else asked)
    except NotOffered:
        raise SearchUnsupported from None
    except UpstreamUnavailable as error:
        ctx.log.warning("upstream_unavailable", code=error.code)
        raise UpstreamFailed from None
    entities, token = _page_of(found, members=("name",) if search.kind == "action" else ("type", "id"))
    if entities is None:
        ctx.log.warning("upstream_unavailable", code="search_result")
        raise UpstreamFailed
    results = [entity for entity in entities if not is_mandatory(judge(policy, search.question(entity)))]
    following = _token(ctx, _Place(token, place.limit), seal) if token else ""
    return {"page": {"next_token": following, "count": len(results)}, "results": results}


def _page_of(found: Mapping[str, Any], *, members: tuple[str, ...]) -> tuple[list[dict[str, Any]] | None, str]:
    """The entities of a page from elsewhere, or None when it is not one, and the token of the next page."""
    results, page = found.get("results"), found.get("page", {})
    if not isinstance(results, list) or not isinstance(page, dict) or len(results) > MOST_RESULTS:
        return None, ""
    for entity in results:
        if not isinstance(entity, dict) or not all(isinstance(entity.get(name), str) for name in members):
            return None, ""
    token = page.get("next_token", "")
    return (results, token) if isinstance(token, str) else (None, "")


def _aad(caller: Caller, search: _Search) -> str:
    """What a token is bound to: the caller and the whole search, but for the token and the limit, which is inside."""
    more = search.page.model_extra or {}
    identity = json.dumps([caller.principal, caller.client_id, search.asked, more], sort_keys=True)
    return f"search:{hashlib.sha256(identity.encode()).hexdigest()}:page"


def _token(ctx: Context, place: _Place, seal: str) -> str:
    """The place as an opaque token: sealed, since the last name that was judged may be one to keep from the caller."""
    plain = json.dumps([place.after, place.limit]).encode()
    return base64.urlsafe_b64encode(ctx.ring.seal(plain, aad=seal)).rstrip(b"=").decode()


def _place(ctx: Context, page: Page, seal: str) -> _Place:
    """Where the page begins; a limit that is repeated with a token must be the same, one that is left out stays."""
    if not page.token:
        return _Place(None, page.limit)
    try:
        sealed = base64.b64decode(page.token + "=" * (-len(page.token) % 4), altchars=b"-_", validate=True)
        after, limit = json.loads(ctx.ring.open_(sealed, aad=seal))
    except (ValueError, SealBroken):
        raise InvalidRequest("The page token does not belong to this search.") from None
    if page.limit not in (None, limit):
        raise InvalidRequest("The page limit differs from that of the first page.")
    return _Place(after, limit)
