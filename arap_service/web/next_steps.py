"""What a decision would bring about next, in a reviewer's words: pure, from what the use cases show of a request."""

from arap_service.views import RequestDetail, StepView
from arap_service.web.words import counted


def after_approval(detail: RequestDetail) -> str:
    """What is still needed once the reader has approved; empty where he may not."""
    own = next((step for step in detail.steps if step.id == detail.decides_in), None)
    if own is None:
        return ""
    left = own.quorum - own.approvals - 1
    if left > 0:
        return f"After your approval, {counted(left, 'more approval')} {_is(left)} needed in {own.title}."
    beside = [step.title for step in detail.steps if step.status == "waiting" and step is not own]
    if beside:
        return f"Your approval completes {own.title}. {_listed(beside)} still {_has(beside)} to agree as well."
    then = _next(detail, own)
    if then:
        return f"Your approval completes {own.title}. Then {_listed(then)} {_has(then)} to agree."
    return "Yours is the last approval that is needed: it can run from then on."


def has_odd_letters(detail: RequestDetail) -> bool:
    """Whether a value on the page holds characters that are invisible or look like others."""
    stated = () if detail.stated is None else detail.stated.values
    return any(value.suspicious for value in (*detail.arguments, *detail.facts, *stated))


def after_denial(detail: RequestDetail) -> str:
    """What becomes of the request once the reader has denied."""
    own = next((step for step in detail.steps if step.id == detail.decides_in), None)
    if own is None:
        return ""
    left = own.veto - own.denials - 1
    return (
        "Your denial ends the request." if left <= 0 else f"It takes {counted(left, 'more denial')} to end the request."
    )


def _next(detail: RequestDetail, own: StepView) -> list[str]:
    done = {step.title for step in detail.steps if step.status == "completed"} | {own.title}
    later = [step for step in detail.steps if step.status == "later"]
    return [step.title for step in later if done.issuperset(step.after)] or [step.title for step in later]


def _listed(titles: list[str]) -> str:
    return titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"


def _has(titles: list[str]) -> str:
    return "has" if len(titles) == 1 else "have"


def _is(number: int) -> str:
    return "is" if number == 1 else "are"
