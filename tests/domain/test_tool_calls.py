"""The shown call and the bound call are one, or nothing is asked about it."""

from typing import Any

import pytest

from arap_service.domain.tool_calls import flaw_of, is_bound, shown_call
from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable
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
    for kind in ("tool", "account"):
        assert not is_bound({TOOL_CALL: call()}, resource_type=kind)
        assert not is_bound(context(call(), 7), resource_type=kind)
        assert is_bound(context(call()), resource_type=kind)
    assert is_bound({}, resource_type="account")


@pytest.mark.requirement("PDP-56")
def test_a_tool_without_a_hash_is_not_bound_whether_a_call_is_shown_or_not() -> None:
    """Catalogue X-02: an approval of the name of a tool would be one of any arguments."""
    assert not is_bound({}, resource_type="tool")
    assert not is_bound({"agent": "agent-A"}, resource_type="tool")
    assert is_bound({"arguments_hash": VECTOR["value"]}, resource_type="tool")


@pytest.mark.parametrize(
    "other",
    [
        call(title="Harmless"),
        call(arguments={}),
        call(server="other"),
        call(tool="other"),
        call(complete=False),
        call(complete=False, arguments={"to": "acct-991"}),
        call(note=1),
        None,
    ],
    ids=str,
)
@pytest.mark.requirement("ARS-20")
def test_any_other_call_is_told_from_the_shown_one(other: Any) -> None:
    """Catalogue X-42: what rules and reviewers are shown, down to the title, and how much of it."""
    shown = shown_call(context(call()))
    assert shown.startswith("whole:")
    assert shown_call(context(call(arguments=dict(reversed(VECTOR["arguments"].items()))))) == shown
    assert shown_call({} if other is None else context(other)) != shown


def test_a_call_without_a_canonical_form_cannot_be_told_from_another() -> None:
    with pytest.raises(Unrepresentable):
        shown_call(context(call(complete=False, arguments={"n": 2**53})))
