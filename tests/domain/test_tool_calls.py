"""The shown call and the bound call are one, or nothing is asked about it."""

from typing import Any

import pytest

from arap_service.domain.tool_calls import flaw_of, is_bound
from arap_service.protocol.canonical import TOOL_CALL
from tests.protocol import vectors

VECTOR = vectors.load("binding-hash-extra")["arguments_hash"]


def context(call: Any, digest: Any = VECTOR["value"]) -> dict[str, Any]:
    return {TOOL_CALL: call, "arguments_hash": digest}


def call(**changes: Any) -> dict[str, Any]:
    return {"server": "bank", "tool": "wire_transfer", "arguments": VECTOR["arguments"], **changes}


@pytest.mark.requirement("PEP-24", "GOV-06")
def test_the_shown_arguments_must_be_the_bound_ones() -> None:
    assert flaw_of(context(call())) is None
    assert flaw_of(context(call(arguments={"to": "acct-991", "amount": 50001}))) == "arguments_hash_mismatch"
    assert flaw_of(context(call(), "sha256:00")) == "arguments_hash_mismatch"
    assert flaw_of(context(call(), None)) == "arguments_hash_mismatch"


def test_arguments_that_have_no_hash_match_none() -> None:
    assert flaw_of(context(call(arguments={"n": 2**53}))) == "arguments_hash_mismatch"


def test_a_partly_disclosed_call_is_not_recomputed() -> None:
    assert flaw_of(context(call(arguments={}, complete=False))) is None


@pytest.mark.parametrize(
    "shown",
    [None, "x", [], {}, {"server": "bank"}, call(server=1), call(arguments=[]), call(complete="no"), call(complete=0)],
    ids=str,
)
def test_a_call_of_another_shape_is_not_believed(shown: Any) -> None:
    assert flaw_of(context(shown)) == "tool_call_malformed"


def test_without_a_hash_a_shown_call_is_not_bound() -> None:
    assert flaw_of({TOOL_CALL: call()}) is None
    assert not is_bound({TOOL_CALL: call()})
    assert not is_bound(context(call(), 7))
    assert is_bound(context(call()))
    assert is_bound({})
