"""Whatever it is sent, the service answers as its own OpenAPI document says.

A short run; `python -m tests.deep schemathesis` makes 50,000 calls. OpenAPI 3.1; RFC 9457.
"""

import copy
from pathlib import Path

import pytest

from arap_service.store import migrate
from tests.databases import Databases
from tests.fuzz.service import target


@pytest.mark.timeout(600)
def test_every_answer_to_valid_and_invalid_calls_is_described_and_none_is_a_fault(
    service_url: str, tmp_path: Path
) -> None:
    with target(tmp_path, database=service_url) as service:
        found = service.explore(calls=500, seed=20261130)
        described = {
            f"{method.upper()} {path}"
            for path, operations in service.document["paths"].items()
            for method in operations
        }
    assert found.faults == {}
    assert {operation for operation, _ in found.answers} == described
    assert found.only_refused == []
    assert {200, 400, 401, 403, 404, 409} <= {status for _, status in found.answers}


def test_an_answer_that_is_not_described_is_found(databases: Databases, tmp_path: Path) -> None:
    """The search can fail: the same service is compared with a document that lacks a status and a media type."""
    database = databases.copy_of("sqlite", "service", migrate.upgrade)
    with target(tmp_path, database=database) as service:
        few = ("/metrics", "/jwks.json", "/resolver/v1/deliveries", "/resolver/v1/deliveries/{delivery_id}")
        wrong = copy.deepcopy(service.document)
        wrong["paths"] = {path: wrong["paths"][path] for path in few}
        wrong["paths"]["/metrics"]["get"]["responses"] = {"204": {"description": "Nothing"}}
        wrong["paths"]["/jwks.json"]["get"]["responses"]["200"]["content"] = {"text/html": {}}
        found = service.explore(calls=1, seed=1, document=wrong)
    assert ("GET /metrics", "UndefinedStatusCode at 200") in found.faults
    assert ("GET /jwks.json", "UndefinedContentType at 200") in found.faults
