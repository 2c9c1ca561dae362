"""`python -m tests.deep`: the long runs, each of which leaves its evidence in docs/evidence.

saboteurs  puts deliberate one-line faults into a copy of the checkout, one at a time, and sees whether a test notices
storms     runs many rounds of races over real stores, on both database engines
fuzzing    tries every property on many examples
schemathesis  calls a service on each database engine as its OpenAPI document describes it, 50,000 times in all
mutation   puts small faults by rule into the pure modules and counts which of them the tests notice
zones      runs the tests that touch time where the clocks of the machine stand otherwise
crashes    kills and freezes real gates, and takes their databases away, at every named point and under load

The status is 0 only if everything held: every saboteur was caught, every storm and every property passed.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.databases import KINDS
from tests.deep import evidence
from tests.deep.calls import call_each
from tests.deep.crashes import crash_runs, told
from tests.deep.many_examples import EXAMPLES
from tests.deep.mutation import GROUPS, LEAST, Measurement
from tests.deep.mutation import load as table_of_mutation
from tests.deep.saboteurs import Saboteur, Unfit, faults, load
from tests.deep.workshop import RunFailed, Trial, Workshop, open_workshop, outcomes_in
from tests.deep.zones import ZONES, outcomes_of, touching_time

SEEDS: Final = 2**31
STORMS: Final = "tests/deep/storms.py"


def saboteurs(seed: int, only: Sequence[str], jobs: int) -> bool:
    """Try every saboteur, or those named; whether all were caught."""
    chosen = [saboteur for saboteur in load() if not only or saboteur.name in only or {*only} & {*saboteur.covers}]
    if not chosen:
        print(f"no saboteur is called {' or '.join(only)}, and none covers it")
        return False
    unfit = [fault for saboteur in chosen for fault in faults(saboteur, evidence.ROOT)]
    if unfit:
        print("\n".join(unfit))
        return False
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="arap-deep-")))
        workshops = [stack.enter_context(open_workshop(evidence.ROOT, folder / str(n))) for n in range(jobs)]
        trials = _trials(workshops, chosen)
    if trials is None:
        return False
    caught = sum(bool(trial.caught_by) for trial in trials)
    print(f"{caught} of {len(trials)} saboteurs caught")
    if not only:
        counts = {"saboteurs": len(trials), "caught": caught, "rules": len({id_ for s in chosen for id_ in s.covers})}
        evidence.write("saboteurs", seed=seed, counts=counts, results=[_told(trial) for trial in trials])
    return caught == len(trials)


def _are_sound(workshop: Workshop, chosen: Sequence[Saboteur]) -> bool:
    """Whether every named test runs and passes without a fault; otherwise its failing would prove nothing."""
    print("running the named tests without any fault ...", flush=True)
    try:
        ended = workshop.outcomes(sorted({saboteur.test for saboteur in chosen}))
    except RunFailed as error:
        print(error)
        return False
    bad = sorted(test for test, outcome in ended.items() if outcome not in {"passed", "skipped"})
    ran = {test.partition("[")[0] for test, outcome in ended.items() if outcome == "passed"}
    bad += sorted({s.test for s in chosen if s.test.partition("[")[0] not in ran})
    if bad:
        print("not green without a fault: " + ", ".join(bad))
    return not bad


def _trials(workshops: Sequence[Workshop], chosen: Sequence[Saboteur]) -> list[Trial] | None:
    """What became of each; None if their tests are not green without a fault."""
    idle: SimpleQueue[Workshop] = SimpleQueue()
    for workshop in workshops:
        idle.put(workshop)

    @contextmanager
    def some_workshop() -> Iterator[Workshop]:
        taken = idle.get()
        try:
            yield taken
        finally:
            idle.put(taken)

    def are_sound() -> bool:
        with some_workshop() as workshop:
            return _are_sound(workshop, chosen)

    def tried(saboteur: Saboteur) -> Trial:
        with some_workshop() as workshop:
            trial = workshop.attempt(saboteur)
        missed = trial.trouble or f"NOT CAUGHT by {saboteur.test}"
        print(f"{saboteur.name}: {f'caught by {trial.caught_by[0]}' if trial.caught_by else missed}", flush=True)
        return trial

    with ThreadPoolExecutor(len(workshops)) as pool:
        sound = pool.submit(are_sound)
        trials = list(pool.map(tried, chosen))
        return trials if sound.result() else None


def _told(trial: Trial) -> dict[str, object]:
    told = {
        "name": trial.saboteur.name,
        "covers": list(trial.saboteur.covers),
        "file": trial.saboteur.file,
        "caught": bool(trial.caught_by),
        "caught_by": list(trial.caught_by),
    }
    return told if trial.trouble is None else {**told, "trouble": trial.trouble}


def storms(seed: int, _only: Sequence[str], _jobs: int) -> bool:
    """Run the storms with this seed; whether nothing broke."""
    rounds = os.environ.get("ARAP_STORM_ROUNDS", "200")
    surroundings = {"ARAP_STORM_SEED": str(seed), "ARAP_STORM_ROUNDS": rounds}
    return _pytest("storms", seed, [STORMS], surroundings, {"rounds_each": int(rounds)})


def fuzzing(seed: int, _only: Sequence[str], _jobs: int) -> bool:
    """Try every property on many examples; whether all held."""
    more = ["-p", "tests.deep.many_examples", "--hypothesis-profile=deep", f"--hypothesis-seed={seed}"]
    return _pytest("fuzzing", seed, [*more, "-m", "hypothesis", "tests"], {}, {"examples_at_most_each": EXAMPLES})


def crashes(seed: int, _only: Sequence[str], jobs: int) -> bool:
    """Try every fault at every point, then faults by chance under load; whether every run ended as it must."""
    most, minutes = int(os.environ.get("ARAP_CRASH_RUNS", "1000")), float(os.environ.get("ARAP_CRASH_MINUTES", "240"))
    runs = crash_runs(seed, most=most, minutes=minutes, jobs=jobs)
    held = sum(run.trouble is None for run in runs)
    counts = {"runs": len(runs), "held": held, "calls": sum(run.calls for run in runs)}
    counts |= {"killed_or_befallen_just_at_the_point": sum(run.is_exact for run in runs)}
    evidence.write("crashes", seed=seed, counts=counts, results=told(runs))
    print(f"{held} of {len(runs)} runs ended as they must")
    return held == len(runs)


def schemathesis(seed: int, _only: Sequence[str], jobs: int) -> bool:
    """Call a running service, valid and invalid; whether it answered as it describes itself, and never with a fault."""
    wanted, minutes = int(os.environ.get("ARAP_FUZZ_CALLS", "50000")), float(os.environ.get("ARAP_FUZZ_MINUTES", "240"))
    found = dict(call_each(seed, calls=wanted // len(KINDS), minutes=minutes, jobs=jobs))
    for kind, of_kind in found.items():
        print(f"{kind}: {of_kind.calls} calls, {len(of_kind.faults)} kinds of fault", flush=True)
        for operation in of_kind.only_refused:
            print(f"{operation}: only refused")
        for (operation, fault), example in of_kind.faults.items():
            print(f"{operation}: {fault}: {example}")
    counts = {
        "calls": sum(of_kind.calls for of_kind in found.values()),
        "operations": len({operation for of_kind in found.values() for operation, _ in of_kind.answers}),
        "operations_only_refused": len({each for of_kind in found.values() for each in of_kind.only_refused}),
        "kinds_of_fault": sum(len(of_kind.faults) for of_kind in found.values()),
    }
    results = [{"engine": kind, **of_kind.told()} for kind, of_kind in found.items()]
    evidence.write("schemathesis", seed=seed, counts=counts, results=results)
    return not (counts["kinds_of_fault"] or counts["operations_only_refused"])


def zones(seed: int, _only: Sequence[str], jobs: int) -> bool:
    """Run the tests that touch time under each zone, or those of `ARAP_ZONES`; whether all passed."""
    files, chosen = touching_time(), os.environ.get("ARAP_ZONES", ",".join(ZONES)).split(",")
    print(f"{len(files)} files of tests touch time", flush=True)
    ended = {zone: outcomes_of(zone, files, jobs=jobs) for zone in chosen}
    rows = [
        {"zone": zone, "outcome": "failed" if told is None else "passed", **(told or {})}
        for zone, told in ended.items()
    ]
    counts = {"zones": len(rows), "passed": sum(told is not None for told in ended.values()), "files": len(files)}
    evidence.write("zones", seed=seed, counts=counts, results=rows)
    return None not in ended.values()


def mutation(seed: int, _only: Sequence[str], jobs: int) -> bool:
    """Measure which small faults are noticed; whether it may be that enough of them were, in each group."""
    most, minutes = int(os.environ.get("ARAP_MUTANTS", "400")), float(os.environ.get("ARAP_MUTATION_MINUTES", "240"))
    with tempfile.TemporaryDirectory(prefix="arap-deep-") as name:
        measurement = Measurement(evidence.ROOT, Path(name), seed=seed, jobs=jobs, minutes=minutes)
        scores = list(measurement.scores(dict.fromkeys(GROUPS, most)))
    table = table_of_mutation()
    print("\n".join([*map(str, scores), *sorted(set(measurement.troubles))]))
    totals = sum((score.counts for score in scores), Counter[str]())
    counts = {"mutants": sum(score.mutants for score in scores), "tried": totals.total(), **totals}
    evidence.write("mutation", seed=seed, counts=counts, results=[score.told(table) for score in scores])
    return not measurement.troubles and all(score.interval[2] >= LEAST for score in scores)


def _pytest(
    part: str, seed: int, arguments: Sequence[str], surroundings: dict[str, str], counts: dict[str, int]
) -> bool:
    with tempfile.TemporaryDirectory(prefix="arap-deep-") as name:
        report = Path(name) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", "--timeout=1800", *arguments]
        ended = subprocess.run(command, cwd=evidence.ROOT, env={**os.environ, **surroundings}, check=False)
        outcomes = outcomes_in(report) if report.exists() else {}
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    rows: list[dict[str, str]] = [{"test": test, "outcome": outcome} for test, outcome in sorted(outcomes.items())]
    evidence.write(part, seed=seed, counts={"tests": len(rows), "passed": passed, **counts}, results=rows)
    return ended.returncode == 0 and passed > 0


PARTS: Final[dict[str, Callable[[int, Sequence[str], int], bool]]] = {
    "saboteurs": saboteurs,
    "storms": storms,
    "fuzzing": fuzzing,
    "schemathesis": schemathesis,
    "zones": zones,
    "crashes": crashes,
    "mutation": mutation,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for, one after another."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.deep", description=__doc__, formatter_class=formatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help="these parts; by default all")
    parser.add_argument("--list", action="store_true", help="list the saboteurs with the rules that they break")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this saboteur, or those of a rule")
    parser.add_argument("--seed", type=int, help="repeat a run; by default a new one, which is printed")
    parser.add_argument(
        "--jobs", type=int, default=2, help="how many faults, crashes, services or tests to try at once; by default 2"
    )
    options = parser.parse_args(arguments)
    if options.list:
        for saboteur in load():
            print(f"{saboteur.name:<45} {' '.join(saboteur.covers):<26} {saboteur.test}")
        return 0
    seed = secrets.randbelow(SEEDS) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    held = True
    for part in ["saboteurs"] if options.only else options.parts or PARTS:
        print(f"-- {part} --", flush=True)
        try:
            held = PARTS[part](seed, options.only, options.jobs) and held
        except Unfit as error:
            print(error)
            held = False
    print("everything held" if held else "NOT everything held")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
