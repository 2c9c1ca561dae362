"""Group `bulk`: several items in one request."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

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
    await trial.not_written()


@rule(
    "items-stand-alone",
    GROUP,
    "When present, `resource` and `action` MUST be omitted at the top level.",
    requirements=("ARS-77",),
    profiles=("bulk",),
)
async def items_stand_alone(trial: Trial) -> None:
    """`items` beside `resource` and `action` is refused: no task."""
    await trial.not_written()


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
    await trial.not_written()


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
    await trial.not_written()


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
    await trial.not_written()


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
    await trial.not_written()


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
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    items_are_mirrored,
    items_stand_alone,
    every_item_is_bound,
    partial_is_said,
    items_approvals_are_their_own,
    bulk_cancel_leaves_ends,
    unsupported_items_are_refused,
)
