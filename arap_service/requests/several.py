"""Deciding several requests with one form: each by itself, each on the version that was seen, each with its own result.

Denials may be of any kinds; approvals only of one template and one risk, and only of what is listed by name: there is
no way to say "all". Every one goes through the one function that decides (GOV-09), so some may count and others not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    StaleVersion,
    StepUpRequired,
    TaskExpired,
    UnknownTask,
)
from arap_service.requests.decisions import decide
from arap_service.requests.details import detail
from arap_service.store.database import StoreUnavailable
from arap_service.views import RequestDetail

MOST: Final = 50
"""How many can be decided at once: what a person can have looked at."""


@dataclass(frozen=True, slots=True)
class Picked:
    """One request of the list, as it was seen."""

    task_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one decision: `code` is recorded, or why it was not; `now` is the request as it stands."""

    picked: Picked
    code: str
    now: RequestDetail | None


async def look_at(ctx: Context, caller: Caller, picked: Sequence[Picked]) -> tuple[RequestDetail, ...]:
    """The listed requests that the caller may see, in their order."""
    found = [await _find(ctx, caller, each) for each in picked]
    return tuple(each for each in found if each is not None)


def are_alike(found: Sequence[RequestDetail]) -> bool:
    """Whether these may be approved together: one template, one risk, no bundle, and nothing to narrow by hand."""
    kinds = {(each.template_id, each.risk) for each in found}
    return len(kinds) == 1 and not any(each.item_count or each.is_emergency for each in found)


async def decide_several(
    ctx: Context,
    caller: Caller,
    picked: Sequence[Picked],
    *,
    decision: str,
    reason: str | None,
    approved_until: datetime | None = None,
) -> tuple[Result, ...]:
    """Decide each of `picked`, in their order; what became of each. What is approved so is for exactly what was asked.

    Raises:
        InvalidRequest: Nothing or too much is listed, something twice, or approvals are not all of one kind.
        StoreUnavailable: The database did not answer to the first; later on that is a result.
    """
    if not 0 < len(picked) <= MOST or len({each.task_id for each in picked}) != len(picked):
        raise InvalidRequest(f"From 1 to {MOST} requests are to be listed, each once.", pointer="/requests")
    if decision == "approve":
        found = await look_at(ctx, caller, picked)
        if len(found) != len(picked) or not are_alike(found):
            raise InvalidRequest("Only requests of one kind and one risk are approved together.", pointer="/requests")
    results: list[Result] = []
    for each in picked:
        try:
            code = await _decide(ctx, caller, each, decision=decision, reason=reason, approved_until=approved_until)
        except StoreUnavailable:
            if not results:
                raise
            # What was recorded must not be lost with an error for all; what becomes of the others nobody can say now.
            left = picked[len(results) + 1 :]
            return (*results, Result(each, "unsure", None), *(Result(one, "not_tried", None) for one in left))
        results.append(Result(each, code, await _find(ctx, caller, each)))
    return tuple(results)


async def _decide(
    ctx: Context, caller: Caller, each: Picked, *, decision: str, reason: str | None, approved_until: datetime | None
) -> str:
    try:
        await decide(
            ctx,
            caller,
            each.task_id,
            decision=decision,
            version=each.version,
            reason=reason,
            approved_until=approved_until,
            # How wide its template would make it is for the page of each to say and to narrow.
            may_vary=() if decision == "approve" else None,
        )
    except StaleVersion:
        return "changed"
    except InvalidTaskState:
        return "ended"
    except StepUpRequired:
        return StepUpRequired.code
    except IneligibleApprover as refused:
        return str(refused.extra.get("code", "not_assigned"))
    except Forbidden:
        return "missing_scope"
    except InputInvalid:
        return "incomplete"
    except (UnknownTask, TaskExpired, InvalidRequest):
        return "unknown"
    return "recorded"


async def _find(ctx: Context, caller: Caller, each: Picked) -> RequestDetail | None:
    try:
        return await detail(ctx, caller, each.task_id)
    except (ArapError, StoreUnavailable):
        return None
