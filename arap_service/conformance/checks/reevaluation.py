"""Group `reevaluation`: what an approval permits, and what it does not."""

from typing import Final

from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Trial

GROUP: Final = "reevaluation"


@rule(
    "approval-permits",
    GROUP,
    "The PDP MUST evaluate the new request using current policy and the approval reference.",
    requirements=("PDP-59", "PDP-07"),
    verbs=("approve",),
)
async def approval_permits(trial: Trial) -> None:
    """The denied question with the approval is permitted, and again: evaluating spends nothing."""
    await trial.not_written()


@rule(
    "permit-says-how-long",
    GROUP,
    "When the re-evaluation response indicates an approval expiry (typically as "
    "`context.approval.approved_until`), the PEP MUST NOT enforce access past that timestamp.",
    requirements=("PDP-75",),
    level=Level.SHOULD,
    verbs=("approve",),
)
async def permit_says_how_long(trial: Trial) -> None:
    """The permit tells the approval's end, no later than the result did."""
    await trial.not_written()


@rule(
    "approval-of-another-subject",
    GROUP,
    "The PDP MUST verify that the approval reference presented in `context.approval` is applicable to the "
    "authenticated caller or requester, current Subject, Resource, Action, relevant Context, approval "
    "scope, and approval expiry.",
    requirements=("PDP-61", "PDP-67"),
    verbs=("approve",),
)
async def approval_of_another_subject(trial: Trial) -> None:
    """The approval permits nothing to another subject."""
    await trial.not_written()


@rule(
    "approval-of-another-resource",
    GROUP,
    "The PDP MUST verify that the approval reference presented in `context.approval` is applicable to the "
    "authenticated caller or requester, current Subject, Resource, Action, relevant Context, approval "
    "scope, and approval expiry.",
    requirements=("PDP-61", "PDP-67"),
    verbs=("approve",),
)
async def approval_of_another_resource(trial: Trial) -> None:
    """The approval permits nothing on another resource."""
    await trial.not_written()


@rule(
    "approval-in-another-context",
    GROUP,
    "The PDP MUST verify that the approval reference presented in `context.approval` is applicable to the "
    "authenticated caller or requester, current Subject, Resource, Action, relevant Context, approval "
    "scope, and approval expiry.",
    requirements=("PDP-61", "PDP-67"),
    questions=("with_context",),
    verbs=("approve",),
)
async def approval_in_another_context(trial: Trial) -> None:
    """The approval permits nothing with another value of a bound member."""
    await trial.not_written()


@rule(
    "approval-of-another-caller",
    GROUP,
    "The PDP MUST verify that the approval reference presented in `context.approval` is applicable to the "
    "authenticated caller or requester, current Subject, Resource, Action, relevant Context, approval "
    "scope, and approval expiry.",
    requirements=("PDP-61", "ARS-70"),
    verbs=("approve",),
    tokens=("second",),
)
async def approval_of_another_caller(trial: Trial) -> None:
    """The approval permits nothing to another caller."""
    await trial.not_written()


@rule(
    "unknown-approval",
    GROUP,
    "The PDP MUST be able to resolve or verify `approval.id`, `approval.state`, or both",
    requirements=("PDP-59", "PDP-63"),
)
async def unknown_approval(trial: Trial) -> None:
    """An approval that nobody gave permits nothing."""
    await trial.not_written()


@rule(
    "malformed-approval",
    GROUP,
    "A swapped, replayed, expired, or otherwise non-applicable approval reference MUST be ignored or "
    "rejected, and the PDP MUST evaluate the request as not approved by that reference.",
    requirements=("PDP-76",),
)
async def malformed_approval(trial: Trial) -> None:
    """A `context.approval` of any shape permits nothing and breaks nothing."""
    await trial.not_written()


@rule(
    "swapped-id",
    GROUP,
    "the PDP MUST verify that the two identifiers match, and MUST reject the re-evaluation on mismatch.",
    requirements=("PDP-62",),
    verbs=("approve",),
    profiles=("state",),
)
async def swapped_id(trial: Trial) -> None:
    """The state of one approval under the id of another permits nothing."""
    await trial.not_written()


@rule(
    "forged-state",
    GROUP,
    "the PDP MUST verify the approval against trusted state or integrity-protected binding material; "
    "neither `approval.id` nor `approval.state` is a bearer grant by itself.",
    requirements=("PDP-60", "PDP-68"),
    verbs=("approve",),
    profiles=("state",),
)
async def forged_state(trial: Trial) -> None:
    """A state with another signature permits nothing."""
    await trial.not_written()


@rule(
    "expired-approval",
    GROUP,
    "The PDP MUST verify that the approval reference presented in `context.approval` is applicable to the "
    "authenticated caller or requester, current Subject, Resource, Action, relevant Context, approval "
    "scope, and approval expiry.",
    requirements=("PDP-64", "ARS-120"),
    verbs=("approve_briefly",),
)
async def expired_approval(trial: Trial) -> None:
    """After its end it permits nothing, whatever `approved_until` the caller writes."""
    await trial.not_written()


@rule(
    "policy-outranks-approval",
    GROUP,
    "MUST ensure that approval does not override policy conditions that remain mandatory at enforcement time",
    requirements=("PDP-70",),
    verbs=("approve", "forbid"),
)
async def policy_outranks_approval(trial: Trial) -> None:
    """What policy forbids since is not permitted by an approval."""
    await trial.not_written()


@rule(
    "denial-says-what-next",
    GROUP,
    "it SHOULD tell the PEP what to do next so the PEP reacts correctly instead of blindly retrying.",
    requirements=("PDP-71",),
    level=Level.SHOULD,
    verbs=("approve",),
)
async def denial_says_what_next(trial: Trial) -> None:
    """A denied re-evaluation has `next_action`."""
    await trial.not_written()


@rule(
    "request-comes-with-an-offer",
    GROUP,
    "The PDP MUST also include a fresh `context.access_request` ({{requestable-denial-context}}) so the "
    "PEP has a valid requestable-denial signal for the new submission.",
    requirements=("PDP-72",),
    verbs=("approve",),
)
async def request_comes_with_an_offer(trial: Trial) -> None:
    """`next_action: request` stands beside a fresh offer only."""
    await trial.not_written()


@rule(
    "batch-is-judged-one-by-one",
    GROUP,
    "The PDP MUST only consider an Approval Result applicable when the current evaluation request is "
    "within the approval scope recorded for that Approval Result.",
    requirements=("PDP-24",),
    verbs=("approve",),
)
async def batch_is_judged_one_by_one(trial: Trial) -> None:
    """An approval given for a whole batch permits the entry that it is of, and no other."""
    await trial.not_written()


@rule(
    "wider-approval-reaches-as-far",
    GROUP,
    "The PDP MUST only consider an Approval Result applicable when the current evaluation request is "
    "within the approval scope recorded for that Approval Result.",
    requirements=("PDP-61",),
    questions=("requestable", "within", "beyond"),
    verbs=("approve_wider",),
)
async def wider_approval_reaches_as_far(trial: Trial) -> None:
    """An approval with a wider scope permits what is in it, and nothing beyond."""
    await trial.not_written()


CHECKS: Final[tuple[Check, ...]] = (
    approval_permits,
    permit_says_how_long,
    approval_of_another_subject,
    approval_of_another_resource,
    approval_in_another_context,
    approval_of_another_caller,
    unknown_approval,
    malformed_approval,
    swapped_id,
    forged_state,
    expired_approval,
    policy_outranks_approval,
    denial_says_what_next,
    request_comes_with_an_offer,
    batch_is_judged_one_by_one,
    wider_approval_reaches_as_far,
)
