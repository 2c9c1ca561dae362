"""The backend protocol. Provenance: SEP-2848 "An approval backend"; ARAP "Recognize the Denial"."""

from typing import Any

import pytest

from mcp_gate.backend import ApprovalBackend, BackendUnavailable, Denial
from tests.clock import FakeClock
from tests.gate.foreign_backend import ForeignBackend


@pytest.mark.requirement("PEP-31")
def test_a_denial_is_requestable_only_with_both_its_parts() -> None:
    offered: dict[str, Any] = {"binding_token": "x"}
    assert Denial(next_action="request", access_request=offered).requestable
    assert not Denial(next_action="request").requestable
    assert not Denial(next_action="none", access_request=offered).requestable
    assert not Denial(next_action="retry", access_request=offered).requestable


def test_an_unavailable_backend_may_say_when_to_come_back() -> None:
    assert BackendUnavailable().retry_after is None
    assert BackendUnavailable(retry_after=30).retry_after == 30


def test_somebody_elses_backend_fits_the_protocol() -> None:
    """Checked by the type checker as much as by this line."""
    backend: ApprovalBackend = ForeignBackend(FakeClock())
    assert callable(backend.evaluate)
