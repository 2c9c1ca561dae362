"""Chains of actors in both spellings: RFC 8693 `act` and the profile's `client.actor`."""

from typing import Any

import pytest

from arap_service.domain.actors import ActorMalformed, agent_of, chain_of, subject_chain

ACT = {"sub": "agent-b", "iss": "https://agents.example", "act": {"sub": "agent-a"}}


@pytest.mark.requirement("ARS-100")
def test_both_spellings_name_the_same_chain() -> None:
    claimed = {"id": "agent-b", "issuer": "https://agents.example", "type": "ai_agent", "act": {"sub": "agent-a"}}
    assert chain_of(ACT) == (("https://agents.example", "agent-b"), (None, "agent-a")) == chain_of(claimed)


def test_no_actor_is_the_empty_chain() -> None:
    assert chain_of(None) == ()
    assert subject_chain({"type": "user", "id": "alice"}) == ()
    assert subject_chain({"type": "user", "id": "alice", "properties": {"act": None}}) == ()


def test_a_subject_carries_its_chain_in_its_properties() -> None:
    assert subject_chain({"type": "user", "id": "alice", "properties": {"act": ACT}}) == chain_of(ACT)


@pytest.mark.parametrize(
    "actor", ["agent", ["agent"], {}, {"sub": ""}, {"sub": 1}, {"sub": "a", "iss": 1}, {"sub": "a", "act": "b"}]
)
def test_what_is_no_chain_is_refused(actor: Any) -> None:
    with pytest.raises(ActorMalformed):
        chain_of(actor)


def test_the_agent_is_a_text_of_the_context_or_nobody() -> None:
    assert agent_of({"agent": "agent-A"}) == "agent-A"
    assert agent_of({"agent": {"id": "agent-A"}}) is None
    assert agent_of({}) is None
