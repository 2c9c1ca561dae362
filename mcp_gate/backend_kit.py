"""Checks that every approval backend must pass, whoever wrote it; each is one coroutine about one duty.

Write a `Subject` around your backend, and run `CHECKS` with the test runner of your choice, each on a subject of its
own. The duties are those of `backend.ApprovalBackend`; nothing here knows how a backend keeps them. SEP-2848, "An
approval backend".
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import JsonValue

from mcp_gate.backend import Accepted, ApprovalBackend, BackendStatus, BackendUnavailable, Denial, Handle, Permit

Question = Mapping[str, JsonValue]
_ENDED: Final = frozenset({"denied", "expired", "cancelled", "failed"})


class CheckFailed(AssertionError):
    """The backend does not keep the duty; the text says what it did instead."""


class Subject(Protocol):
    """A backend under test, and what its surroundings must be able to do to it.

    `requestable(n)` are questions, a different call for each `n`, which are denied and may be requested. The others
    are decided without anybody. `advance` moves the time that the backend goes by, in seconds. `restarted` is a backend
    that knows only what the first one has stored.
    """

    @property
    def backend(self) -> ApprovalBackend:
        """The backend."""
        ...

    def permitted(self) -> Question:
        """A question that is permitted."""
        ...

    def refused(self) -> Question:
        """A question that is denied, and that nobody may approve."""
        ...

    def requestable(self, number: int = 1) -> Question:
        """A question that is denied, and that somebody may approve."""
        ...

    async def approve(self, handle: Handle) -> bool:
        """Tries to approve, as a reviewer would; whether it was accepted."""
        ...

    async def deny(self, handle: Handle) -> None:
        """Denies, as a reviewer would."""
        ...

    async def advance(self, seconds: float) -> None:
        """Lets time pass."""
        ...

    async def restarted(self) -> ApprovalBackend:
        """The backend after a restart of whatever it runs in."""
        ...


@dataclass(frozen=True, slots=True)
class Check:
    """One duty: its name, what it says, and the coroutine that raises `CheckFailed` when it is not kept."""

    name: str
    says: str
    run: Callable[[Subject], Awaitable[None]]


def _expect(kept: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as an assertion
    if not kept:
        raise CheckFailed(otherwise)


async def _denial(subject: Subject, question: Question) -> Denial:
    decision = await subject.backend.evaluate(question)
    if not isinstance(decision, Denial) or not decision.requestable:
        raise CheckFailed("a call that needs approval was not a requestable denial")
    return decision


async def _submitted(subject: Subject, number: int = 1, *, key: str = "kit-key-1") -> Accepted:
    question = subject.requestable(number)
    body = subject.backend.submission_body(question, await _denial(subject, question))
    accepted = await subject.backend.submit(body, key=key)
    if not isinstance(accepted, Accepted):
        raise CheckFailed("a submission for a fresh requestable denial was refused")
    return accepted


async def _approved(subject: Subject, number: int = 1) -> tuple[Handle, BackendStatus]:
    accepted = await _submitted(subject, number)
    _expect(await subject.approve(accepted.handle), "a pending request could not be approved")
    return accepted.handle, await subject.backend.status(accepted.handle)


async def permits(subject: Subject) -> None:
    """A call that needs nobody is permitted."""
    decision = await subject.backend.evaluate(subject.permitted())
    _expect(isinstance(decision, Permit), "a permitted call was denied")


async def denies(subject: Subject) -> None:
    """A plain denial offers no request."""
    decision = await subject.backend.evaluate(subject.refused())
    _expect(isinstance(decision, Denial), "a denied call was permitted")
    _expect(isinstance(decision, Denial) and not decision.requestable, "a plain denial could be requested")


async def opens_pending(subject: Subject) -> None:
    """A submission opens a request that waits, and that does not permit anything yet."""
    accepted = await _submitted(subject)
    status = await subject.backend.status(accepted.handle)
    _expect(status.status == "pending" and status.approval is None, "a new request is not simply pending")
    again = await subject.backend.evaluate(subject.requestable())
    _expect(isinstance(again, Denial), "the call was permitted while its request was pending")


async def body_is_pure(subject: Subject) -> None:
    """The body of a submission depends on its arguments alone, so that it can be stored before it is sent."""
    question = subject.requestable()
    denial = await _denial(subject, question)
    bodies = {subject.backend.submission_body(question, denial, callback_state="state-1") for _ in range(2)}
    _expect(len(bodies) == 1, "two bodies for the same submission differ")


async def repeats_are_one(subject: Subject) -> None:
    """The same bytes under the same key are the same request, also when it has ended."""
    question = subject.requestable()
    body = subject.backend.submission_body(question, await _denial(subject, question))
    first, second = [await subject.backend.submit(body, key="kit-key-1") for _ in range(2)]
    is_same = isinstance(first, Accepted) and isinstance(second, Accepted)
    _expect(is_same, "a repeated submission was refused")
    if isinstance(first, Accepted) and isinstance(second, Accepted):
        _expect(first.handle.task_id == second.handle.task_id, "a repeated submission opened a second request")
        await subject.deny(first.handle)
        third = await subject.backend.submit(body, key="kit-key-1")
        same = isinstance(third, Accepted) and third.handle.task_id == first.handle.task_id
        _expect(same, "a submission that was repeated after its end is not the same request")


async def keys_are_not_reused(subject: Subject) -> None:
    """Other bytes under a used key never get the earlier request."""
    first = await _submitted(subject, 1)
    question = subject.requestable(2)
    body = subject.backend.submission_body(question, await _denial(subject, question))
    second = await subject.backend.submit(body, key="kit-key-1")
    reused = isinstance(second, Accepted) and second.handle.task_id == first.handle.task_id
    _expect(not reused, "another call was given the request of an earlier one")
    _expect(not isinstance(second, Accepted), "a used key was accepted for another call")


async def approves(subject: Subject) -> None:
    """An approval is told by the status, and permits the call in a fresh decision."""
    _, status = await _approved(subject)
    _expect(status.status == "approved", "the status does not tell the approval")
    _expect(status.approval is not None and status.mode == "reevaluate", "the approval is not there to re-evaluate")
    decision = await subject.backend.evaluate(subject.requestable(), approval=status.approval)
    _expect(isinstance(decision, Permit), "the approved call was denied")


async def approval_is_for_one_call(subject: Subject) -> None:
    """An approval does not permit another call."""
    _, status = await _approved(subject)
    decision = await subject.backend.evaluate(subject.requestable(2), approval=status.approval)
    _expect(isinstance(decision, Denial), "an approval permitted a call that it was not given for")


async def approval_is_an_input(subject: Subject) -> None:
    """An approval does not override a plain denial."""
    _, status = await _approved(subject)
    decision = await subject.backend.evaluate(subject.refused(), approval=status.approval)
    _expect(isinstance(decision, Denial), "an approval permitted a call that nobody may approve")


async def invented_approval(subject: Subject) -> None:
    """An approval that the backend never gave permits nothing."""
    decision = await subject.backend.evaluate(subject.requestable(), approval={"id": "kit-invented"})
    _expect(isinstance(decision, Denial), "an invented approval permitted a call")


async def denial_is_final(subject: Subject) -> None:
    """A denied request says so, carries no approval, and cannot be approved any more."""
    accepted = await _submitted(subject)
    await subject.deny(accepted.handle)
    _expect(not await subject.approve(accepted.handle), "a denied request was approved afterwards")
    status = await subject.backend.status(accepted.handle)
    _expect(status.status == "denied" and status.approval is None, "the status does not tell the denial")


async def cancelled_stays_cancelled(subject: Subject) -> None:
    """A cancelled request ends, and cannot be approved any more."""
    accepted = await _submitted(subject)
    if accepted.handle.cancel_url is None:
        return
    await subject.backend.cancel(accepted.handle)
    _expect(not await subject.approve(accepted.handle), "a cancelled request was approved afterwards")
    status = await subject.backend.status(accepted.handle)
    _expect(status.status in _ENDED or status.gone, "a cancelled request goes on")


async def approval_ends(subject: Subject) -> None:
    """An approval ends when it says that it does."""
    _, status = await _approved(subject)
    _expect(status.approved_until is not None, "an approval has no end")
    await subject.advance(10 * 365 * 86_400)
    decision = await subject.backend.evaluate(subject.requestable(), approval=status.approval)
    _expect(isinstance(decision, Denial), "an approval was still good ten years later")


async def requests_end(subject: Subject) -> None:
    """A request that nobody decides ends, and cannot be approved any more."""
    accepted = await _submitted(subject)
    await subject.advance(10 * 365 * 86_400)
    _expect(not await subject.approve(accepted.handle), "a request was approved ten years later")
    try:
        status = await subject.backend.status(accepted.handle)
    except BackendUnavailable as error:
        raise CheckFailed("the status of an ended request could not be read") from error
    _expect(status.gone or status.status in _ENDED, "a request was still open ten years later")


async def survives_a_restart(subject: Subject) -> None:
    """A request and its approval are there after a restart."""
    handle, _ = await _approved(subject)
    backend = await subject.restarted()
    status = await backend.status(handle)
    _expect(status.status == "approved" and status.approval is not None, "an approval was lost in a restart")
    decision = await backend.evaluate(subject.requestable(), approval=status.approval)
    _expect(isinstance(decision, Permit), "an approval was no longer good after a restart")


async def unknown_is_not_approved(subject: Subject) -> None:
    """A request that the backend does not know is gone, and never approved."""
    accepted = await _submitted(subject)
    known = accepted.handle
    unknown = Handle(known.task_id + "x", known.status_endpoint + "x", known.cancel_url, known.report_url)
    try:
        status = await subject.backend.status(unknown)
    except BackendUnavailable:
        return
    _expect(status.gone and status.approval is None, "an unknown request has a status")


async def reports_are_taken(subject: Subject) -> None:
    """What became of an approved call can be reported, more than once, and changes no decision."""
    handle, _ = await _approved(subject)
    for _ in range(2):
        await subject.backend.report(
            handle, {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 1}
        )
    status = await subject.backend.status(handle)
    _expect(status.status == "approved", "a report changed the decision")


CHECKS: Final[tuple[Check, ...]] = tuple(
    Check(run.__name__.replace("_", "-"), (run.__doc__ or "").strip(), run)
    for run in (
        permits,
        denies,
        opens_pending,
        body_is_pure,
        repeats_are_one,
        keys_are_not_reused,
        approves,
        approval_is_for_one_call,
        approval_is_an_input,
        invented_approval,
        denial_is_final,
        cancelled_stays_cancelled,
        approval_ends,
        requests_end,
        survives_a_restart,
        unknown_is_not_approved,
        reports_are_taken,
    )
)
"""All checks; run each on a subject of its own."""
