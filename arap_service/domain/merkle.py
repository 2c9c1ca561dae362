"""The Merkle tree of an append-only log: what is needed to add leaves to it and to know its root.

Hashes as in RFC 6962 section 2.1 (SHA-256, one prefix for leaves and another for nodes), so that a leaf can never be
taken for a node. The tree is kept as its peaks, the roots of the complete subtrees that it consists of: adding a leaf
takes a logarithm of the size, whatever the log has grown to. It decides nothing.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of `size` leaves; `peaks` are the roots of its complete subtrees, the largest first."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.peaks) != self.size.bit_count():
            raise ValueError("a tree has as many peaks as its size has bits")

    @property
    def root(self) -> bytes:
        """The tree head of RFC 6962: the hash over all leaves in their order."""
        if not self.peaks:
            return hashlib.sha256().digest()
        head = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            head = _node(peak, head)
        return head

    def grown(self, leaves: Iterable[bytes]) -> "Tree":
        """The tree with the data of more leaves after its own."""
        size, peaks = self.size, list(self.peaks)
        for data in leaves:
            head, left = hashlib.sha256(_LEAF + data).digest(), size
            while left & 1:
                head, left = _node(peaks.pop(), head), left >> 1
            peaks.append(head)
            size += 1
        return Tree(size, tuple(peaks))


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE + left + right).digest()
