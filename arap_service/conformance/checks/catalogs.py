"""Group `catalogs`: schemas, catalogs, and what is submitted from them."""

from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import handled
from arap_service.conformance.trial import Denial, Trial
from arap_service.conformance.wire import Answer
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

GROUP: Final = "catalogs"
MOST_PAGES: Final = 50
INVENTED: Final = "conformance-invented-value"


@rule(
    "schema-can-be-read",
    GROUP,
    "URL where the Access Request Service publishes a machine-readable description of the augmentations "
    "the PEP must add to the submission's `context` and `requested_access` objects.",
    requirements=("PDP-46", "ARS-106"),
    questions=("form",),
    profiles=("forms",),
)
async def schema_can_be_read(trial: Trial) -> None:
    """`request_schema_url` gives a JSON object."""
    denial = await trial.denied("form")
    url = denial.offer.get("request_schema_url")
    if not isinstance(url, str):
        raise NotApplicable("the denial has no request_schema_url")
    answer = await trial.ask("GET", url)
    if answer.status != 200 or not isinstance(answer.body, dict):
        raise NotKept(f"request_schema_url was answered with {answer.brief()}")


@rule(
    "input-is-validated",
    GROUP,
    "MUST construct the augmentations to the submission's `context` and `requested_access` objects "
    "according to {{machine-readable-forms}} and {{catalog-references}}",
    requirements=("ARS-105",),
    level=Level.SHOULD,
    questions=("form",),
    profiles=("forms",),
)
async def input_is_validated(trial: Trial) -> None:
    """A submission without the input that the schema requires is refused."""
    denial = await trial.denied("form")
    body = denial.body()
    for name in denial.added.context:
        body["context"].pop(name, None)
    body.pop("requested_access", None)
    answer = handled(await trial.submit(denial, body), "a submission without the required input")
    if answer.is_success:
        raise NotKept("a submission without the required input was accepted")


@rule(
    "catalogs-come-with-a-schema",
    GROUP,
    "MUST include `request_schema_url` when including `request_catalogs_url`.",
    requirements=("PDP-45",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalogs_come_with_a_schema(trial: Trial) -> None:
    """`request_catalogs_url` never stands without `request_schema_url`."""
    offer = (await trial.denied("catalog")).offer
    if "request_catalogs_url" not in offer:
        raise NotApplicable("the denial has no request_catalogs_url")
    if "request_schema_url" not in offer:
        raise NotKept("request_catalogs_url stands without request_schema_url")


@rule(
    "catalog-needs-authentication",
    GROUP,
    "authenticate the caller;",
    requirements=("ARS-110",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_needs_authentication(trial: Trial) -> None:
    """Without a token a catalog shows nothing."""
    _, reference = await _catalog(trial)
    answer = await trial.ask("GET", reference["endpoint"], role=None)
    if answer.status != 401 or answer.document.get("items") is not None:
        raise NotKept(f"a catalog without a token was answered with {answer.brief()}")


@rule(
    "catalog-answers-with-items",
    GROUP,
    "A successful response returns HTTP `200 OK` and a JSON object with the following members:",
    requirements=("ARS-111", "ARS-110"),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_answers_with_items(trial: Trial) -> None:
    """The Catalogs Document names endpoints; they answer with `items`, each with its value."""
    _, reference = await _catalog(trial)
    for answer in (await _page(trial, reference), await _page(trial, reference, conformance_unknown="x")):
        items = answer.document.get("items")
        if answer.status != 200 or not isinstance(items, list) or not items:
            raise NotKept(f"a catalog was answered with {answer.brief()}")
        for item in items:
            if _value(item, reference) is None:
                raise NotKept(f"an item has no value at {reference.get('value_path', '/value')}: {item!r}")


@rule(
    "catalog-pages-go-on",
    GROUP,
    "Opaque cursor that the caller passes as `cursor` to retrieve the next page.",
    requirements=("ARS-111",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_pages_go_on(trial: Trial) -> None:
    """`next_cursor` gives the next page, and no item twice."""
    _, reference = await _catalog(trial)
    pages = await _pages(trial, reference, limit="2")
    found = [value for page in pages for value in page]
    if len(found) != len(set(found)):
        raise NotKept("going from page to page shows an item twice")
    whole = [value for page in await _pages(trial, reference) for value in page]
    if missing := [value for value in whole if value not in found]:
        raise NotKept(f"going from page to page shows {len(missing)} items less than asking at once")
    if len(pages) == 1:
        raise NotApplicable("the catalog has one page only")


@rule(
    "catalog-hides",
    GROUP,
    "it MUST NOT disclose entries the requester would not be permitted to request.",
    requirements=("ARS-110",),
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_hides(trial: Trial) -> None:
    """No text that the control file calls hidden from this caller is on any page of the catalog, searched or not."""
    hidden = trial.control.hidden.catalog
    if not hidden:
        raise NotApplicable("the control file hides nothing (hidden.catalog)")
    _, reference = await _catalog(trial)
    search = str(reference.get("search_param", "q"))
    for more in ({}, {"limit": "2"}, *({search: text} for text in hidden)):
        async for page in _answers(trial, reference, **more):
            if page.status != 200:
                raise NotRun(f"a catalog was answered with {page.brief()}")
            if page.shown_of(hidden):
                raise NotKept(f"the catalog shows a hidden text: {page.brief()}")


@rule(
    "catalog-values-are-validated",
    GROUP,
    "The Access Request Service MUST validate submitted catalog identifiers at submission time.",
    requirements=("ARS-109",),
    level=Level.SHOULD,
    questions=("catalog",),
    profiles=("catalogs",),
)
async def catalog_values_are_validated(trial: Trial) -> None:
    """A value that no catalog has is refused."""
    denial, reference = await _catalog(trial)
    body = denial.body()
    if not _put(body, reference["pointer"], INVENTED):
        raise NotRun(f"the input of the question catalog has nothing at {reference['pointer']}")
    answer = handled(await trial.submit(denial, body), "a value that no catalog has")
    if answer.is_success:
        raise NotKept("a value that no catalog has was accepted")


async def _catalog(trial: Trial) -> tuple[Denial, Json]:
    """A denial, and the first Catalog Reference of its Catalogs Document that depends on no other field."""
    denial = await trial.denied("catalog")
    url = denial.offer.get("request_catalogs_url")
    if not isinstance(url, str):
        raise NotApplicable("the denial has no request_catalogs_url")
    answer = await trial.ask("GET", url)
    fields = answer.document.get("fields")
    if answer.status != 200 or not isinstance(fields, dict) or not fields:
        raise NotKept(f"request_catalogs_url was answered with {answer.brief()}")
    for pointer, reference in fields.items():
        if not pointer.startswith("/") or not isinstance(reference, dict):
            raise NotKept(f"{pointer!r} is no JSON Pointer to a Catalog Reference")
        if not isinstance(reference.get("endpoint"), str):
            raise NotKept(f"the Catalog Reference at {pointer} has no endpoint")
        if not reference.get("scope_params"):
            return denial, {**reference, "pointer": pointer}
    raise NotRun("every catalog depends on another field")


async def _page(trial: Trial, reference: Json, **more: str) -> Answer:
    parts = urlsplit(reference["endpoint"])
    query = urlencode([*parse_qsl(parts.query), *more.items()])
    return await trial.ask("GET", urlunsplit(parts._replace(query=query)))


async def _answers(trial: Trial, reference: Json, **more: str) -> AsyncIterator[Answer]:
    """The answer with each page, up to the one that is an error or the last."""
    cursor = dict[str, str]()
    for _ in range(MOST_PAGES):
        answer = await _page(trial, reference, **more, **cursor)
        yield answer
        following = answer.document.get("next_cursor")
        if answer.status != 200 or not isinstance(following, str):
            return
        cursor = {"cursor": following}
    raise NotRun(f"the catalog has more than {MOST_PAGES} pages")


async def _pages(trial: Trial, reference: Json, **more: str) -> list[list[str]]:
    """The values of each page."""
    found = list[list[str]]()
    async for answer in _answers(trial, reference, **more):
        items = answer.document.get("items")
        if answer.status != 200 or not isinstance(items, list):
            raise NotKept(f"a page of a catalog was answered with {answer.brief()}")
        following = answer.document.get("next_cursor")
        if following is not None and not isinstance(following, str):
            raise NotKept(f"next_cursor is {following!r}")
        found.append([str(_value(item, reference)) for item in items])
    return found


def _value(item: Any, reference: Json) -> Any:
    for part in str(reference.get("value_path", "/value")).split("/")[1:]:
        item = item.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(item, dict) else None
    return item


def _put(body: Json, pointer: str, value: str) -> bool:
    """Replace what stands there; the pointer goes into the form's data, in either place where that can be."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for root in (body, body.get("requested_access", {}), body.get("context", {})):
        holder: Any = root
        for part in parts[:-1]:
            holder = holder.get(part) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and parts[-1] in holder:
            holder[parts[-1]] = value
            return True
    return False


CHECKS: Final[tuple[Check, ...]] = (
    schema_can_be_read,
    input_is_validated,
    catalogs_come_with_a_schema,
    catalog_needs_authentication,
    catalog_answers_with_items,
    catalog_pages_go_on,
    catalog_hides,
    catalog_values_are_validated,
)
