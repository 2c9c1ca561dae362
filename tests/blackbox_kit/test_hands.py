"""What a deployment's control file gives to a suite; docs/conformance.md."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, ConfigDict

from blackbox_kit.hands import ControlInvalid, Declined, Deputy, Secret, Times, Verb, each_its_own
from blackbox_kit.model import NotRun
from tests.patience import pause

pytestmark = pytest.mark.anyio


class Given(BaseModel):
    """As much of a control file as hands need."""

    model_config = ConfigDict(frozen=True)
    verbs: dict[str, Verb] = {}
    seconds: Times = Times()


def deputy(folder: Path, *, seconds: float = 30, **verbs: Any) -> Deputy[Given]:
    """Hands with these verbs."""
    given = {name: Verb.model_validate(how) for name, how in verbs.items()}
    return Deputy(Given(verbs=given, seconds=Times(verb=seconds)), folder)


def test_callers_with_tokens_of_their_own_are_told_apart() -> None:
    each_its_own({"first": "a", "second": "b", "third": None, "fourth": None})


def test_two_callers_with_one_token_are_named_and_the_token_is_not() -> None:
    with pytest.raises(ControlInvalid, match="first and third have the same token") as refused:
        each_its_own({"first": "hush", "second": "b", "third": "hush"})
    assert "hush" not in str(refused.value)


async def test_what_a_command_prints_is_had_even_if_it_leaves_a_server_running(tmp_path: Path) -> None:
    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '300']).pid)"
    with anyio.fail_after(60):
        said = await deputy(tmp_path, restart={"run": [sys.executable, "-c", script]}).do("restart")
    os.kill(int(said), 9)


async def test_a_verb_that_has_no_end_is_ended_with_everything_that_it_started(tmp_path: Path) -> None:
    script = "sleep 300 & echo $! > child; sleep 300; true"
    with pytest.raises(NotRun, match="approve took longer than 1 s") as error:
        await deputy(tmp_path, seconds=1, approve={"run": ["sh", "-c", script]}).do("approve")
    assert not isinstance(error.value, Declined)
    child = int((tmp_path / "child").read_text())
    with anyio.fail_after(30):
        while _lives(child):
            await pause()


@pytest.mark.parametrize(
    ("how", "is_a_no"),
    [
        ({"run": [sys.executable, "-c", "raise SystemExit(1)"]}, True),
        ({"run": ["no-such-program-anywhere"]}, False),
        ({"post": "http://127.0.0.1:1/approve"}, False),
        ({"post": "http://127.0.0.1:99999/approve"}, False),
    ],
)
async def test_only_who_was_asked_can_say_no(tmp_path: Path, how: dict[str, Any], *, is_a_no: bool) -> None:
    with pytest.raises(NotRun) as error:
        await deputy(tmp_path, approve=how).do("approve")
    assert isinstance(error.value, Declined) == is_a_no, error.value


@pytest.mark.parametrize(
    ("text", "told"),
    [("", "is empty"), (" \n", "is empty"), ("a\nb", "has a line break"), ("schl\u00fcssel", "no token has")],
)
async def test_a_token_that_no_header_can_carry_is_an_error_of_the_file(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ControlInvalid, match=f"tokens: token {told}|tokens: token .*{told}") as refused:
        await deputy(tmp_path).token(Secret(file=Path("token")))
    assert text.strip() == "" or text.strip() not in str(refused.value)


def _lives(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
