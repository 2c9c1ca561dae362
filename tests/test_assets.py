"""The committed front-end files are the published ones; design.md section 9."""

import json
from pathlib import Path

import pytest

from tools import assets
from tools.assets import Asset, committed, digest, main, mismatches, read_lock


def test_every_committed_file_is_what_the_lock_names() -> None:
    lock = read_lock()
    assert {asset["path"] for asset in lock} >= {"arap_service/static/htmx.min.js", "arap_service/static/pico.min.css"}
    assert mismatches(lock, committed) == []


def test_a_changed_or_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Asset(package="p", version="1", licence="MIT", member="m", path="a.js", sha256=digest(b"good"))
    (tmp_path / "a.js").write_bytes(b"bad")
    missing = Asset(**(entry | {"path": "b.js"}))
    assert mismatches([entry, missing], lambda asset: committed(asset, root=tmp_path)) == [
        "a.js: not the file that the lock names",
        "b.js: missing",
    ]


def test_nothing_is_written_when_one_fetched_file_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        Asset(package="p", version="1", licence="MIT", member="m", path="a.js", sha256=digest(b"a")),
        Asset(package="p", version="1", licence="MIT", member="m", path="b.js", sha256=digest(b"b")),
    ]
    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps({"assets": entries}))
    monkeypatch.setattr(assets, "ROOT", tmp_path)
    monkeypatch.setattr(assets, "read_lock", lambda: entries)
    monkeypatch.setattr(assets, "fetch", lambda asset: b"a" if asset["path"] == "a.js" else b"tampered")
    assert main([]) == 1
    assert not (tmp_path / "a.js").exists()
    monkeypatch.setattr(assets, "fetch", lambda asset: asset["path"][:1].encode())
    assert main([]) == 0
    assert (tmp_path / "a.js").read_bytes() == b"a"


def test_check_agrees_with_the_tree() -> None:
    assert main(["--check"]) == 0
