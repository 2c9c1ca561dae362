"""Sealing of stored values: what opens, and that nothing else does."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.protocol.sealing import DataKey, KeyRing, SealBroken, new_data_key

FIRST, SECOND = b"1" * 32, b"2" * 32
AAD = "task:arq_1:arguments"
ARGUMENTS = b'{"to":"acct-991","amount":50000}'


def ring(current: str = "first", **keys: bytes) -> KeyRing:
    return KeyRing({"first": FIRST, **keys}, current)


@given(st.binary(max_size=200), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_what_is_sealed_opens_at_its_place(plaintext: bytes, aad: str) -> None:
    keys = ring()
    data_key = DataKey(keys, new_data_key(keys, aad=aad), aad)
    assert keys.open_(keys.seal(plaintext, aad=aad), aad=aad) == plaintext
    assert data_key.open(data_key.seal(plaintext, aad=aad), aad=aad) == plaintext


@pytest.mark.requirement("PEP-133")
def test_a_value_that_was_moved_to_another_row_or_column_does_not_open() -> None:
    """Also not under the same data key, and not when the wrapped key is moved along."""
    keys = ring()
    wrapped = new_data_key(keys, aad="task:arq_1:data_key")
    data_key = DataKey(keys, wrapped, "task:arq_1:data_key")
    sealed = data_key.seal(ARGUMENTS, aad=AAD)
    for elsewhere in ("task:arq_2:arguments", "task:arq_1:result", "submission:arq_1:arguments", ""):
        with pytest.raises(SealBroken):
            data_key.open(sealed, aad=elsewhere)
    with pytest.raises(SealBroken):
        DataKey(keys, wrapped, "task:arq_2:data_key")


@pytest.mark.requirement("PEP-133")
def test_without_its_data_key_a_value_is_gone() -> None:
    """Destroying the key destroys the value: the ring that wrapped it and another data key don't open it."""
    keys = ring()
    wrapped = new_data_key(keys, aad="k")
    sealed = DataKey(keys, wrapped, "k").seal(ARGUMENTS, aad=AAD)
    with pytest.raises(SealBroken):
        DataKey(keys, new_data_key(keys, aad="k"), "k").open(sealed, aad=AAD)
    with pytest.raises(SealBroken):
        keys.open_(sealed, aad=AAD)
    assert DataKey(keys, wrapped, "k").open(sealed, aad=AAD) == ARGUMENTS


@pytest.mark.parametrize("which", ["ring", "data key"])
def test_no_bit_of_a_sealed_value_can_be_changed(which: str) -> None:
    """Version, key name, nonce, text and tag are all under the seal."""
    keys = ring()
    data_key = DataKey(keys, new_data_key(keys, aad="k"), "k")
    sealed = keys.seal(b"text", aad=AAD) if which == "ring" else data_key.seal(b"text", aad=AAD)
    for at, bit in itertools.product(range(len(sealed)), range(8)):
        altered = bytearray(sealed)
        altered[at] ^= 1 << bit
        with pytest.raises(SealBroken):
            keys.open_(bytes(altered), aad=AAD) if which == "ring" else data_key.open(bytes(altered), aad=AAD)


@pytest.mark.parametrize("which", ["ring", "data key"])
def test_a_cut_value_does_not_open(which: str) -> None:
    keys = ring()
    data_key = DataKey(keys, new_data_key(keys, aad="k"), "k")
    sealed = keys.seal(b"", aad=AAD) if which == "ring" else data_key.seal(b"", aad=AAD)
    for end in range(len(sealed)):
        with pytest.raises(SealBroken):
            keys.open_(sealed[:end], aad=AAD) if which == "ring" else data_key.open(sealed[:end], aad=AAD)


def test_after_a_rotation_old_values_open_and_new_ones_use_the_new_key() -> None:
    before = ring()
    sealed = before.seal(ARGUMENTS, aad=AAD)
    after = ring("second", second=SECOND)
    assert after.open_(sealed, aad=AAD) == ARGUMENTS
    with pytest.raises(SealBroken):
        before.open_(after.seal(ARGUMENTS, aad=AAD), aad=AAD)
    with pytest.raises(SealBroken):
        KeyRing({"second": SECOND}, "second").open_(sealed, aad=AAD)
    with pytest.raises(SealBroken):
        KeyRing({"first": SECOND}, "first").open_(sealed, aad=AAD)


def test_a_wrapped_value_that_is_no_key_is_not_taken_for_one() -> None:
    keys = ring()
    with pytest.raises(SealBroken):
        DataKey(keys, keys.seal(b"short", aad="k"), "k")


def test_two_seals_of_one_value_differ_and_the_source_of_randomness_can_be_given() -> None:
    """The nonce is the only thing that does."""
    keys = ring()
    assert keys.seal(ARGUMENTS, aad=AAD) != keys.seal(ARGUMENTS, aad=AAD)
    fixed = KeyRing({"first": FIRST}, "first", random=bytes)
    assert fixed.seal(ARGUMENTS, aad=AAD) == fixed.seal(ARGUMENTS, aad=AAD)
    assert bytes(12) in fixed.seal(ARGUMENTS, aad=AAD)


@pytest.mark.parametrize(
    ("keys", "current"),
    [({"first": FIRST}, "second"), ({"first": b"short"}, "first"), ({"": FIRST}, ""), ({"n" * 256: FIRST}, "n" * 256)],
)
def test_a_ring_that_could_not_seal_is_refused_at_once(keys: dict[str, bytes], current: str) -> None:
    with pytest.raises(ValueError, match=r"sealing key|current key"):
        KeyRing(keys, current)


def test_neither_plaintext_nor_key_shows_anywhere() -> None:
    """Not in the sealed bytes, not in what a log would print, not in the error."""
    keys = ring()
    wrapped = new_data_key(keys, aad="k")
    data_key = DataKey(keys, wrapped, "k")
    assert b"acct-991" not in data_key.seal(ARGUMENTS, aad=AAD)
    assert keys.open_(wrapped, aad="k") not in wrapped
    with pytest.raises(SealBroken) as caught:
        data_key.open(b"", aad=AAD)
    assert "1111" not in f"{keys!r} {data_key!r} {caught.value!r}"
    assert f"{keys!r}, {data_key!r}" == "KeyRing(1 keys), DataKey(…)"
