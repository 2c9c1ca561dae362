"""What checks look for in answers, and how they tell a refusal from a service that broke."""

import json
from typing import Any, Final

from arap_service.conformance.wire import URN, Answer
from blackbox_kit.model import Json, NotApplicable, NotKept, NotRun

ENDS: Final = ("approved", "denied", "expired", "cancelled", "failed", "partial")


def approval_of(found: Json) -> Json | None:
    """The approval in a status answer, in an item, or in none."""
    result = found.get("result")
    approval = result.get("approval") if isinstance(result, dict) else None
    return approval if isinstance(approval, dict) else None


def refused(answer: Answer, problem: str, what: str) -> None:
    """See that a submission was refused with this problem of the profile, its type written out.

    Raises:
        NotKept: It was not.
    """
    if answer.is_success:
        raise NotKept(f"{what} was accepted: {answer.brief()}")
    if answer.document.get("type") != URN + problem:
        raise NotKept(f"{what} was answered with {answer.brief()}, not {problem}")


def handled(answer: Answer, what: str) -> Answer:
    """The answer, unless the service broke over the request: that says neither yes nor no.

    Raises:
        NotRun: It did.
    """
    if answer.status >= 500:
        raise NotRun(f"{what} was answered with {answer.brief()}")
    return answer


def is_requestable(answer: Answer) -> bool:
    """Whether it is a denial with an offer to request access."""
    context = answer.document.get("context")
    offers = isinstance(context, dict) and isinstance(context.get("access_request"), dict)
    return answer.document.get("decision") is False and offers


def misnamed(status_endpoint: str, task_id: str) -> str:
    """Where the status of a task would be that does not exist.

    Raises:
        NotApplicable: Nobody can know.
    """
    other = task_id[:-1] + ("A" if task_id[-1] != "A" else "B")
    if task_id not in status_endpoint:
        raise NotApplicable("the id of a task is not in its status_endpoint")
    return status_endpoint.replace(task_id, other)


def shuffled(value: Json) -> bytes:
    """The same JSON value, members in another order and with other white space."""

    def turned(one: Any) -> Any:
        if isinstance(one, dict):
            return {name: turned(one[name]) for name in reversed(one)}
        return [turned(item) for item in one] if isinstance(one, list) else one

    return json.dumps(turned(value), indent=3).encode()
