"""The Merkle tree of the audit log, against the published answers of Certificate Transparency's reference tree."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.merkle import Tree

LEAVES = [
    bytes.fromhex(each)
    for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def by_definition(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, written down as it stands there."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + by_definition(leaves[:split]) + by_definition(leaves[split:])).digest()


@pytest.mark.parametrize("size", range(len(ROOTS)))
def test_roots_are_those_of_the_reference_tree(size: int) -> None:
    """Test data of the certificate-transparency reference implementation (leaf data and roots)."""
    assert Tree().grown(LEAVES[:size]).root.hex() == ROOTS[size]


@given(st.lists(st.binary(max_size=4), max_size=70), st.integers(0, 70))
def test_growing_in_two_steps_gives_the_root_of_the_definition(leaves: list[bytes], split: int) -> None:
    """A checkpoint goes on from the peaks of the one before it, and never sees the earlier leaves again."""
    grown = Tree().grown(leaves[:split]).grown(leaves[split:])
    assert (grown.size, grown.root) == (len(leaves), by_definition(leaves))


def test_leaf_that_looks_like_a_node_gives_another_root() -> None:
    """Separate prefixes: two leaves cannot be replaced by one that holds their hashes."""
    pair = Tree().grown([b"a", b"b"])
    forged = hashlib.sha256(b"\x00a").digest() + hashlib.sha256(b"\x00b").digest()
    assert Tree().grown([forged]).root != pair.root
    assert Tree().grown([b"b", b"a"]).root != pair.root


def test_peaks_that_do_not_fit_the_size_are_refused() -> None:
    with pytest.raises(ValueError, match="as many peaks"):
        Tree(3, (b"x",))
