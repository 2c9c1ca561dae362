"""Calls a service on each database engine as its OpenAPI document describes it, in a process for each engine."""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

from arap_service.store.migrate import upgrade
from tests.databases import KINDS, Databases, Kind
from tests.fuzz.machine import Found
from tests.fuzz.service import target


def call_each(seed: int, *, calls: int, minutes: float, jobs: int) -> Iterator[tuple[Kind, Found]]:
    """What so many calls of each engine led to; fewer when the time is over."""
    one = partial(call, seed=seed, calls=calls, until=time.time() + 60 * minutes)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from zip(KINDS, pool.map(one, KINDS), strict=True)


def call(kind: Kind, *, seed: int, calls: int, until: float) -> Found:
    """Call a service on a database of this kind."""
    with tempfile.TemporaryDirectory(prefix="arap-deep-") as name, closing(Databases(Path(name))) as databases:
        folder = Path(name) / "service"
        folder.mkdir()
        with target(folder, database=databases.copy_of(kind, "service", upgrade)) as service:
            return service.explore(calls=calls, seed=seed, may_go_on=lambda: time.time() < until)
