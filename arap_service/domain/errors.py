"""The error taxonomy: one class for each problem type that the service answers with.

An error is raised where its rule lives and rendered at the edges (`api/problems.py`, `web/pages.py`). It carries only
words of ours: never a submitted value, a token, a name of a person or the text of another exception (ARS-05). Access
Request and Approval Profile, "Error Responses"; the names under `urn:x-arap:` are the project's own (ARS-04).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_PROFILE: Final = "urn:openid:authzen:access-request:error:"
_OURS: Final = "urn:x-arap:problem:"


class ArapError(Exception):
    """What a caller got wrong, or may not do, as a problem type with its HTTP status.

    `detail` is shown to the caller, `headers` go on the response, `extra` holds more members of the problem document.
    """

    urn: ClassVar[str]
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

    urn = _PROFILE + "not_requestable"
    status = 400
    title = "The denial is not requestable"


class ExpiredDenial(ArapError):
    """The denial's binding is proven, but its deadline has passed (ARS-30)."""

    urn = _PROFILE + "expired_denial"
    status = 410
    title = "The denial has expired"


class InvalidDenialBinding(ArapError):
    """The submission is not proven to belong to the denied evaluation (ARS-20, ARS-38)."""

    urn = _PROFILE + "invalid_denial_binding"
    status = 400
    title = "The denial binding is not valid"


class DuplicateRequest(ArapError):
    """The idempotency key was used before with another body (ARS-40)."""

    urn = _PROFILE + "duplicate_request"
    status = 409
    title = "The idempotency key belongs to another request"


class UnknownTask(ArapError):
    """No such task, or none that this caller may know of; the two look alike (ARS-63)."""

    urn = _PROFILE + "unknown_task"
    status = 404
    title = "The task is not known"


class TaskExpired(ArapError):
    """The task existed, but its result is no longer kept (ARS-62)."""

    urn = _PROFILE + "task_expired"
    status = 410
    title = "The task is no longer available"


class InvalidTaskState(ArapError):
    """The task's state does not allow the operation; `extra` shows the current status and version (ARS-73)."""

    urn = _PROFILE + "invalid_task_state"
    status = 409
    title = "The task is in another state"

    def __init__(self, detail: str | None = None, *, current: str | None = None, version: int | None = None) -> None:
        members = {"current_status": current, "version": version}
        super().__init__(detail, extra={name: value for name, value in members.items() if value is not None})


class InvalidRequest(ArapError):
    """The request is malformed; `pointer` names the faulty member as a JSON pointer, never its value."""

    urn = _OURS + "invalid-request"
    status = 400
    title = "The request is not valid"

    def __init__(self, detail: str | None = None, *, pointer: str | None = None) -> None:
        super().__init__(detail, extra=None if pointer is None else {"pointer": pointer})


class Forbidden(ArapError):
    """The caller is known but lacks the right; `scope` names the missing one as RFC 6750 wants it (ARS-01, ARS-02)."""

    urn = _OURS + "forbidden"
    status = 403
    title = "The caller may not do this"

    def __init__(self, detail: str | None = None, *, scope: str | None = None) -> None:
        challenge = (
            None if scope is None else {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
        )
        super().__init__(detail, headers=challenge)


class ActorUnverified(ArapError):
    """The claimed chain of actors is not proven by the caller's credential (ARS-99)."""

    urn = _OURS + "actor-unverified"
    status = 403
    title = "The chain of actors is not proven"


class InputInvalid(ArapError):
    """The submission's input breaks the published schema; `errors` are {pointer, code} pairs (ARS-105)."""

    urn = _OURS + "input-invalid"
    status = 422
    title = "The input does not satisfy the request schema"

    def __init__(self, detail: str | None = None, *, errors: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(detail, extra={"errors": [dict(error) for error in errors]})


class CatalogValueRejected(ArapError):
    """A value taken from a catalog is stale, retired or not requestable by this caller (ARS-109)."""

    urn = _OURS + "catalog-value-rejected"
    status = 422
    title = "A catalog value is not accepted"


class CallbackRejected(ArapError):
    """The callback destination or its events are not acceptable (ARS-88, ARS-91)."""

    urn = _OURS + "callback-rejected"
    status = 400
    title = "The callback is not accepted"


class BulkUnsupported(ArapError):
    """The submission names several items and this service takes one at a time (ARS-87)."""

    urn = _OURS + "bulk-unsupported"
    status = 400
    title = "Requests with several items are not supported"


class RateLimited(ArapError):
    """The caller asks too often; `retry_after` is in whole seconds (ARS-06)."""

    urn = _OURS + "rate-limited"
    status = 429
    title = "Too many requests"

    def __init__(self, detail: str | None = None, *, retry_after: int) -> None:
        super().__init__(detail, headers={"Retry-After": str(retry_after)})


class IneligibleApprover(ArapError):
    """The person or resolver may not decide this request; `code` says by which rule (ARS-115)."""

    urn = _OURS + "ineligible-approver"
    status = 403
    title = "This decision is not yours to make"

    def __init__(self, detail: str | None = None, *, code: str | None = None) -> None:
        super().__init__(detail, extra=None if code is None else {"code": code})


class StaleVersion(ArapError):
    """The decision rests on an older version of the request than the current one (ARS-118)."""

    urn = _OURS + "stale-version"
    status = 409
    title = "The request has changed since it was read"

    def __init__(self, detail: str | None = None, *, current: str, version: int) -> None:
        super().__init__(detail, extra={"current_status": current, "version": version})


class PayloadTooLarge(ArapError):
    """The body exceeds the configured size (PDP-13)."""

    urn = _OURS + "payload-too-large"
    status = 413
    title = "The body is too large"


class Unauthenticated(ArapError):
    """No credential, or one that does not verify; the reason stays in the log (ARS-01, PDP-10)."""

    urn = _OURS + "unauthenticated"
    status = 401
    title = "A valid access token is required"

    def __init__(self, detail: str | None = None, *, error: str | None = None) -> None:
        challenge = "Bearer" if error is None else f'Bearer error="{error}"'
        super().__init__(detail, headers={"WWW-Authenticate": challenge})
