"""`mcp-gate keys`: another key seals, no key is lost, and nobody reads half a file. Provenance: design section 8."""

import base64
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from arap_service.protocol.sealing import SealBroken
from mcp_gate import key_file
from mcp_gate.cli import run_command
from mcp_gate.records import Vault, wrapped_key
from mcp_gate.settings import ConfigurationInvalid, load_ring, read_keys
from tests.gate.test_cli import write_config

Cli = Callable[..., tuple[int, str, str]]
OLD = base64.b64encode(b"o" * 32).decode()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The key file of the gate."""
    path = tmp_path / "gate.keys.yaml"
    path.write_text(f"current: '2026-04'\nkeys:\n  '2026-04': {OLD}\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, keys: Path) -> Cli:
    """Runs `mcp-gate keys …`: status, what it showed, what it said."""
    config = write_config(tmp_path, key_file=str(keys))

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_command(["keys", *arguments, "--config", str(config)])
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return run


def test_after_a_rotation_a_fresh_key_seals_and_what_was_sealed_before_still_opens(cli: Cli, keys: Path) -> None:
    before = load_ring(keys, create=False)
    wrapped = wrapped_key(before, "tsk_1")
    sealed = Vault(before, "tsk_1", wrapped).seal_json("gate_task.binding", {"tool": "wire"})
    status, shown, said = cli("rotate")
    after = load_ring(keys, create=False)
    assert (status, said) == (0, "")
    assert shown.startswith("k1 seals")
    assert Vault(after, "tsk_1", wrapped).open_json("gate_task.binding", sealed) == {"tool": "wire"}
    with pytest.raises(SealBroken):
        before.open_(after.seal(b"call", aad="a"), aad="a")
    assert OLD not in shown
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert cli("rotate")[1].startswith("k2 seals")
    current, found = read_keys(keys)
    assert (current, [*found]) == ("k2", ["2026-04", "k1", "k2"])
    assert len(set(found.values())) == 3
    assert [path.name for path in keys.parent.glob("*.new")] == []


def test_a_key_that_was_added_opens_at_once_and_seals_only_when_it_is_used(cli: Cli, keys: Path) -> None:
    """Where several gates share a database, each must be able to open what another seals."""
    assert cli("add")[0] == 0
    other = load_ring(keys, create=False)
    assert read_keys(keys)[0] == "2026-04"
    assert cli("use", "k1")[0] == 0
    assert read_keys(keys)[0] == "k1"
    assert other.open_(load_ring(keys, create=False).seal(b"call", aad="a"), aad="a") == b"call"


def test_an_unknown_key_is_one_line_and_changes_nothing(cli: Cli, keys: Path) -> None:
    text = keys.read_text()
    status, shown, said = cli("use", "k9")
    assert (status, shown, said.count("\n")) == (2, "", 1)
    assert "2026-04" in said
    assert keys.read_text() == text
    assert cli("rotate")[0] == 0  # the refusal left nothing behind


def test_a_second_change_under_way_is_refused_so_that_no_key_gets_lost(cli: Cli, keys: Path) -> None:
    beside = keys.with_name(f"{keys.name}.new")
    beside.touch()
    text = keys.read_text()
    status, _, said = cli("rotate")
    assert (status, said.count("\n")) == (2, 1)
    assert str(beside) in said
    assert keys.read_text() == text
    assert beside.exists()


def test_a_missing_file_is_not_made_by_a_rotation(cli: Cli, keys: Path) -> None:
    keys.unlink()
    status, _, said = cli("rotate")
    assert status == 2
    assert "mcp-gate migrate" in said
    assert [*keys.parent.glob(f"{keys.name}*")] == []


def test_a_disk_that_fails_leaves_the_file_as_it_was(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = keys.read_text()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationInvalid, match="cannot be replaced"):
        key_file.add_key(keys, make_current=True)
    assert keys.read_text() == text
    assert [*keys.parent.glob("*.new")] == []


def test_the_file_behind_a_link_is_replaced_and_the_link_stays(keys: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(keys)
    key_file.add_key(link, make_current=True)
    assert link.is_symlink()
    assert read_keys(keys)[0] == "k1"
