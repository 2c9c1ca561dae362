"""Cerbos 0.55 as a peer: its AuthZEN endpoint, with a policy that says what `evaluation_rules.yaml` says.

npm's ordinary client installs the binary into `.bench`, which git ignores, and checks it against the digest that stands
here. Where that is impossible the peer is missing, and the figures say so.
"""

import json
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.bench.figures import ROOT
from tests.bench.servers import bound_to_us, free_port, running

VERSION: Final = "0.55.0"
PACKAGE: Final = "@cerbos/cerbos-linux-x64"
INTEGRITY: Final = "sha512-eLZUycJfaQWK0XTRgH/Oz2E3XiNCUavDd1LhzFxhUpZ3s5CuQqmqG327ta0On8YOTxuZO/19cG4kvfC22r03/Q=="
CACHE: Final = ROOT / ".bench" / "cerbos"
BINARY: Final = CACHE / "node_modules" / PACKAGE / "cerbos-linux-x64"
_MANIFEST: Final = {"private": True, "dependencies": {PACKAGE: VERSION}}
_LOCK: Final = {
    "lockfileVersion": 3,
    "packages": {
        "": {"dependencies": {PACKAGE: VERSION}},
        f"node_modules/{PACKAGE}": {"version": VERSION, "integrity": INTEGRITY, "cpu": ["x64"], "os": ["linux"]},
    },
}
_POLICY: Final = """\
apiVersion: api.cerbos.dev/v1
resourcePolicy:
  resource: account
  version: default
  rules:
    - actions: [read]
      effect: EFFECT_ALLOW
      roles: ["*"]
      condition: {match: {expr: P.attr.department == R.attr.department}}
    - actions: [transfer]
      effect: EFFECT_ALLOW
      roles: ["*"]
      condition: {match: {expr: P.attr.department == "treasury" && R.attr.amount <= 25000}}
"""
_CONFIG: Final = """\
server:
  httpListenAddr: 127.0.0.1:{http}
  grpcListenAddr: 127.0.0.1:{grpc}
storage:
  driver: disk
  disk: {{directory: {policies}, watchForChanges: false}}
telemetry: {{disabled: true}}
"""


class PeerMissing(Exception):
    """Cerbos cannot be had here; the text says why."""


def require(*, install: bool) -> Path:
    """The binary; with `install` it is fetched when it is not there yet.

    Raises:
        PeerMissing: It is not there, or not for this machine.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise PeerMissing("Cerbos is measured on Linux x86_64 only")
    if BINARY.is_file():
        return BINARY
    if not install:
        raise PeerMissing("Cerbos is not installed; a run without --quick installs it")
    if not shutil.which("npm"):
        raise PeerMissing("Cerbos is installed by npm, which is not here")
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "package.json").write_text(json.dumps(_MANIFEST), encoding="utf-8")
    (CACHE / "package-lock.json").write_text(json.dumps(_LOCK), encoding="utf-8")
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    try:
        subprocess.run(command, cwd=CACHE, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerMissing(f"npm could not install {PACKAGE} {VERSION} ({type(error).__name__})") from None
    return BINARY


@contextmanager
def cerbos(folder: Path, *, install: bool, policy: str = _POLICY) -> Iterator[str]:
    """The base URL of a Cerbos that answers AuthZEN evaluations by `policy` for as long as the block lasts.

    Raises:
        PeerMissing: It cannot be had here.
    """
    binary = require(install=install)
    policies = folder / "policies"
    policies.mkdir()
    (policies / "policy.yaml").write_text(policy, encoding="utf-8")
    http, grpc = free_port(), free_port()
    config = folder / "cerbos.yaml"
    config.write_text(_CONFIG.format(http=http, grpc=grpc, policies=json.dumps(str(policies))), encoding="utf-8")
    base = f"http://127.0.0.1:{http}"
    command = [str(binary), "server", f"--config={config}", "--log-level=error"]
    with running(bound_to_us(command), ready=f"{base}/.well-known/authzen-configuration", log=folder / "cerbos.log"):
        yield base


if __name__ == "__main__":
    try:
        require(install=True)
    except PeerMissing as missing:
        raise SystemExit(f"cerbos: {missing}") from None
