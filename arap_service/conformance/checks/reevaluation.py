"""Group `reevaluation`: what an approval permits, and what it does not."""

import secrets
from datetime import timedelta
from typing import Any, Final

import anyio

from arap_service.conformance.checks.applying import APPLICABLE, GROUP, approved, permits_nothing
from arap_service.conformance.instants import instant, utc_now
from arap_service.conformance.jose import Unreadable, read, unsigned, with_other_signature, with_own_key
from arap_service.conformance.model import Check, Level
from arap_service.conformance.rule import rule
from arap_service.conformance.trial import Task, Trial
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

MALFORMED: Final[tuple[Any, ...]] = ("text", 7, [], {}, {"id": 7}, {"id": "x", "state": {"any": 1}}, {"id": None})


@rule(
    "approval-permits",
    GROUP,
    "The PDP MUST evaluate the new request using current policy and the approval reference.",
    requirements=("PDP-59", "PDP-07"),
    verbs=("approve",),
)
async def approval_permits(trial: Trial) -> None:
    """The denied question with the approval is permitted, and again: evaluating spends nothing."""
    task, approval = await approved(trial)
    for time in ("", " the second time"):
        if not await trial.permits(task.denial.question, approval=approval):
            raise NotKept(f"the approved question was denied{time}")


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
    task, approval = await approved(trial)
    answer = await trial.evaluate(task.denial.question, approval=approval)
    if answer.document.get("decision") is not True:
        raise NotRun(f"the approved question was answered with {answer.brief()}")
    context = answer.document.get("context")
    shown = context.get("approval") if isinstance(context, dict) else None
    told = shown.get("approved_until") if isinstance(shown, dict) else None
    if told is None:
        raise NotKept("the permit does not tell when the approval ends")
    ends, recorded = instant(told), instant(approval.get("approved_until"))
    if ends is None or recorded is None or ends > recorded:
        raise NotKept(f"the permit tells {told!r}, and the result told {approval.get('approved_until')!r}")


@rule(
    "unknown-approval",
    GROUP,
    "The PDP MUST be able to resolve or verify `approval.id`, `approval.state`, or both",
    requirements=("PDP-59", "PDP-63"),
)
async def unknown_approval(trial: Trial) -> None:
    """An approval that nobody gave permits nothing."""
    until = (utc_now() + timedelta(hours=1)).isoformat()
    approval = {"id": f"apr_{secrets.token_hex(16)}", "approved_until": until}
    await permits_nothing(trial, (await trial.denied()).question, approval, "an approval that nobody gave")


@rule(
    "malformed-approval",
    GROUP,
    "A swapped, replayed, expired, or otherwise non-applicable approval reference MUST be ignored or "
    "rejected, and the PDP MUST evaluate the request as not approved by that reference.",
    requirements=("PDP-76",),
)
async def malformed_approval(trial: Trial) -> None:
    """A `context.approval` of any shape permits nothing and breaks nothing."""
    question = (await trial.denied()).question
    for approval in MALFORMED:
        answer = await trial.evaluate(question, approval=approval)
        if answer.status != 200 or answer.document.get("decision") is not False:
            raise NotKept(f"with context.approval {approval!r} the question was answered with {answer.brief()}")


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
    task, approval = await approved(trial)
    other = await trial.approved(await trial.open())
    _signed_state(approval)
    swapped = {**approval, "id": other["id"]}
    await permits_nothing(trial, task.denial.question, swapped, "a state under another approval's id", whole=False)


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
    """A state with another signature, unsigned, or signed with the key in it permits nothing, nor with another id."""
    task, approval = await approved(trial)
    state = _signed_state(approval)
    claims, invented = read(state)[1], f"apr_{secrets.token_hex(16)}"
    renamed = {name: invented if value == approval["id"] else value for name, value in claims.items()}
    forgeries = [
        ({**approval, "state": with_other_signature(state)}, "a state with another signature"),
        ({**approval, "state": unsigned(state, claims)}, "an unsigned state"),
        ({**approval, "state": with_own_key(state, claims)}, "a state signed with the key in its header"),
        ({"id": invented, "state": unsigned(state, renamed)}, "an unsigned state of an approval that nobody gave"),
        ({"id": invented, "state": with_own_key(state, renamed)}, "a state of nobody's, signed with the key in it,"),
    ]
    for forged, what in forgeries:
        await permits_nothing(trial, task.denial.question, forged, what, whole=False)


@rule(
    "expired-approval",
    GROUP,
    APPLICABLE,
    requirements=("PDP-64", "ARS-120"),
    verbs=("approve_briefly",),
)
async def expired_approval(trial: Trial) -> None:
    """After its end it permits nothing, whatever `approved_until` the caller writes."""
    task = await trial.open()
    approval = await trial.approved(task, "approve_briefly")
    later = {**approval, "approved_until": (utc_now() + timedelta(days=1)).isoformat(timespec="seconds")}
    with anyio.move_on_after(trial.control.seconds.end):
        while True:
            if not await trial.permits(task.denial.question, approval=approval):
                break
            await anyio.sleep(trial.control.seconds.poll)
    await permits_nothing(trial, task.denial.question, approval, "an approval that is over")
    await permits_nothing(trial, task.denial.question, later, "an approval that is over, with a later approved_until,")


@rule(
    "policy-outranks-approval",
    GROUP,
    "MUST ensure that approval does not override policy conditions that remain mandatory at enforcement time",
    requirements=("PDP-70",),
    verbs=("approve", "forbid"),
)
async def policy_outranks_approval(trial: Trial) -> None:
    """What policy forbids since is not permitted by an approval."""
    task, approval = await approved(trial)
    if not await trial.permits(task.denial.question, approval=approval):
        raise NotRun("the approved question was denied before policy forbade it")
    await trial.do("forbid", task)
    await permits_nothing(trial, task.denial.question, approval, "an approval of what policy forbids since")


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
    task, approval = await approved(trial)
    context = await _denied(trial, task, approval)
    if context.get("next_action") not in {"request", "retry", "none"}:
        raise NotKept(f"the next_action of a denied re-evaluation is {context.get('next_action')!r}")


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
    task, approval = await approved(trial)
    context = await _denied(trial, task, approval)
    if context.get("next_action") != "request":
        raise NotApplicable(f"the next_action is {context.get('next_action')!r}")
    offer = context.get("access_request")
    if not isinstance(offer, dict):
        raise NotKept("next_action is request, and there is no access_request")
    if (ends := instant(offer.get("expires_at"))) is None or ends <= utc_now():
        raise NotKept(f"the offer beside next_action has no end in the future: {offer.get('expires_at')!r}")
    if not any(isinstance(one, str) and one for one in (offer.get("binding_token"), context.get("evaluation_id"))):
        raise NotKept("the offer beside next_action cannot be bound: no binding_token and no evaluation_id")
    old = task.denial.offer.get("binding_token")
    if offer.get("binding_token", "") == (old or None):
        raise NotKept("the access_request of a denied re-evaluation is the old one")


async def _denied(trial: Trial, task: Task, approval: Json) -> Json:
    """The context of a denied re-evaluation: of another resource."""
    answer = await trial.evaluate(trial.other(task.denial, "resource"), approval=approval)
    context = answer.document.get("context")
    if answer.document.get("decision") is not False or not isinstance(context, dict):
        raise NotRun(f"another resource was answered with {answer.brief()}")
    return context


def _signed_state(approval: Json) -> str:
    try:
        read(approval.get("state"))
    except Unreadable:
        raise NotApplicable("approvals carry no state that is a JWS") from None
    return str(approval["state"])


CHECKS: Final[tuple[Check, ...]] = (
    approval_permits,
    permit_says_how_long,
    unknown_approval,
    malformed_approval,
    swapped_id,
    forged_state,
    expired_approval,
    policy_outranks_approval,
    denial_says_what_next,
    request_comes_with_an_offer,
)
