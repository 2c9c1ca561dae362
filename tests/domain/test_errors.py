"""The error taxonomy: every problem type has its class, and none carries anything but our own words."""

import pytest

from arap_service.domain import errors
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    RateLimited,
    StaleVersion,
    Unauthenticated,
    UnknownTask,
)
from arap_service.protocol.arap import ProblemType

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ArapError)]


@pytest.mark.requirement("ARS-03", "ARS-04")
def test_each_problem_type_has_exactly_one_class_with_its_status() -> None:
    """A step-up is a case of a forbidden decision, told apart by its code."""
    others = {ArapError, errors.StepUpRequired}
    assert sorted((each.urn, each.status) for each in CLASSES if each not in others) == sorted(
        (problem, problem.status) for problem in ProblemType
    )
    assert errors.StepUpRequired.urn == Forbidden.urn


@pytest.mark.parametrize(
    ("error", "status", "headers", "extra"),
    [
        (UnknownTask(), 404, {}, {}),
        (InvalidRequest("A member is missing", pointer="/denial"), 400, {}, {"pointer": "/denial"}),
        (InvalidRequest(), 400, {}, {}),
        (
            InvalidTaskState(current="approved", version=3),
            409,
            {},
            {"current_status": "approved", "version": 3},
        ),
        (InvalidTaskState(), 409, {}, {}),
        (StaleVersion(current="pending", version=3), 409, {}, {"current_status": "pending", "version": 3}),
        (
            InputInvalid(errors=[{"pointer": "/a", "code": "type"}]),
            422,
            {},
            {"errors": [{"pointer": "/a", "code": "type"}]},
        ),
        (IneligibleApprover(code="is_subject"), 403, {}, {"code": "is_subject"}),
        (IneligibleApprover(), 403, {}, {}),
        (RateLimited(retry_after=7), 429, {"Retry-After": "7"}, {}),
        (Unauthenticated(), 401, {"WWW-Authenticate": "Bearer"}, {}),
        (Unauthenticated(error="invalid_token"), 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'}, {}),
        (
            Forbidden(scope="arap:submit"),
            403,
            {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="arap:submit"'},
            {},
        ),
        (Forbidden(), 403, {}, {}),
    ],
)
def test_what_an_error_puts_on_the_wire(
    error: ArapError, status: int, headers: dict[str, str], extra: dict[str, object]
) -> None:
    assert (error.status, error.headers, error.extra) == (status, headers, extra)


def test_without_a_detail_the_text_of_an_error_is_its_title() -> None:
    assert str(UnknownTask()) == UnknownTask.title
    assert UnknownTask().detail is None
    assert str(InvalidRequest("A member is missing")) == "A member is missing"
