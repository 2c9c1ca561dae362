"""One denial for a whole bundle: what its claims must cover, in which order, and what they cannot be used for."""

from collections.abc import Callable
from typing import Any

import pytest

from arap_service.domain.binding import Claims, Submitted, check_binding
from arap_service.domain.bulk_binding import check_bundle
from arap_service.domain.errors import InvalidDenialBinding
from arap_service.protocol.bundles import Pair, bundle_hash
from tests.domain.test_binding import ABOUT, ACT, MEMBERS, claims, context, record, submitted

PAIRS: list[Pair] = [
    ({"type": "account", "id": "a"}, {"name": "read"}),
    ({"type": "account", "id": "b"}, {"name": "write"}),
    ({"type": "account", "id": "c", "properties": {"tier": 1}}, {"name": "read"}),
]
ITEMS = [submitted(ABOUT._replace(resource=resource, action=action)) for resource, action in PAIRS]


def bundle(**changes: Any) -> Claims:
    """The claims of a denial of PAIRS, inline and hashed, changed by the test."""
    said: dict[str, Any] = {
        "resource": None,
        "action": None,
        "items": [{"resource": resource, "action": action} for resource, action in PAIRS],
        "binding_hash": bundle_hash(ABOUT.subject, PAIRS, ABOUT.context, MEMBERS),
        **changes,
    }
    return claims(**said)


INLINE = {"binding_hash": None}
HASHED = {"items": None, "subject": None, "context": None}
FORMS = pytest.mark.parametrize("form", [{}, INLINE, HASHED], ids=["both", "inline", "hashed"])


@FORMS
@pytest.mark.requirement("ARS-78", "ARS-79")
def test_a_bundle_denial_proves_every_item_in_its_place(form: dict[str, Any]) -> None:
    bound = check_bundle(ITEMS, bundle(**form))
    assert [each.about for each in bound] == [item.about for item in ITEMS]
    assert {(each.members, each.evaluation_id, each.template, each.agent) for each in bound} == {
        (tuple(MEMBERS), "ev_1", "wire", "agent-A")
    }


OTHERS: dict[str, Callable[[list[Submitted]], list[Submitted]]] = {
    "swapped": lambda items: [items[1], items[0], items[2]],
    "added": lambda items: [*items, submitted(ABOUT._replace(resource={"type": "account", "id": "d"}))],
    "left out": lambda items: items[:2],
    "another resource": lambda items: [submitted(items[0].about._replace(resource=ABOUT.resource)), *items[1:]],
    "another action": lambda items: [submitted(items[0].about._replace(action={"name": "drop"})), *items[1:]],
    "another subject": lambda items: [
        submitted(item.about._replace(subject={"type": "user", "id": "mallory"})) for item in items
    ],
    "another context": lambda items: [
        submitted(item.about._replace(context=context(project="gemini").context)) for item in items
    ],
}


@FORMS
@pytest.mark.requirement("ARS-78", "ARS-79")
@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
def test_anything_but_these_items_in_this_order_is_refused(
    form: dict[str, Any], others: Callable[[list[Submitted]], list[Submitted]]
) -> None:
    with pytest.raises(InvalidDenialBinding):
        check_bundle(others(ITEMS), bundle(**form))


@pytest.mark.parametrize(
    "form",
    [
        {"binding_hash": None, "items": None},
        {"binding_hash": None, "subject": None},
        {"binding_hash": None, "context": None},
        {"resource": PAIRS[0][0]},
        {"action": PAIRS[0][1]},
        {"evaluation_id": "ev_other"},
        {"client_id": "gate-2"},
        {"agent": "agent-B"},
        {"shown_call": "something else"},
        {"actor": [ACT]},
    ],
    ids="-".join,
)
def test_claims_that_do_not_cover_the_whole_bundle_are_refused(form: dict[str, Any]) -> None:
    """What binds one thing binds a bundle as well: parties, agent, evaluation, shown call."""
    items = [submitted(item.about, evaluation_id="ev_1") for item in ITEMS]
    assert check_bundle(items, bundle())
    with pytest.raises(InvalidDenialBinding):
        check_bundle(items, bundle(**form))


@pytest.mark.parametrize(
    "items",
    ["text", [], ["text"], [{"resource": {"type": "a", "id": "b"}}], [{"resource": 1, "action": {"name": "read"}}]],
)
def test_claims_with_misshapen_items_are_refused(items: Any) -> None:
    with pytest.raises(InvalidDenialBinding):
        bundle(items=items)


@pytest.mark.requirement("ARS-78")
def test_a_denial_of_one_thing_proves_no_bundle_and_that_of_a_bundle_no_single_thing() -> None:
    """Not even a bundle of one, and not by way of claims that speak of both."""
    with pytest.raises(InvalidDenialBinding):
        check_bundle([submitted()], claims())
    with pytest.raises(InvalidDenialBinding):
        check_bundle([submitted()], record())
    with pytest.raises(InvalidDenialBinding):
        check_binding(ITEMS[0], bundle())
    both = claims(items=[{"resource": ABOUT.resource, "action": ABOUT.action}])
    with pytest.raises(InvalidDenialBinding):
        check_binding(submitted(), both)


def test_a_malformed_actor_proves_nothing() -> None:
    items = [submitted(item.about, actor={"sub": 1}) for item in ITEMS]
    with pytest.raises(InvalidDenialBinding):
        check_bundle(items, bundle())
