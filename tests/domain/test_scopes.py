"""How far an approval reaches, as pure functions: what may vary, what never does, what is compared then."""

from typing import Any

import pytest

from arap_service.domain.policy_load import PolicyInvalid, load_policy
from arap_service.domain.scopes import Scope, read_widening, same_but, unvariable, without
from arap_service.protocol.canonical import TOOL_CALL, Tuple4

ABOUT = Tuple4(
    {"type": "user", "id": "alice", "properties": {"level": 1}},
    {"type": "dataset", "id": "sales", "properties": {"region": "EU", "tier": 1}},
    {"name": "read"},
    {"cost_centre": "7", "agent": "bot", "a/b": {"c~d": 1}},
)
MEMBERS = ("a/b", "agent", "cost_centre")


@pytest.mark.requirement("PDP-67")
@pytest.mark.parametrize(
    "part",
    [
        {"subject": {"type": "user", "id": "alice", "properties": {"level": 2}}},
        {"resource": {"type": "dataset", "id": "costs", "properties": {"region": "EU", "tier": 1}}},
        {"resource": {"type": "dataset", "id": "sales", "properties": {"region": "EU", "tier": 2}}},
        {"action": {"name": "write"}},
        {"context": {**ABOUT.context, "cost_centre": "8"}},
        {"context": {"agent": "bot", "a/b": {"c~d": 1}}},
    ],
)
def test_what_is_not_named_stays_exact(part: dict[str, Any]) -> None:
    """Catalogue PDP-67: a member that may vary excuses no other one."""
    other = ABOUT._replace(**part)
    assert not same_but(ABOUT, other, MEMBERS, may_vary=())
    assert not same_but(ABOUT, other, MEMBERS, may_vary=("/resource/properties/region", "/context/a~1b/c~0d"))


@pytest.mark.parametrize(
    ("pointer", "part"),
    [
        ("/resource/id", {"resource": {**ABOUT.resource, "id": "costs"}}),
        ("/resource/properties/region", {"resource": {**ABOUT.resource, "properties": {"region": "US", "tier": 1}}}),
        ("/resource/properties/region", {"resource": {**ABOUT.resource, "properties": {"tier": 1}}}),
        ("/action/name", {"action": {"name": "write"}}),
        ("/context/cost_centre", {"context": {**ABOUT.context, "cost_centre": None}}),
        ("/context/a~1b/c~0d", {"context": {**ABOUT.context, "a/b": {"c~d": 2}}}),
        ("/subject/properties", {"subject": {"type": "user", "id": "alice"}}),
    ],
)
def test_named_member_may_be_another_or_missing(pointer: str, part: dict[str, Any]) -> None:
    assert same_but(ABOUT, ABOUT._replace(**part), MEMBERS, may_vary=(pointer,))


def test_member_inside_something_that_is_no_object_stays_exact() -> None:
    listed = ABOUT._replace(context={**ABOUT.context, "a/b": [1]})
    assert without(listed, ["/context/a~1b/0"]) == listed


@pytest.mark.parametrize(
    "pointer",
    ["/subject/id", "/subject/type", "/context/agent", "/context/approval", f"/context/{TOOL_CALL}", "/resource/owner",
     "/elsewhere/id", "/context", "context/x", ""],
)  # fmt: skip
def test_who_and_by_which_agent_and_what_is_no_member_never_varies(pointer: str) -> None:
    assert unvariable(pointer) is not None


@pytest.mark.parametrize("pointer", ["/context/x", "/resource/type", "/action/properties/a", "/subject/properties/a"])
def test_other_members_may_be_named(pointer: str) -> None:
    assert unvariable(pointer) is None


@pytest.mark.parametrize(
    "value",
    ["x", [], {}, {"may_vary": []}, {"may_vary": ["/subject/id"]}, {"may_vary": [1]}, {"may_vary": ["/context/x"],
     "within": 1}],
)  # fmt: skip
def test_signed_scope_that_we_would_not_have_signed_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="not a scope"):
        read_widening(value)


def test_signed_scope_is_read_back() -> None:
    assert read_widening(None) == {}
    assert read_widening({"may_vary": ["/context/x"]}) == {"may_vary": ("/context/x",), "within": None}


RULES = """version: 1
rules: []
templates:
  t:
    title: T
    explanation: E
    steps: [{id: s, title: S, groups: [g]}]
    scope:
      words: W
      may_vary: [/context/x]
"""


def test_scope_of_a_template_arrives() -> None:
    text = RULES + "      within: 'call.size() == 0'\n"
    assert load_policy(text).templates["t"].scope == Scope(("/context/x",), "W", "call.size() == 0")
    assert load_policy(RULES).templates["t"].scope == Scope(("/context/x",), "W")


@pytest.mark.parametrize(
    ("change", "line", "fault"),
    [
        ("[/subject/id]", 10, "subject"),
        ("[/context/agent]", 10, "agent"),
        ("[/context/arguments_hash]", 10, "bound"),
        ("[/context/x]\n      within: 'nothing('", 11, "condition"),
    ],
)
def test_faulty_scope_is_refused_with_its_line(change: str, line: int, fault: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(RULES.replace("[/context/x]", change))
    [problem] = refused.value.problems
    assert (problem.line, fault in str(problem)) == (line, True)
