"""What a settled request has come to: can its approval still be used, was it used, is a report still to come.

Pure: it looks at what the use cases show and at the time, changes nothing, and grants no right; whether an approval may
be taken back is decided by `requests.revoke`. See design.md section 7, "After".
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from arap_service.views import RequestDetail
from arap_service.web.words import USED, outcome


@dataclass(frozen=True, slots=True)
class Outcome:
    """A settled request in the reader's terms.

    `text` says it in a sentence; `lifetime` is what was granted; `is_usable` means that something can still run,
    `is_over` that the time ran out unused, `is_awaited` that nothing has been reported yet although it may be any time.
    """

    text: str
    lifetime: timedelta | None
    is_usable: bool
    is_over: bool
    is_awaited: bool


def outcome_of(detail: RequestDetail, *, now: datetime) -> Outcome:
    """What `detail` has come to at `now`."""
    approval = detail.approval
    use = next((report for report in detail.executions if report.disposition in USED), None)
    in_force = approval is not None and approval.status == "active" and now < approval.approved_until
    is_usable = in_force and use is None
    text = outcome(
        detail.status,
        approval.status if approval else None,
        in_force=in_force,
        reported=use.disposition if use else "unused" if detail.executions else None,
        is_wide=approval is not None and bool(approval.may_vary),
    )
    return Outcome(
        text=text,
        lifetime=None if approval is None else approval.approved_until - approval.approved_at,
        is_usable=is_usable,
        is_over=use is None and approval is not None and approval.status == "active" and not in_force,
        is_awaited=is_usable and not detail.executions,
    )
