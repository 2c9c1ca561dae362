"""How many of the small faults of `mutants.py` the tests of a module notice: the pure modules of service and gate.

A module's tests are those in the file of its name; a fault that they let pass is tried again with the further files
that `mutation.toml` names for the module. Noticed is what fails, cannot be imported any more or does not come to an
end. A fault that changes nothing that anybody could see stands in `mutation.toml` with the reason, and does not count.
"""

import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any, Final, Literal

from tests.deep.mutants import Mutant, mutants_of
from tests.deep.workshop import RunFailed, Workshop, open_workshop

TABLE: Final = Path(__file__).with_suffix(".toml")
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "lifecycle and mapping": ("mcp_gate/lifecycle.py", "mcp_gate/mapping.py"),
    "protocol and domain": ("arap_service/protocol/*.py", "arap_service/domain/*.py"),
}
# Far more than any of these runs needs.
_CPU_SECONDS: Final = 60
# How sure the interval is: 1.96 standard deviations to either side are 95 %.
_DEVIATIONS: Final = 1.96
_GREEN: Final = "0"
# Below this the tests of a group would have fallen behind their modules. A small sample says little, so that what
# counts is whether the score may be as high as this.
LEAST: Final = 0.85

Outcome = Literal["noticed", "endless", "survived", "equivalent"]


@dataclass(frozen=True, slots=True)
class Table:
    """The further test files of a module, by its file; and why faults change nothing, by what they are."""

    further: Mapping[str, tuple[str, ...]]
    equivalent: Mapping[tuple[str, str, str, str], str]

    def reason(self, mutant: Mutant) -> str | None:
        """Why nobody could notice this one."""
        return self.equivalent.get((mutant.file, mutant.code, mutant.old, mutant.new))


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one fault."""

    mutant: Mutant
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Score:
    """What became of the faults of a group that were tried, out of so many."""

    group: str
    mutants: int
    tried: tuple[Tried, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many ended how."""
        return Counter(each.outcome for each in self.tried)

    @property
    def interval(self) -> tuple[float, float, float]:
        """The score, and between what it is by Wilson's interval of 95 %."""
        counts = self.counts
        noticed = counts["noticed"] + counts["endless"]
        return wilson(noticed, noticed + counts["survived"])

    def __str__(self) -> str:
        score, least, most = self.interval
        return (
            f"{self.group}: {len(self.tried)} of {self.mutants} tried, {score:.1%} noticed ({least:.1%} to {most:.1%})"
        )

    def told(self, table: Table) -> dict[str, Any]:
        """All of it for a report: numbers, those of each module, and what survived."""
        score, least, most = self.interval
        return {
            "group": self.group,
            "mutants": self.mutants,
            "tried": len(self.tried),
            **{name: self.counts[name] for name in ("noticed", "endless", "survived", "equivalent")},
            "score": round(score, 4),
            "from": round(least, 4),
            "to": round(most, 4),
            "modules": self._modules(),
            "survivors": [_told(each, table) for each in self.tried if each.outcome in {"survived", "equivalent"}],
        }

    def _modules(self) -> dict[str, dict[str, int]]:
        found = defaultdict[str, Counter[str]](Counter)
        for each in self.tried:
            found[each.mutant.file][each.outcome] += 1
        return {file: dict(sorted(found[file].items())) for file in sorted(found)}


def _told(tried: Tried, table: Table) -> dict[str, Any]:
    mutant, reason = tried.mutant, table.reason(tried.mutant)
    told = {"file": mutant.file, "line": mutant.line, "kind": mutant.kind, "old": mutant.old, "new": mutant.new}
    return told if reason is None else {**told, "equivalent": reason}


def wilson(successes: int, trials: int) -> tuple[float, float, float]:
    """The part of the trials that succeeded, and Wilson's interval of 95 % for what it is of all."""
    if trials == 0:
        return 0.0, 0.0, 1.0
    part, spread = successes / trials, _DEVIATIONS**2 / trials
    centre = (part + spread / 2) / (1 + spread)
    half = _DEVIATIONS * sqrt(part * (1 - part) / trials + spread / (4 * trials)) / (1 + spread)
    return part, max(0.0, centre - half), min(1.0, centre + half)


def load(file: Path = TABLE) -> Table:
    """The table as it stands."""
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    same = {(row["file"], row["code"], row["old"], row["new"]): row["reason"] for row in read.get("equivalent", ())}
    return Table({module: tuple(files) for module, files in read["further"].items()}, same)


def mirror(file: str) -> str:
    """Where the tests of a module stand: `arap_service/domain/task.py` has its own in `tests/domain/test_task.py`."""
    path = Path(file)
    folder = "gate" if path.parts[0] == "mcp_gate" else path.parts[1]
    return f"tests/{folder}/test_{path.name}"


def modules(group: str, root: Path) -> list[str]:
    """The files of the modules of a group."""
    found = [path for pattern in GROUPS[group] for path in sorted(root.glob(pattern))]
    return [str(path.relative_to(root)) for path in found if path.name != "__init__.py"]


def files_of(file: str, table: Table, root: Path) -> list[tuple[str, ...]]:
    """The test files of a module: those that are tried first, and those that what survives is tried with."""
    own = (mirror(file),) if (root / mirror(file)).is_file() else ()
    return [files for files in (own, table.further.get(file, ())) if files]


def attempt(workshop: Workshop, mutant: Mutant, source: str, files: Sequence[Sequence[str]], *, seed: int) -> Outcome:
    """Put one fault in and see whether a test notices."""
    for tests in files:
        options = ["--timeout=0", f"--hypothesis-seed={seed}"]
        ended = workshop.status_with(mutant.file, mutant.applied(source), tests, seconds=_CPU_SECONDS, more=options)
        if ended == "timeout":
            return "endless"
        if ended != _GREEN:
            return "noticed"
    return "survived"


class Measurement:
    """One measurement of the checkout at `root`, by one seed, that takes so many minutes at most."""

    def __init__(self, root: Path, folder: Path, *, seed: int, jobs: int, minutes: float) -> None:
        self._root = root
        self._folder = folder
        self._seed = seed
        self._jobs = jobs
        self._minutes = minutes
        self._table = load()
        self.troubles: list[str] = []
        self._green: set[tuple[str, ...]] = set()

    def scores(self, most: Mapping[str, int | None]) -> Iterator[Score]:
        """The score of each group in `most`, of which so many faults are tried, or all; in the order of chance.

        Faults whose tests are not green without them are not tried; `troubles` says so.
        """
        with ExitStack() as stack:
            shops: SimpleQueue[Workshop] = SimpleQueue()
            for number in range(self._jobs):
                shops.put(stack.enter_context(open_workshop(self._root, self._folder / str(number))))
            for group, limit in most.items():
                yield self._score(group, limit, shops, may_go_on=clock_until(self._minutes / len(most)))

    def _score(
        self, group: str, limit: int | None, shops: SimpleQueue[Workshop], *, may_go_on: Callable[[], bool]
    ) -> Score:
        sources = {file: (self._root / file).read_text(encoding="utf-8") for file in modules(group, self._root)}
        files = {file: files_of(file, self._table, self._root) for file in sources}
        everything = [mutant for file, source in sources.items() for mutant in mutants_of(file, source)]
        chosen = Random(self._seed).sample(everything, len(everything))[:limit]  # noqa: S311 - to be repeated

        def tried(mutant: Mutant) -> Tried | None:
            if not may_go_on():
                return None
            if self._table.reason(mutant) is not None:
                return Tried(mutant, "equivalent")
            with _one_of(shops) as shop:
                try:
                    outcome = self._attempt(shop, mutant, sources[mutant.file], files[mutant.file])
                except RunFailed as error:
                    self.troubles.append(f"{mutant.file}: {error}")
                    return None
            print(f"{mutant.file}:{mutant.line}: {mutant.old} -> {mutant.new}: {outcome}", flush=True)
            return Tried(mutant, outcome)

        with ThreadPoolExecutor(self._jobs) as pool:
            ended = tuple(each for each in pool.map(tried, chosen) if each is not None)
        return Score(group, len(everything), ended)

    def _attempt(self, shop: Workshop, mutant: Mutant, source: str, files: Sequence[tuple[str, ...]]) -> Outcome:
        """Try one fault with each round of tests in turn, none of which may fail without it."""
        outcome: Outcome = "survived"
        for tests in files:
            if tests not in self._green:
                _must_be_green(shop, tests)
                self._green.add(tests)
            outcome = attempt(shop, mutant, source, [tests], seed=self._seed)
            if outcome != "survived":
                break
        return outcome


@contextmanager
def _one_of(shops: SimpleQueue[Workshop]) -> Iterator[Workshop]:
    taken = shops.get()
    try:
        yield taken
    finally:
        shops.put(taken)


def _must_be_green(shop: Workshop, tests: Sequence[str]) -> None:
    bad = [test for test, outcome in shop.outcomes(tests).items() if outcome not in {"passed", "skipped"}]
    if bad:
        raise RunFailed(f"not green without a fault: {', '.join(bad)}")


def clock_until(minutes: float) -> Callable[[], bool]:
    """Whether these minutes, counted from now, are not over."""
    until = time.monotonic() + 60 * minutes
    return lambda: time.monotonic() < until
