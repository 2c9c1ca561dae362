"""The digest of a bundle: fixed construction, order and all; the profile's "Inline and Hashed Binding Claims"."""

import base64
import hashlib
from typing import Any

import pytest

from arap_service.protocol.bundles import accepted_bundle_hashes, bundle_hash, same_pairs

SUBJECT: dict[str, Any] = {"type": "user", "id": "alice", "properties": {"act": {"sub": "bot"}}}
FIRST = ({"type": "account", "id": "a"}, {"name": "read"})
SECOND = ({"type": "account", "id": "b", "properties": {"tier": 1}}, {"name": "write"})
CONTEXT = {"tenant": "acme", "time": "now"}


@pytest.mark.requirement("ARS-79")
def test_the_digest_is_of_subject_items_and_bound_context_in_canonical_form() -> None:
    """Written out by hand, as RFC 8785 orders it."""
    text = (
        '{"context":{"tenant":"acme"},"items":['
        '{"action":{"name":"read"},"resource":{"id":"a","type":"account"}},'
        '{"action":{"name":"write"},"resource":{"id":"b","properties":{"tier":1},"type":"account"}}'
        '],"subject":{"id":"alice","type":"user"}}'
    )
    expected = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    assert bundle_hash(SUBJECT, [FIRST, SECOND], CONTEXT, ["tenant"]) == expected


@pytest.mark.requirement("ARS-79")
@pytest.mark.parametrize(
    "items",
    [[SECOND, FIRST], [FIRST], [FIRST, SECOND, FIRST], [FIRST, (SECOND[0], FIRST[1])]],
    ids=["swapped", "left out", "added", "another action"],
)
def test_every_item_and_its_place_is_bound(items: list[Any]) -> None:
    assert bundle_hash(SUBJECT, items, CONTEXT, ["tenant"]) != bundle_hash(
        SUBJECT, [FIRST, SECOND], CONTEXT, ["tenant"]
    )
    assert not same_pairs(items, [FIRST, SECOND])


def test_emptied_properties_are_accepted_and_never_emitted() -> None:
    """X-01, for the digest of a bundle as for that of one thing."""
    kept = {**SUBJECT, "properties": {}}
    ours = bundle_hash(SUBJECT, [FIRST], {}, [])
    accepted = accepted_bundle_hashes(SUBJECT, [FIRST], {}, [])
    assert ours in accepted
    assert len(accepted) == 2
    assert bundle_hash(kept, [FIRST], {}, []) == ours
    other = {**SUBJECT, "properties": {"dept": "x"}}
    assert accepted_bundle_hashes(other, [FIRST], {}, []) == {bundle_hash(other, [FIRST], {}, [])}
