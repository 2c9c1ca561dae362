"""Group `bulk`: several items in one request."""

from typing import Any, Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.profiles import bundled
from arap_service.conformance.rule import rule
from arap_service.conformance.seeing import approval_of, handled, refused
from arap_service.conformance.trial import Denial, Task, Trial
from blackbox_kit.model import Json, NotKept, NotRun

GROUP: Final = "bulk"


@rule(
    "items-are-mirrored",
    GROUP,
    "Each element corresponds positionally to the submission's `items` member",
    requirements=("ARS-82",),
    profiles=("bulk",),
)
async def items_are_mirrored(trial: Trial) -> None:
    """`task.items` has every item in its place: resource, action, status."""
    task, denials = await _open(trial)
    for where, found in (
        ("the answer to the submission", task.created.document),
        ("the status", await trial.state(task)),
    ):
        items = _items(found)
        if len(items) != len(denials):
            raise NotKept(f"{where} has {len(items)} items for {len(denials)}")
        for item, denial in zip(items, denials, strict=True):
            if any(item.get(name) != denial.question[name] for name in ("resource", "action")):
                raise NotKept(f"{where} has the items in other places, or others")
            if item.get("status") != "pending":
                raise NotKept(f"the status of a new item is {item.get('status')!r}")


@rule(
    "items-stand-alone",
    GROUP,
    "When present, `resource` and `action` MUST be omitted at the top level.",
    requirements=("ARS-77",),
    profiles=("bulk",),
)
async def items_stand_alone(trial: Trial) -> None:
    """`items` beside `resource` and `action` is refused: no task."""
    first, second = await trial.denied(), await trial.denied()
    both = bundled(first, second) | {name: first.question[name] for name in ("resource", "action")}
    answer = await trial.submit(first, both)
    if answer.is_success:
        raise NotKept(f"items beside resource and action were accepted: {answer.brief()}")
    if answer.status >= 500:
        raise NotKept(f"items beside resource and action were answered with {answer.brief()}")


@rule(
    "every-item-is-bound",
    GROUP,
    "An Access Request whose denial binding does not cover the submitted Subject, Resource, Action, and "
    "authorization-relevant Context (for every item when `items` is present) MUST be rejected with "
    "`urn:openid:authzen:access-request:error:invalid_denial_binding`.",
    requirements=("ARS-78", "ARS-80"),
    profiles=("bulk",),
)
async def every_item_is_bound(trial: Trial) -> None:
    """One item that is not the denied one: invalid_denial_binding, no task."""
    first, second = await trial.denied(), await trial.denied()
    body = bundled(first, second)
    resource = body["items"][1]["resource"]
    body["items"][1]["resource"] = {**resource, "id": f"{resource.get('id')}-other"}
    refused(await trial.submit(first, body), "invalid_denial_binding", "an item that is not the denied one")


@rule(
    "partial-is-said",
    GROUP,
    "Otherwise, with two or more distinct terminal statuses present across items, the aggregate is `partial`.",
    requirements=("ARS-82", "ARS-83"),
    verbs=("approve_item", "deny_item"),
    profiles=("bulk",),
)
async def partial_is_said(trial: Trial) -> None:
    """One item approved: pending; the other denied: partial, and a result for the approved one only."""
    task, _ = await _open(trial)
    await trial.do("approve_item", task, item=0)
    await trial.settle()
    if (status := await trial.status(task)) != "pending":
        raise NotKept(f"one item is pending, and the whole is {status!r}")
    await trial.do("deny_item", task, item=1)
    found = await trial.ended(task)
    items = _items(found)
    if found["task"].get("status") != "partial" or [item.get("status") for item in items] != ["approved", "denied"]:
        raise NotKept(f"the whole is {found['task'].get('status')!r}, the items {[one.get('status') for one in items]}")
    if approval_of(items[0]) is None or approval_of(items[1]) is not None:
        raise NotKept("the approved item has no approval, or the denied one has one")


@rule(
    "items-approvals-are-their-own",
    GROUP,
    "For a bundled Access Request, the default approval scope for each approved item is that item's "
    "Subject, Resource, Action, and relevant Context.",
    requirements=("ARS-85",),
    verbs=("approve_item", "deny_item"),
    profiles=("bulk",),
)
async def items_approvals_are_their_own(trial: Trial) -> None:
    """The approval of one item permits that item and no other."""
    task, denials = await _open(trial)
    await trial.do("approve_item", task, item=0)
    await trial.do("deny_item", task, item=1)
    approval = approval_of(_items(await trial.ended(task))[0])
    if approval is None:
        raise NotRun("the approved item has no approval to look at")
    if not await trial.permits(denials[0].question, approval=approval):
        raise NotKept("the approval of an item does not permit it")
    if await trial.permits(denials[1].question, approval=approval):
        raise NotKept("the approval of one item permits another")


@rule(
    "bulk-cancel-leaves-ends",
    GROUP,
    "cancellation cancels every item currently in `pending` status; items already in a terminal status "
    "remain unchanged.",
    requirements=("ARS-84",),
    verbs=("approve_item",),
    profiles=("bulk", "cancellation"),
)
async def bulk_cancel_leaves_ends(trial: Trial) -> None:
    """A cancellation ends what is pending and leaves what has ended."""
    task, _ = await _open(trial)
    await trial.do("approve_item", task, item=0)
    await trial.until(task, lambda found: _items(found)[0].get("status") == "approved", "approved in its first item")
    answer = await trial.cancel(task)
    if not answer.is_success:
        raise NotKept(f"a cancellation while an item is pending was answered with {answer.brief()}")
    found = await trial.state(task)
    statuses = [item.get("status") for item in _items(found)]
    if statuses != ["approved", "cancelled"] or found["task"].get("status") != "partial":
        raise NotKept(f"after the cancellation the whole is {found['task'].get('status')!r}, the items {statuses}")


@rule(
    "unsupported-items-are-refused",
    GROUP,
    "MUST be omitted when `items` is present.",
    requirements=("ARS-87",),
    level=Level.SHOULD,
    profiles=("no-bulk",),
)
async def unsupported_items_are_refused(trial: Trial) -> None:
    """Where bulk is not supported, `items` is refused and not ignored."""
    first, second = await trial.denied(), await trial.denied()
    answer = handled(await trial.submit(first, bundled(first, second)), "items")
    if answer.is_success and not _items(answer.document):
        raise NotKept(f"items were not refused, and ignored: {answer.brief()}")


async def _open(trial: Trial) -> tuple[Task, tuple[Denial, Denial]]:
    first, second = await trial.denied(), await trial.denied()
    return trial.accepted(await trial.submit(first, bundled(first, second))), (first, second)


def _items(found: Json) -> list[Json]:
    task: Any = found.get("task")
    items = task.get("items") if isinstance(task, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


CHECKS: Final[tuple[Check, ...]] = (
    items_are_mirrored,
    items_stand_alone,
    every_item_is_bound,
    partial_is_said,
    items_approvals_are_their_own,
    bulk_cancel_leaves_ends,
    unsupported_items_are_refused,
)
