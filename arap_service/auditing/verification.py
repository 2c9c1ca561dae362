"""Verifies a log as it is read, place by place: chains, places, checkpoints, and that nothing is missing.

Knows neither database nor file: whoever reads either hands over what he finds, in order, and asks for the report at
the end. Memory grows with the number of chains, never with the number of entries. Says of every fault where it is; the
first fault of a chain only, since all that follows it is broken as well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from arap_service.audit import GENESIS, link
from arap_service.auditing.places import leaf
from arap_service.domain.merkle import Tree
from arap_service.store.log_tables import AuditPlace
from arap_service.store.tables import AuditEntry

MOST_FAULTS: Final = 100

ReadSignature = Callable[[str], Mapping[str, Any] | None]
"""The claims of a checkpoint's signature, None when it is not one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A checkpoint as it was found; `at` where it was found with a time of its own beside what is signed."""

    number: int
    at: datetime | None = None
    size: int
    root: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of it: one sentence for each fault, and how much was looked at.

    `covered` entries are under a signed checkpoint, `revealed` lines of an export under none; `faults` holds the first
    `MOST_FAULTS`, `fault_count` counts all.
    """

    faults: tuple[str, ...]
    fault_count: int
    entries: int
    chains: int
    checkpoints: int
    covered: int
    revealed: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault_count == 0


@dataclass(slots=True)
class Verifier:
    """Takes the log in its order: entries by place, and each checkpoint where its last place has been."""

    read_signature: ReadSignature
    witnessed: Signed | None = None  # a checkpoint that was seen elsewhere, and must be in this log
    _faults: list[str] = field(default_factory=list)
    _fault_count: int = 0
    _tree: Tree = field(default_factory=Tree)
    _chains: dict[str, tuple[int, str]] = field(default_factory=dict)
    _broken: set[str] = field(default_factory=set)
    _entries: int = 0
    _next: int = 1
    _checkpoints: int = 0
    _covered: int = 0

    def placed(self, place: AuditPlace, entry: AuditEntry | None) -> None:
        """The next place of the log, and its entry, which is None when it is gone."""
        if place.position != self._next:
            self.fault(f"place {self._next} of the log is missing")
        self._next = place.position + 1
        self._tree = self._tree.grown((leaf(place),))
        if self.witnessed is not None and self.witnessed.size == self._tree.size:
            self._compare(self.witnessed, "the checkpoint that was seen before")
            self.witnessed = None
        if entry is None:
            self._break(place.chain, place.seq, "is missing")
            self._chains[place.chain] = (place.seq, place.hash)
            return
        self._link(entry)
        if entry.hash != place.hash:
            self._break(place.chain, place.seq, "is not the one that was placed")

    def tail(self, entry: AuditEntry) -> None:
        """An entry that has no place yet, after all of its chain that have."""
        self._link(entry)

    def head(self, chain: str, *, seq: int, hash_: str) -> None:
        """What the chain says is its last entry, after all of them."""
        length, last = self._chains.get(chain, (0, GENESIS))
        if seq > length:
            self._break(chain, length + 1, "is missing")
        elif (seq, hash_) != (length, last):
            self._break(chain, length, "is not the one that the chain's head names")

    def checkpoint(self, signed: Signed) -> None:
        """The next checkpoint, once the places that it covers have been seen."""
        self._checkpoints += 1
        name = f"checkpoint {signed.number}"
        if signed.number != self._checkpoints:
            self.fault(f"checkpoint {self._checkpoints} is missing")
            self._checkpoints = signed.number
        claims = self.read_signature(signed.signature)
        if claims is None:
            self.fault(f"{name} is not signed by a key of this service")
            return
        said: dict[str, object] = {"number": signed.number, "size": signed.size, "root": signed.root}
        if signed.at is not None:
            said["iat"] = int(signed.at.timestamp())
        if {member: claims.get(member) for member in said} != said:
            self.fault(f"{name} says something else than was signed")
            return
        if self._compare(signed, name):
            self._covered = signed.size

    def fault(self, sentence: str) -> None:
        """Something else that is wrong."""
        self._fault_count += 1
        if len(self._faults) < MOST_FAULTS:
            self._faults.append(sentence)

    def length_of(self, chain: str) -> int:
        """How many entries of the chain have been seen."""
        return self._chains.get(chain, (0, GENESIS))[0]

    @property
    def chains(self) -> Mapping[str, tuple[int, str]]:
        """Every chain that has been seen, with the number and hash of its last entry."""
        return self._chains

    @property
    def size(self) -> int:
        """How many places have been seen."""
        return self._tree.size

    def report(self) -> Report:
        """What came of it, at the end."""
        if self.witnessed is not None:
            self.fault(
                f"the log ends before place {self.witnessed.size}, which a checkpoint that was seen before covers"
            )
            self.witnessed = None
        return Report(
            faults=tuple(self._faults),
            fault_count=self._fault_count,
            entries=self._entries,
            chains=len(self._chains),
            checkpoints=self._checkpoints,
            covered=self._covered,
        )

    def _link(self, entry: AuditEntry) -> None:
        self._entries += 1
        length, last = self._chains.get(entry.chain, (0, GENESIS))
        if entry.seq != length + 1:
            self._break(entry.chain, length + 1, "is missing" if entry.seq > length else "stands there twice")
        elif entry.previous != last:
            self._break(entry.chain, entry.seq, "does not follow the one before it")
        elif entry.hash != link(entry):
            self._break(entry.chain, entry.seq, "was changed")
        self._chains[entry.chain] = (entry.seq, entry.hash)

    def _break(self, chain: str, seq: int, what: str) -> None:
        if chain not in self._broken:
            self._broken.add(chain)
            self.fault(f"chain {chain}: entry {seq} {what}")

    def _compare(self, signed: Signed, name: str) -> bool:
        if signed.size > self._tree.size:
            self.fault(f"{name} covers {signed.size} places, and the log has {self._tree.size}")
        elif signed.size < self._tree.size:
            self.fault(f"{name} stands at place {self._tree.size} and covers {signed.size}")
        elif signed.root != self._tree.root.hex():
            self.fault(f"{name} contradicts the log: something before place {signed.size} was changed or removed")
        else:
            return True
        return False
