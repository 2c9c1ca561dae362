"""The wheel carries everything that runs, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.locks import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.mark.parametrize(
    ("source", "inside"),
    [
        ("arap_service", "arap_service"),
        ("mcp_gate", "mcp_gate"),
        ("templates", "arap_service/_templates"),
        ("alembic", "arap_service/_migrations"),
    ],
)
def test_every_tracked_file_is_inside(source: str, inside: str, wheel: zipfile.ZipFile) -> None:
    """An editable install would not notice a file that the wheel lacks."""
    command = ["git", "ls-files", "-z", source]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    # A file that keeps an empty folder in version control has no meaning inside a wheel.
    wanted = {name.replace(source, inside, 1) for name in listed if (ROOT / name).is_file() and name}
    assert {name for name in wanted if not Path(name).name.startswith(".")} - set(wheel.namelist()) == set()


def test_nothing_but_the_packages_is_inside(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"arap_service", "blackbox_kit", "mcp_gate"}


def test_both_commands_are_declared(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    lines = wheel.read(name).decode().split("\n")
    assert "arap = arap_service.cli:main" in lines
    assert "mcp-gate = mcp_gate.__main__:main" in lines
