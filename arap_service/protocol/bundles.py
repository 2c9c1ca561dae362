"""The digest of a bundle: several resources and actions that one denial covers, in their order.

Items that carry denials of their own are bound by the single rule of `canonical.py` and in any order; this construction
is for the one denial of a whole bundle. Access request profile, "Inline and Hashed Binding Claims" (ARS-78, ARS-79).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from arap_service.protocol.canonical import bound_context, digest, prune_subject, same_json

Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A resource and an action."""


def bundle_hash(
    subject: Mapping[str, Any], items: Sequence[Pair], context: Mapping[str, Any] | None, members: Iterable[str]
) -> str:
    """The digest that ties a bundle denial to its subject, its items in their order and its bound context."""
    return _hash_of(prune_subject(subject), items, bound_context(context, members))


def accepted_bundle_hashes(
    subject: Mapping[str, Any], items: Sequence[Pair], context: Mapping[str, Any] | None, members: Iterable[str]
) -> frozenset[str]:
    """The digests to accept from another issuer: ours, and the one that keeps emptied properties (ARS-25, X-01)."""
    pruned, bound = prune_subject(subject), bound_context(context, members)
    accepted = {_hash_of(pruned, items, bound)}
    if "properties" not in pruned:
        accepted.add(_hash_of({**pruned, "properties": {}}, items, bound))
    return frozenset(accepted)


def same_pairs(some: Sequence[Pair], others: Sequence[Pair]) -> bool:
    """Whether two bundles name the same things in the same order."""
    return same_json(_objects(some), _objects(others))


def _hash_of(subject: dict[str, Any], items: Sequence[Pair], context: dict[str, Any]) -> str:
    return digest({"subject": subject, "items": _objects(items), "context": context})


def _objects(items: Sequence[Pair]) -> list[dict[str, Any]]:
    return [{"resource": dict(resource), "action": dict(action)} for resource, action in items]
