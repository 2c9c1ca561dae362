"""What a long run leaves behind."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deep import evidence


def written(folder: Path, seed: int) -> dict[str, Any]:
    file = evidence.write("crashes", seed=seed, counts={"runs": seed * 10}, results=[{"run": seed}], folder=folder)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_a_run_takes_the_place_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARAP_DEEP_ADD", raising=False)
    written(tmp_path, 1)
    assert "runs_before" not in written(tmp_path, 2)


def test_pieces_of_one_long_run_stay_with_their_commit_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARAP_DEEP_ADD", "1")
    first = written(tmp_path, 1)
    assert "runs_before" not in first
    written(tmp_path, 2)
    third = written(tmp_path, 3)
    assert [(each["seed"], each["counts"]) for each in third["runs_before"]] == [(1, {"runs": 10}), (2, {"runs": 20})]
    assert {each["commit"] for each in third["runs_before"]} == {first["commit"]}
    assert (third["seed"], third["counts"], third["results"]) == (3, {"runs": 30}, [{"run": 3}])
