"""Runs a guide: its commands in their order in an empty folder, its configurations through the loaders that read them.

A block is fenced with a language and one or two words after it:

    sh                  a command; its status must be 0
    sh background       a server, which runs until the page is over
    sh fails            a command that must not end with status 0
    yaml NAME           a file, written under that name and loaded by what reads such files
    yaml NAME add       keys to add to that file
    json NAME           a file of JSON
    python NAME         a file of Python; without a name it is run

Ports of the page are replaced by free ones. What cannot be run here is fenced as `text`, and its page says why.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from arap_service.conformance.control import read_control as read_approvals_control
from arap_service.directory import read_people
from arap_service.domain.policy_load import load_policy
from arap_service.policy_check import read_case
from arap_service.settings import load_settings as load_service
from mcp_gate.conformance.control import read_control
from mcp_gate.settings import load_settings as load_gate
from tests.crash.processes import is_held, until_now

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
_FENCE: Final = re.compile(r"^( *)```(\w*)((?: [\w./-]+)*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_LOADERS: Final[tuple[tuple[str, Callable[[Path], object]], ...]] = (
    (".case.yaml", lambda path: read_case(path.read_text(encoding="utf-8"))),
    (".rules.yaml", lambda path: load_policy(path.read_text(encoding="utf-8"))),
    ("people.yaml", read_people),
    (".control.yaml", read_approvals_control),
    ("control.yaml", read_control),
    ("gate.yaml", load_gate),
    (".gate.yaml", load_gate),
    ("arap.yaml", load_service),
    ("arap-production.yaml", load_service),
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the words after it, and its text."""

    language: str
    words: tuple[str, ...]
    text: str


def blocks(page: str) -> list[Block]:
    """Every fenced block of `page`, in order."""
    return [
        Block(language, tuple(words.split()), textwrap.dedent(text))
        for _, language, words, text in _FENCE.findall(page)
    ]


def load(path: Path) -> object:
    """What the program that reads files of this name makes of the file; a name that nobody reads is an error."""
    loaders = [loader for suffix, loader in _LOADERS if path.name.endswith(suffix)]
    assert loaders, f"nothing reads {path.name}"
    return loaders[0](path)


@dataclass(frozen=True, slots=True)
class Guide:
    """A page being worked through in `folder`; `ports` replaces the ports that stand on the page."""

    folder: Path
    ports: Mapping[int, int]

    def follow(self, page: str) -> Iterator[tuple[Block, str]]:
        """Do what each block says; yields it with what a command printed."""
        with ExitStack() as servers:
            for block in blocks(page):
                yield block, self._do(block, servers)

    def _do(self, block: Block, servers: ExitStack) -> str:
        text = self._with_ports(block.text)
        match block.language, block.words:
            case "sh", ("background",):
                servers.enter_context(self._served(text))
            case "sh", ():
                return self._run(text)
            case "sh", ("fails",):
                return self._run(text, fails=True)
            case "yaml", (name,):
                self._write(name, text)
                load(self.folder / name)
            case "yaml", (name, "add"):
                self._add(name, text)
                load(self.folder / name)
            case "json", (name,):
                json.loads(text)
                self._write(name, text)
            case "python", (name,):
                self._write(name, text)
            case "python", ():
                self._write("block.py", text)
                return self._run(f"{sys.executable} block.py")
            case (("text" | "mermaid"), ()):
                pass
            case _:
                raise AssertionError(f"a block that nothing runs: {block.language} {block.words}")
        return ""

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _add(self, name: str, text: str) -> None:
        path = self.folder / name
        whole: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self._write(name, yaml.safe_dump(whole | yaml.safe_load(text), sort_keys=False))

    def _run(self, script: str, *, fails: bool = False) -> str:
        done = subprocess.run(
            ["sh", "-eu", "-c", script], cwd=self.folder, env=self._environment(),
            capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode != 0) is fails, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    @contextmanager
    def _served(self, command: str) -> Iterator[None]:
        said = self.folder / "server.log"
        before = [port for port in self.ports.values() if is_held(port)]
        with said.open("ab") as log:
            process = subprocess.Popen(
                command.split(), cwd=self.folder, env=self._environment(),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            until_now(
                lambda: [port for port in self.ports.values() if is_held(port)] != before or process.poll() is not None,
                "the server listens",
            )
            assert process.poll() is None, said.read_text()
            yield
        finally:
            process.terminate()
            process.wait(30)

    def _with_ports(self, text: str) -> str:
        for shown, free in self.ports.items():
            text = text.replace(f":{shown}", f":{free}")
        ports = " ".join(f"{option} {self.ports[at]}" for option, at in (("--port", 8400), ("--gate-port", 8500)))
        return text.replace("arap init --dev", f"arap init --dev {ports}")

    def _environment(self) -> dict[str, str]:
        scripts = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
        return os.environ | {"PATH": scripts, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", "NO_COLOR": "1"}
