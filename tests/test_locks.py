"""The locks are current, hashed, and free of addresses; each fault of a lock is found without an index."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import locks
from tests.locks import DEMO, DEV, LOCKS, Lock


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(locks.ROOT / "locks", tmp_path / "locks")
    shutil.copy(locks.ROOT / locks.PROJECT, tmp_path)
    return tmp_path


def _edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    after = change(before)
    assert after != before
    path.write_text(after)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_is_current(lock: Lock) -> None:
    assert list(locks.problems(lock)) == []


def test_the_lock_of_npm_is_hashed_and_free_of_addresses() -> None:
    assert list(locks.npm_problems()) == []


def test_each_fault_of_the_lock_of_npm_is_found_and_addresses_are_taken_out(tmp_path: Path) -> None:
    path = tmp_path / locks.NPM
    path.parent.mkdir(parents=True)
    shutil.copy(locks.ROOT / locks.NPM, path)
    before = path.read_text()
    document = json.loads(before)
    name = next(name for name in document["packages"] if name)
    document["packages"][name]["funding"] = {"url": "https://money.example"}
    path.write_text(json.dumps(document))
    assert list(locks.npm_problems(tmp_path)) == [f"{locks.NPM} names an address; run: python -m tests.locks npm"]
    locks.clean_npm(tmp_path)
    assert path.read_text() == before
    document = json.loads(before)
    del document["packages"][name]["integrity"]
    path.write_text(json.dumps(document))
    assert list(locks.npm_problems(tmp_path)) == [f"{locks.NPM} has no hash for {name}"]


def test_a_new_dependency_makes_the_lock_stale(copy: Path) -> None:
    _edit(copy / locks.PROJECT, lambda text: text.replace('"typer>=', '"absent-package>=1",\n    "typer>='))
    assert list(locks.problems(DEV, copy)) == [
        "locks/dev.lock was made from other requirements; run: make lock",
        "locks/dev.lock lacks absent-package",
    ]


def test_a_raised_floor_makes_the_lock_stale(copy: Path) -> None:
    _edit(copy / locks.PROJECT, lambda text: text.replace('"rfc8785>=0', '"rfc8785>=9'))
    assert any("fixes rfc8785" in problem for problem in locks.problems(DEV, copy))


def test_a_lock_with_an_address_is_refused(copy: Path) -> None:
    _edit(copy / DEV.path, lambda text: text + "--extra-index-url https://index.example/simple\n")
    assert "locks/dev.lock names an address" in list(locks.problems(DEV, copy))


def test_a_pin_without_a_hash_is_refused(copy: Path) -> None:
    _edit(copy / DEV.path, lambda text: text + "unhashed==1.0\n")
    assert "locks/dev.lock has no hash for unhashed" in list(locks.problems(DEV, copy))


def test_the_demo_runs_the_versions_that_were_tested(copy: Path) -> None:
    (version,) = locks.pins((copy / DEMO.path).read_text())["typer"]
    _edit(copy / DEMO.path, lambda text: text.replace(f"typer=={version}", "typer==99.0"))
    assert "locks/demo.lock fixes typer otherwise than dev" in list(locks.problems(DEMO, copy))
