"""The approval backend over HTTP: AuthZEN evaluations and ARAP access requests.

Speaks for the gate to one decision point and its access request service, and turns every answer into the types of
`backend`. It echoes what it was given and interprets neither binding tokens nor approval state (PEP-36); it keeps no
state of tasks. ARAP: Recognize the Denial, Construct the Submission, Poll the Task, Re-evaluate.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import structlog
from pydantic import JsonValue

from arap_service.protocol.arap import (
    DISPLAY_DECISION,
    LINK_INPUT,
    LINK_REPORT,
    REEVALUATE,
    ProblemType,
    TaskStatus,
    next_action,
    parse_instant,
    retry_after,
)
from mcp_gate.arap_channel import Answer, Channel, ChannelUnavailable, text_or_none
from mcp_gate.backend import (
    Accepted,
    AnswerRefused,
    BackendStatus,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    Handle,
    InputQuestion,
    Permit,
    Refused,
    Supplied,
)
from mcp_gate.inputs import fault
from mcp_gate.schema import Schema, SchemaInvalid

FROM_CONTEXT: Final = ("evaluation_id", "evaluated_at", "reason")
FROM_ACCESS_REQUEST: Final = ("expires_at", "binding_token", "template")
URLS: Final = ("endpoint", "form_url", "request_schema_url", "request_catalogs_url")
FORGOTTEN: Final = frozenset({ProblemType.UNKNOWN_TASK, ProblemType.TASK_EXPIRED})
UNTRUSTED_HANDLE: Final = "urn:x-arap:problem:untrusted-handle"

LONGEST_WAIT: Final = 2**53  # seconds; a JSON number may be larger than any float

log = structlog.get_logger(__name__)


class ArapBackend:
    """An `ApprovalBackend` over a `Channel`; `callback_endpoint` is where the service may wake the gate."""

    def __init__(self, channel: Channel, *, callback_endpoint: str | None = None) -> None:
        self._channel = channel
        self._callback_endpoint = callback_endpoint

    async def evaluate(
        self, question: Mapping[str, JsonValue], *, approval: Mapping[str, JsonValue] | None = None
    ) -> Permit | Denial:
        """Ask the decision point; with an approval it stands unchanged at `context.approval` (PEP-39, PEP-40).

        Raises:
            DecisionPointUnavailable: no decision was obtained.
        """
        asked = dict(question)
        if approval is not None:
            asked["context"] = {**_object(question.get("context")), "approval": dict(approval)}
        try:
            metadata = await self._channel.metadata()
            answer = await self._channel.send("POST", metadata.evaluation_endpoint, body=_encode(asked))
            if answer.status != 200:
                raise ChannelUnavailable(f"status {answer.status}")
            decision = answer.json()
        except ChannelUnavailable as error:
            log.warning("decision_point_unavailable", reason=str(error))
            raise DecisionPointUnavailable from None
        context = decision.get("context", {})
        if not isinstance(context, dict):
            raise DecisionPointUnavailable
        if decision.get("decision") is True:  # PEP-14: nothing else permits
            return _permit(context)
        if decision.get("decision") is not False:
            raise DecisionPointUnavailable
        return await self._denial(context)

    async def _denial(self, context: dict[str, JsonValue]) -> Denial:
        action = next_action(context)
        wait = retry_after(context)
        offered = context.get("access_request")
        usable = isinstance(offered, dict) and await self._may_request(offered)
        schema = None
        if usable and isinstance(offered, dict) and isinstance(url := offered.get("request_schema_url"), str):
            schema = await self._request_schema(url)
            usable = schema is not None
        if action == "request" and not usable:
            action = "none"
        return Denial(
            reason=text_or_none(context.get("reason")),
            next_action=action,
            retry_after=None if wait is None else float(min(wait, LONGEST_WAIT)),
            access_request=offered if usable and isinstance(offered, dict) else None,
            context=context,
            request_schema=schema,
        )

    async def _may_request(self, offered: Mapping[str, JsonValue]) -> bool:
        """Whether this gate may submit for the denial: trusted URLs, and an end to its validity."""
        if any(name in offered and not self._channel.is_trusted(offered[name]) for name in URLS):  # PEP-32
            log.warning("denial_names_untrusted_url")
            return False
        try:
            if "endpoint" not in offered and (await self._channel.metadata()).request_endpoint is None:
                return False
            parse_instant(str(offered.get("expires_at")))
        except (ChannelUnavailable, ValueError):
            return False
        return True

    async def _request_schema(self, url: str) -> Mapping[str, JsonValue] | None:
        """What a submission must contain, from an origin that was checked (PEP-33); None if that can't be learnt."""
        try:
            answer = await self._channel.send("GET", url)
            document = answer.json()
            Schema(document)
        except (ChannelUnavailable, SchemaInvalid):
            return None
        return document if answer.status == 200 else None

    def submission_body(
        self,
        question: Mapping[str, JsonValue],
        denial: Denial,
        *,
        requested_access: Mapping[str, JsonValue] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        """The endpoint, when the denial names one, and the JSON to post there, parted by a line end.

        Every denial member that was supplied is echoed as it came (PEP-35), and the question goes back whole, with
        the actor that it names (PEP-37).

        Raises:
            ValueError: the denial is not requestable, or demands more than is supplied.
        """
        offered = denial.access_request
        if offered is None or not denial.requestable:  # PEP-31
            raise ValueError("the denial is not requestable")
        if fault(denial.request_schema, question, Supplied(requested_access=requested_access or {})) is not None:
            raise ValueError("the denial demands more input")  # PEP-38
        echoed = {name: denial.context[name] for name in FROM_CONTEXT if name in denial.context}
        echoed |= {name: offered[name] for name in FROM_ACCESS_REQUEST if name in offered}
        body: dict[str, JsonValue] = {
            "subject": question["subject"],
            "resource": question["resource"],
            "action": question["action"],
            "context": {name: value for name, value in _object(question.get("context")).items() if name != "approval"},
            "denial": echoed,
        }
        if requested_access:
            body["requested_access"] = dict(requested_access)
        if self._callback_endpoint is not None and callback_state is not None:
            body["callback"] = {"endpoint": self._callback_endpoint, "state": callback_state}
        return str(offered.get("endpoint", "")).encode() + b"\n" + _encode(body)

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        """Post `body` under `key` to the denial's endpoint, else the metadata's (PEP-34, PEP-50).

        Raises:
            BackendUnavailable: it is unknown whether the request was accepted.
        """
        named, _, content = body.partition(b"\n")
        try:
            endpoint = named.decode() or (await self._channel.metadata()).request_endpoint
            if endpoint is None:
                raise ChannelUnavailable("no access request endpoint")
            answer = await self._channel.send("POST", endpoint, body=content, headers={"idempotency-key": key})
            if answer.status in {200, 201, 202}:
                return self._accepted(answer)
        except ChannelUnavailable as error:
            log.warning("submission_unanswered", reason=str(error))
            raise BackendUnavailable from None
        _raise_if_transient(answer)
        return Refused(_problem_type(answer), answer.status)

    def _accepted(self, answer: Answer) -> Accepted | Refused:
        document = answer.json()
        task = _object(document.get("task"))
        task_id, status_endpoint = task.get("id"), task.get("status_endpoint")
        if not isinstance(task_id, str) or not isinstance(status_endpoint, str):
            raise ChannelUnavailable("no task handle")
        if not self._channel.is_trusted(status_endpoint):
            log.warning("handle_is_untrusted")
            return Refused(UNTRUSTED_HANDLE, answer.status)
        status = self._status(Handle(task_id, status_endpoint), document, answer)
        return Accepted(status.handle or Handle(task_id, status_endpoint), status)

    async def status(self, handle: Handle) -> BackendStatus:
        """Read the stored status endpoint, never one that a callback names (PEP-94).

        Raises:
            BackendUnavailable: it could not be read, or tells of another task.
        """
        try:
            answer = await self._channel.send("GET", handle.status_endpoint)
            if _is_gone(answer):
                return BackendStatus(status="gone", gone=True)
            if answer.status != 200:
                raise BackendUnavailable(retry_after=answer.retry_after)
            document = answer.json()
            if _object(document.get("task")).get("id") != handle.task_id:  # PEP-53
                log.warning("status_of_another_task")
                raise BackendUnavailable
            status = self._status(handle, document, answer)
            current = status.handle or handle
            if status.status != TaskStatus.PENDING or current.input_url is None:
                return status
            return replace(status, input=await self._question(current.input_url))
        except ChannelUnavailable as error:
            log.warning("status_unavailable", reason=str(error))
            raise BackendUnavailable from None

    async def _question(self, url: str) -> InputQuestion | None:
        answer = await self._channel.send("GET", url)
        if answer.status != 200:
            return None
        document = answer.json()
        message, schema, version = document.get("message"), document.get("schema"), document.get("version")
        if not isinstance(message, str) or not isinstance(schema, dict) or type(version) is not int:
            return None
        return InputQuestion(message, schema, version)

    def _status(self, handle: Handle, document: Mapping[str, JsonValue], answer: Answer) -> BackendStatus:
        task, result = _object(document.get("task")), _object(document.get("result"))
        decision = _object(_object(task.get("display")).get(DISPLAY_DECISION))
        status = text_or_none(task.get("status")) or "unknown"
        approval, until = _approval(status, task, result)
        found = self._links(handle, task, result)
        return BackendStatus(
            status=status,
            expires_at=found.expires_at,
            approval=approval,
            approved_until=until,
            mode=text_or_none(result.get("mode")),
            retry_after=answer.retry_after,
            decision_text=text_or_none(decision.get("reason")),
            proposed_arguments=_object(decision.get("proposed_arguments")) or None,
            handle=found if found != handle else None,
        )

    def _links(self, handle: Handle, task: Mapping[str, JsonValue], result: Mapping[str, JsonValue]) -> Handle:
        links = _object(task.get("links"))

        def trusted(value: object, otherwise: str | None) -> str | None:
            return str(value) if self._channel.is_trusted(value) else otherwise

        return replace(
            handle,
            cancel_url=trusted(links.get("cancel"), handle.cancel_url),
            report_url=trusted(result.get(LINK_REPORT) or links.get(LINK_REPORT), handle.report_url),
            input_url=trusted(links.get(LINK_INPUT), None),
            expires_at=_instant(task.get("expires_at")) or handle.expires_at,
        )

    async def cancel(self, handle: Handle) -> None:
        """Ask the service to cancel, where it offers that.

        Raises:
            BackendUnavailable: to be tried again.
        """
        if handle.cancel_url is not None:
            await self._tell(handle.cancel_url, {"reason": "requester_cancelled"})

    async def report(self, handle: Handle, body: Mapping[str, JsonValue]) -> None:
        """Tell the service what became of the approval, where it asks for that.

        Raises:
            BackendUnavailable: to be tried again.
        """
        if handle.report_url is not None:
            await self._tell(handle.report_url, body)

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, JsonValue]) -> None:
        """Answer the reviewer's question of `version`.

        Raises:
            BackendUnavailable: to be tried again.
            AnswerRefused: the service doesn't take it, and wouldn't the next time.
        """
        if handle.input_url is None:
            return
        if not await self._tell(handle.input_url, {"version": version, "input": dict(answer)}):
            raise AnswerRefused

    async def _tell(self, url: str, body: Mapping[str, JsonValue]) -> bool:
        """Whether the service took it."""
        try:
            answer = await self._channel.send("POST", url, body=_encode(body))
        except ChannelUnavailable:
            raise BackendUnavailable from None
        _raise_if_transient(answer)
        if answer.status >= 300:
            log.info("backend_declined", status=answer.status)  # told once; asking again would change nothing
        return answer.status < 300


def _permit(context: dict[str, JsonValue]) -> Permit:
    echoed = context.get("approval")
    if not isinstance(echoed, dict) or "approved_until" not in echoed:
        return Permit(context)
    until = _instant(echoed["approved_until"])
    if until is None:  # PEP-41: an expiry that we cannot read cannot be kept
        raise DecisionPointUnavailable
    return Permit(context, until)


def _approval(
    status: str, task: Mapping[str, JsonValue], result: Mapping[str, JsonValue]
) -> tuple[Mapping[str, JsonValue] | None, datetime | None]:
    """The approval of a task that is approved in the one way that the profile defines, else nothing (PEP-42)."""
    approval = result.get("approval")
    if status != TaskStatus.APPROVED or "items" in task or result.get("mode") != REEVALUATE:
        return None, None
    if not isinstance(approval, dict) or not isinstance(approval.get("id"), str):
        return None, None
    until = _instant(approval.get("approved_until"))
    return (approval, until) if until is not None else (None, None)


def _raise_if_transient(answer: Answer) -> None:
    if answer.status in {401, 408, 425, 429} or answer.status >= 500 or 300 <= answer.status < 400:
        raise BackendUnavailable(retry_after=answer.retry_after)


def _is_gone(answer: Answer) -> bool:
    """Whether the service says that it has no such task; any proxy on the way may answer a bare 404 (PEP-47)."""
    return answer.status == 410 or (answer.status == 404 and _problem_type(answer) in FORGOTTEN)


def _problem_type(answer: Answer) -> str:
    try:
        return text_or_none(answer.json().get("type")) or "about:blank"
    except ChannelUnavailable:
        return "about:blank"


def _instant(value: object) -> datetime | None:
    try:
        return parse_instant(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _encode(value: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
