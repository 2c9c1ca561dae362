"""Whether a submission of several items belongs to the one denial of the whole bundle that it names.

The counterpart of `binding.check_binding` for a denial that covers subject, bound context and every item in order. We
issue no such denial, since an evaluations response has no place for one, but decision points that do are understood
(X-09). Items that carry denials of their own are judged one by one by the single rule. Profile, "Denial Binding".
"""

from collections.abc import Sequence

from arap_service.domain.actors import ActorMalformed
from arap_service.domain.binding import (
    Claims,
    RecordedDenial,
    Submitted,
    VerifiedBinding,
    check_parties,
    covers_surroundings,
    submitted_actor,
    verified,
)
from arap_service.domain.errors import InvalidDenialBinding
from arap_service.protocol.bundles import accepted_bundle_hashes, same_pairs
from arap_service.protocol.canonical import Unrepresentable


def check_bundle(items: Sequence[Submitted], proof: Claims | RecordedDenial) -> tuple[VerifiedBinding, ...]:
    """Prove that `items`, which differ in resource and action only, are what was denied; the bindings in their order.

    Raises:
        InvalidDenialBinding: They are not, or the proof does not cover them all.
    """
    if not isinstance(proof, Claims):
        raise InvalidDenialBinding  # what is on record here was one evaluation, never a bundle
    try:
        if not _fixes_bundle(proof) or not _covers_bundle(proof, items):
            raise InvalidDenialBinding
        actor = submitted_actor(items[0])
        check_parties(items[0], proof, actor)
    except (ActorMalformed, Unrepresentable):
        raise InvalidDenialBinding from None
    return tuple(verified(item, proof, actor) for item in items)


def _fixes_bundle(claims: Claims) -> bool:
    if claims.resource is not None or claims.action is not None:
        return False  # it speaks of one thing, whatever its digest is of
    is_inline = claims.subject is not None and claims.items is not None
    is_inline = is_inline and (not claims.members or claims.context is not None)
    return is_inline or claims.binding_hash is not None


def _covers_bundle(claims: Claims, items: Sequence[Submitted]) -> bool:
    pairs = [(item.about.resource, item.about.action) for item in items]
    about = items[0].about
    if claims.binding_hash is not None and claims.binding_hash not in accepted_bundle_hashes(
        about.subject, pairs, about.context, claims.members or ()
    ):  # ARS-79
        return False
    if claims.items is not None and not same_pairs(claims.items, pairs):  # ARS-78
        return False
    return covers_surroundings(claims, about)
