"""Completes the OpenAPI document: what all operations share, and how the answer of one leads to the next.

What is special about an operation stands at its route. Here is what follows from its kind: whoever needs a token may be
refused for having none, a body may be too large, a parameter of the wrong form is 400 here and never the framework's
422, and the store may be out of reach. OpenAPI 3.1, "Link Object", "Security Requirement Object".
"""

from collections.abc import Iterator
from typing import Any, Final

from fastapi.routing import APIRoute

from arap_service.api.problems import PROBLEM_JSON, problem_responses
from arap_service.domain import errors

SECURITY_SCHEME: Final = "access_token"
_FRAMEWORK_ERROR: Final = "#/components/schemas/HTTPValidationError"
_UNAVAILABLE: Final = {
    "description": "The store cannot be reached now",
    "content": {
        PROBLEM_JSON: {
            "schema": {
                "type": "object",
                "required": ["type", "title", "status"],
                "properties": {
                    "type": {"const": "about:blank"},
                    "title": {"type": "string"},
                    "status": {"const": 503},
                },
            }
        }
    },
}
_TASK: Final = "$response.body#/task/id"
_BY_REQUESTER: Final = (
    "requests_status",
    "requests_cancel",
    "requests_report",
    "conversation_question",
    "conversation_answer",
)
_BY_REVIEWER: Final = (
    "resolver_detail",
    "conversation_claim",
    "conversation_release",
    "conversation_ask",
    "conversation_comment",
    "conversation_cancel",
)
_AFTER_SUBMISSION: Final[dict[str, dict[str, Any]]] = {
    **{operation: {"parameters": {"path.task_id": _TASK}} for operation in _BY_REQUESTER},
    "requests_report_item": {"parameters": {"path.task_id": _TASK, "path.item": 1}},
    **{operation: {"parameters": {"path.request_id": _TASK}} for operation in _BY_REVIEWER},
}
_OFFER: Final = "$response.body#/context/access_request"
_APPROVAL: Final = "$response.body#/result/approval/id"
LINKS: Final[dict[tuple[str, str], dict[str, dict[str, Any]]]] = {
    ("pdp_single", "200"): {
        "requests_submit": {
            "requestBody": {
                "subject": "$request.body#/subject",
                "resource": "$request.body#/resource",
                "action": "$request.body#/action",
                "context": "$request.body#/context",
                "denial": {
                    "evaluation_id": "$response.body#/context/evaluation_id",
                    "binding_token": f"{_OFFER}/binding_token",
                    "expires_at": f"{_OFFER}/expires_at",
                },
            }
        }
    },
    ("requests_submit", "201"): _AFTER_SUBMISSION,
    ("requests_submit", "202"): _AFTER_SUBMISSION,
    ("requests_status", "200"): {
        "resolver_revoke": {"parameters": {"path.approval_id": _APPROVAL}},
        "resolver_report": {"parameters": {"path.approval_id": _APPROVAL}},
    },
    ("resolver_detail", "200"): {
        "resolver_decide": {
            "parameters": {"path.request_id": "$response.body#/id"},
            "requestBody": {"version": "$response.body#/version"},
        }
    },
}
"""For each operation and status what can be done next, and what of the answer it takes."""


def operation_id(route: APIRoute) -> str:
    """The name of an operation, which does not change with the path that the service stands under."""
    return f"{route.endpoint.__module__.rpartition('.')[2]}_{route.name}"


def complete(document: dict[str, Any]) -> None:
    """Add to `document`, in place, what its routes do not say."""
    present = {operation["operationId"] for _, operation in _operations(document)}
    for _, operation in _operations(document):
        _complete(operation)
        for status, response in operation["responses"].items():
            links = LINKS.get((operation["operationId"], status), {})
            kept = {name: {"operationId": name, **link} for name, link in links.items() if name in present}
            if kept:
                response["links"] = kept
    components = document.setdefault("components", {})
    schemas = components.get("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    components["securitySchemes"] = {SECURITY_SCHEME: {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for operation in operations.values():
            yield path, operation


def _complete(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    shared: list[type[errors.ArapError]] = []
    if _FRAMEWORK_ERROR in str(responses.get("422")):
        del responses["422"]
        shared.append(errors.InvalidRequest)
    if "requestBody" in operation:
        shared += [errors.InvalidRequest, errors.PayloadTooLarge]
    if "401" in responses and not _is_token_request(operation):
        operation["security"] = [{SECURITY_SCHEME: []}]
        responses.setdefault("503", _UNAVAILABLE)
    for status, response in problem_responses(*dict.fromkeys(shared)).items():
        responses.setdefault(str(status), response)


def _is_token_request(operation: dict[str, Any]) -> bool:
    return "application/x-www-form-urlencoded" in operation.get("requestBody", {}).get("content", {})
