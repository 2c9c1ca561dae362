"""The chain of actors behind a subject: who acts for whom, as (issuer, subject) pairs.

Reads chains and compares nothing. A chain is a claim until somebody has verified it (ARS-99, ARS-101). Actor delegation
companion of the profile, "Delegation and On-Behalf-Of"; RFC 8693, `act`.
"""

from collections.abc import Mapping
from typing import Any

Chain = tuple[tuple[str | None, str], ...]
"""Immediate actor first; the issuer is None where the chain names none."""


class ActorMalformed(ValueError):
    """The value has not the shape of an actor chain."""


def chain_of(actor: object) -> Chain:
    """The chain of an `act` claim or of `client.actor`; no actor is the empty chain (ARS-100).

    Raises:
        ActorMalformed: if any link lacks a subject or is no object.
    """
    chain: list[tuple[str | None, str]] = []
    while actor is not None:
        if not isinstance(actor, Mapping):
            raise ActorMalformed
        subject = actor.get("sub", actor.get("id"))
        issuer = actor.get("iss", actor.get("issuer"))
        if not isinstance(subject, str) or not subject or not isinstance(issuer, str | None):
            raise ActorMalformed
        chain.append((issuer, subject))
        actor = actor.get("act")
    return tuple(chain)


def subject_chain(subject: Mapping[str, Any]) -> Chain:
    """The chain that an AuthZEN subject carries in `properties.act`.

    Raises:
        ActorMalformed: as `chain_of`.
    """
    properties = subject.get("properties")
    return chain_of(properties.get("act") if isinstance(properties, Mapping) else None)


def agent_of(context: Mapping[str, Any]) -> str | None:
    """The acting agent that an evaluation's context names, as the enforcement point anchored it (PEP-19)."""
    agent = context.get("agent")
    return agent if isinstance(agent, str) else None
