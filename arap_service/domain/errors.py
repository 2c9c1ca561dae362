"""The error taxonomy: one class for each problem type that the service answers with.

An error is raised where its rule lives and rendered at the edges (`api/problems.py`, `web/pages.py`). It carries only
words of ours: never a submitted value, a token, a name of a person or the text of another exception (ARS-05). Access
Request and Approval Profile, "Error Responses"; the names under `urn:x-arap:` are the project's own (ARS-04).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from arap_service.protocol.arap import ProblemType

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ArapError(Exception):
    """What a caller got wrong, or may not do, as a problem type with its HTTP status.

    `detail` is shown to the caller, `headers` go on the response, `extra` holds more members of the problem document.
    """

    urn: ClassVar[ProblemType]
    status: ClassVar[int]
    title: ClassVar[str]

    def __init__(
        self,
        detail: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail: str | None = detail
        self.headers: Mapping[str, str] = MappingProxyType(dict(headers or _NOTHING))
        self.extra: Mapping[str, Any] = MappingProxyType(dict(extra or _NOTHING))


class NotRequestable(ArapError):
    """The submission does not rest on a requestable denial (ARS-12)."""

    urn = ProblemType.NOT_REQUESTABLE
    status = urn.status
    title = "The denial is not requestable"


class ExpiredDenial(ArapError):
    """The denial's binding is proven, but its deadline has passed (ARS-30)."""

    urn = ProblemType.EXPIRED_DENIAL
    status = urn.status
    title = "The denial has expired"


class InvalidDenialBinding(ArapError):
    """The submission is not proven to belong to the denied evaluation (ARS-20, ARS-38)."""

    urn = ProblemType.INVALID_DENIAL_BINDING
    status = urn.status
    title = "The denial binding is not valid"


class DuplicateRequest(ArapError):
    """The idempotency key was used before with another body (ARS-40)."""

    urn = ProblemType.DUPLICATE_REQUEST
    status = urn.status
    title = "The idempotency key belongs to another request"


class UnknownTask(ArapError):
    """No such task, or none that this caller may know of; the two look alike (ARS-63)."""

    urn = ProblemType.UNKNOWN_TASK
    status = urn.status
    title = "The task is not known"


class TaskExpired(ArapError):
    """The task existed, but its result is no longer kept (ARS-62)."""

    urn = ProblemType.TASK_EXPIRED
    status = urn.status
    title = "The task is no longer available"


class InvalidTaskState(ArapError):
    """The task's state does not allow the operation; `extra` shows the current status and version (ARS-73)."""

    urn = ProblemType.INVALID_TASK_STATE
    status = urn.status
    title = "The task is in another state"

    def __init__(self, detail: str | None = None, *, current: str | None = None, version: int | None = None) -> None:
        members = {"current_status": current, "version": version}
        super().__init__(detail, extra={name: value for name, value in members.items() if value is not None})


class InvalidRequest(ArapError):
    """The request is malformed; `pointer` names the faulty member as a JSON pointer, never its value."""

    urn = ProblemType.INVALID_REQUEST
    status = urn.status
    title = "The request is not valid"

    def __init__(self, detail: str | None = None, *, pointer: str | None = None) -> None:
        super().__init__(detail, extra=None if pointer is None else {"pointer": pointer})


class NotFound(ArapError):
    """There is no such thing as an operator has named, or there is no more; requests have `UnknownTask`."""

    urn = ProblemType.NOT_FOUND
    status = urn.status
    title = "There is no such thing here"


class Forbidden(ArapError):
    """The caller is known but lacks the right; `scope` names the missing one as RFC 6750 wants it (ARS-01, ARS-02)."""

    urn = ProblemType.FORBIDDEN
    status = urn.status
    title = "The caller may not do this"

    def __init__(self, detail: str | None = None, *, scope: str | None = None) -> None:
        challenge = (
            None if scope is None else {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
        )
        super().__init__(detail, headers=challenge)


class StepUpRequired(Forbidden):
    """The caller may decide, but has to prove anew who he is; `seconds` says how fresh a log-in must be (RFC 9470)."""

    code = "step_up_required"

    def __init__(self, *, seconds: int) -> None:
        super().__init__("Deciding this needs a fresh log-in.")
        challenge = f'Bearer error="insufficient_user_authentication", max_age="{seconds}"'
        self.headers = MappingProxyType({"WWW-Authenticate": challenge})
        self.extra = MappingProxyType({"code": self.code, "max_age": seconds})


class ActorUnverified(ArapError):
    """The claimed chain of actors is not proven by the caller's credential (ARS-99)."""

    urn = ProblemType.ACTOR_UNVERIFIED
    status = urn.status
    title = "The chain of actors is not proven"


class InputInvalid(ArapError):
    """The submission's input breaks the published schema; `errors` are {pointer, code} pairs (ARS-105)."""

    urn = ProblemType.INPUT_INVALID
    status = urn.status
    title = "The input does not satisfy the request schema"

    def __init__(self, detail: str | None = None, *, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail, extra={"errors": [dict(error) for error in errors]})


class CatalogValueRejected(ArapError):
    """A value taken from a catalog is stale, retired or not requestable by this caller (ARS-109)."""

    urn = ProblemType.CATALOG_VALUE_REJECTED
    status = urn.status
    title = "A catalog value is not accepted"


class CallbackRejected(ArapError):
    """The callback destination or its events are not acceptable (ARS-88, ARS-91)."""

    urn = ProblemType.CALLBACK_REJECTED
    status = urn.status
    title = "The callback is not accepted"


class BulkUnsupported(ArapError):
    """The submission names several items and this service takes one at a time (ARS-87)."""

    urn = ProblemType.BULK_UNSUPPORTED
    status = urn.status
    title = "Requests with several items are not supported"


class RateLimited(ArapError):
    """The caller asks too often; `retry_after` is in whole seconds (ARS-06)."""

    urn = ProblemType.RATE_LIMITED
    status = urn.status
    title = "Too many requests"

    def __init__(self, detail: str | None = None, *, retry_after: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


class IneligibleApprover(ArapError):
    """The person or resolver may not decide this request; `code` says by which rule (ARS-115)."""

    urn = ProblemType.INELIGIBLE_APPROVER
    status = urn.status
    title = "This decision is not yours to make"

    def __init__(self, detail: str | None = None, *, code: str | None = None) -> None:
        super().__init__(detail, extra=None if code is None else {"code": code})


class StaleVersion(ArapError):
    """The decision rests on an older version of the request than the current one (ARS-118)."""

    urn = ProblemType.STALE_VERSION
    status = urn.status
    title = "The request has changed since it was read"

    def __init__(self, detail: str | None = None, *, current: str, version: int) -> None:
        super().__init__(detail, extra={"current_status": current, "version": version})


class SearchUnsupported(ArapError):
    """The decision point upstream decides, and offers no search of this kind."""

    urn = ProblemType.SEARCH_UNSUPPORTED
    status = urn.status
    title = "The decision point upstream offers no such search"


class UpstreamFailed(ArapError):
    """The decision point upstream gave no usable answer where a denial would say nothing true."""

    urn = ProblemType.UPSTREAM_UNAVAILABLE
    status = urn.status
    title = "The decision point upstream cannot answer now"

    def __init__(self, retry_after: int = 1) -> None:
        super().__init__(headers={"Retry-After": str(retry_after)})


class PayloadTooLarge(ArapError):
    """The body exceeds the configured size (PDP-13)."""

    urn = ProblemType.PAYLOAD_TOO_LARGE
    status = urn.status
    title = "The body is too large"


class Unauthenticated(ArapError):
    """No credential, or one that does not verify; the reason stays in the log (ARS-01, PDP-10)."""

    urn = ProblemType.UNAUTHENTICATED
    status = urn.status
    title = "A valid access token is required"

    def __init__(self, detail: str | None = None, *, error: str | None = None) -> None:
        challenge = "Bearer" if error is None else f'Bearer error="{error}"'
        super().__init__(detail, headers={"WWW-Authenticate": challenge})
