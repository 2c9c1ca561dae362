"""The command line as an operator meets it: real processes, what they print, and how they end."""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import IO, Any

import httpx2
import pytest

import mcp_gate

ARAP = [sys.executable, "-c", "from arap_service.cli import main; main()"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ARAP_")}


def run(
    *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished command."""
    return subprocess.run(
        [*ARAP, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=ENVIRONMENT | dict(environment or {}),
    )


def failure(*arguments: str, **options: Any) -> str:
    """What a command that fails says; never a traceback, always on standard error."""
    finished = run(*arguments, **options)
    assert finished.returncode == 1, finished.stderr
    assert finished.stdout == ""
    said = [line for line in finished.stderr.splitlines() if line.startswith("arap: ")]
    assert said
    assert "Traceback" not in finished.stderr
    return "\n".join(said)


def _forward(stream: IO[str], lines: "Queue[str]") -> None:
    for line in stream:
        lines.put(line)


@contextmanager
def serving(config: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The running service and its address."""
    process = subprocess.Popen(
        [*ARAP, "serve", "--config", str(config), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | environment,
    )
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    stdout, stderr = process.stdout, process.stderr
    reader = threading.Thread(target=_forward, args=(stdout, lines))
    drain = threading.Thread(target=lambda: stderr.read() if stderr else None)
    reader.start()
    drain.start()
    try:
        line = lines.get(timeout=60)
        assert line.startswith("arap: listening on http://127.0.0.1:")
        yield process, line.rsplit(" ", 1)[-1].strip()
    finally:
        process.kill()
        process.wait(timeout=30)
        reader.join(timeout=30)
        drain.join(timeout=30)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that `arap init --dev` has filled."""
    folder = tmp_path_factory.mktemp("prepared") / "dev"
    finished = run("init", "--dev", str(folder))
    assert finished.returncode == 0, finished.stderr
    return folder


@pytest.fixture
def dev(prepared: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    shutil.copytree(prepared, tmp_path / "dev")
    return tmp_path / "dev"


def config_of(dev: Path) -> Path:
    """Its configuration, listening on any free port."""
    path = dev / "any-port.yaml"
    path.write_text((dev / "arap.yaml").read_text().replace("bind: 127.0.0.1:8400", "bind: 127.0.0.1:0"))
    return path


def test_dev_configuration_serves_at_once_and_its_secrets_work(dev: Path) -> None:
    """Fresh folder to access token; secrets are readable by their owner alone and stand nowhere else."""
    secrets = json.loads((dev / "secrets.json").read_text())
    for name in ("secrets.json", "keys.json", "arap.yaml", "arap.db", "gate.yaml"):
        assert (dev / name).stat().st_mode & 0o077 == 0
    assert not any(secret in (dev / "arap.yaml").read_text() for secret in secrets["clients"].values())
    with serving(config_of(dev)) as (_, url):
        ready = httpx2.get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ok")
        for client_id, secret in secrets["clients"].items():
            form = {"grant_type": "client_credentials"}
            answer = httpx2.post(f"{url}/issuer/token", data=form, auth=(client_id, secret))
            assert answer.status_code == 200
        assert httpx2.get(f"{url}/login").status_code == 200


def test_dev_agent_gets_a_token_for_the_gate_that_the_written_settings_expect(dev: Path) -> None:
    """What `arap init --dev` writes for the other half fits: audience, issuer, and the gate's own secret."""
    gate = mcp_gate.load_settings(dev / "gate.yaml")
    secrets = json.loads((dev / "secrets.json").read_text())
    assert gate.backend is not None
    assert gate.backend.client_secret is not None
    assert gate.backend.client_secret.get_secret_value() == secrets["clients"]["gate"]
    config = config_of(dev)
    refused = failure("token", "agent", "--config", str(config))
    assert "is the service running?" in refused
    with serving(config) as (_, url):
        config.write_text(config.read_text().replace("http://127.0.0.1:8400", url))
        # The issuer's name is configured and the port is not: only the address of the endpoint follows the port.
        finished = run("token", "agent", "--config", str(config))
        assert finished.returncode == 0, finished.stderr
        unknown = failure("token", "nobody", "--config", str(config))
    claims = json.loads(base64.urlsafe_b64decode(finished.stdout.strip().split(".")[1] + "=="))
    assert (claims["aud"], claims["iss"]) == (gate.resource, gate.issuers[0].issuer)
    assert (claims["sub"], claims["client_id"]) == ("alice@example.com", "agent")
    assert "names no secret of the client nobody" in unknown


def test_service_stops_with_status_zero_on_a_signal_and_with_its_supervisor(dev: Path) -> None:
    """Whoever holds standard input may die in any way: the pipe ends, and so does the service."""
    config = config_of(dev)
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(config) as (process, _):
            process.send_signal(number)
            assert process.wait(timeout=30) == 0
    with serving(config, "--die-with-stdin") as (process, url):
        assert httpx2.get(f"{url}/healthz").status_code == 200
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_open_stream_of_events_does_not_keep_the_service_from_stopping(dev: Path) -> None:
    """It would never end by itself; uvicorn would wait for it until its own time-out of ten seconds."""
    config = config_of(dev)
    secret = json.loads((dev / "secrets.json").read_text())["clients"]["resolver"]
    with serving(config) as (process, url):
        form = {"grant_type": "client_credentials"}
        token = httpx2.post(f"{url}/issuer/token", data=form, auth=("resolver", secret)).json()["access_token"]
        bearer = {"Authorization": f"Bearer {token}"}
        with httpx2.stream("GET", f"{url}/resolver/v1/events", headers=bearer, timeout=30) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("retry: ")
            process.send_signal(signal.SIGTERM)
            assert list(lines)[-1] == ""
        assert process.wait(timeout=30) == 0


def test_taken_port_is_one_line(dev: Path) -> None:
    with serving(config_of(dev)) as (_, url):
        port = url.rpartition(":")[2]
        said = failure("serve", "--config", str(dev / "arap.yaml"), environment={"ARAP_BIND": f"127.0.0.1:{port}"})
    assert "cannot listen" in said
    assert len(said.splitlines()) == 1


def test_bind_beyond_loopback_is_refused_while_the_transport_is_not_safe(dev: Path) -> None:
    said = failure("serve", "--config", str(dev / "arap.yaml"), environment={"ARAP_BIND": "0.0.0.0:8400"})
    assert "must be a loopback address" in said


def test_locked_database_is_one_line(dev: Path) -> None:
    other = sqlite3.connect(dev / "arap.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        said = failure("people", "import", str(people_file(dev)), "--config", str(dev / "arap.yaml"))
    finally:
        other.close()
    assert "is locked by another process" in said


def people_file(dev: Path) -> Path:
    path = dev / "people.yaml"
    path.write_text(
        """
people:
  - id: dana
    name: Dana
    groups: [reviewers]
    identities: [{iss: https://idp.example, sub: dana-7}]
"""
    )
    return path


def test_database_of_no_release_is_not_served(dev: Path) -> None:
    (dev / "arap.db").unlink()
    said = failure("serve", "--config", str(dev / "arap.yaml"))
    assert "arap migrate" in said
    assert run("migrate", "--config", str(dev / "arap.yaml")).returncode == 0
    with serving(config_of(dev)) as (_, url):
        assert httpx2.get(f"{url}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve", "--config", "{}/missing.yaml"], "cannot be read"),
        (["init", "{}"], "--dev"),
        (["init", "--dev", "{}"], "the folder is not empty"),
        (["policy", "check", "{}/missing.yaml"], "No such file"),
        (["policy", "check", "{}/arap.yaml"], "policy: line 2"),
        (["policy", "check", "{}/arap.db"], "not UTF-8"),
        (["people", "import", "{}/policy.yaml", "--config", "{}/arap.yaml"], "people"),
        (["account", "add", "dana", "--person", "nobody", "--config", "{}/arap.yaml"], "there is no person nobody"),
        (["account", "add", "ada", "--person", "grace", "--config", "{}/arap.yaml"], "belongs to somebody else"),
        (["account", "add", " ", "--person", "grace", "--config", "{}/arap.yaml"], "1 to 100 characters"),
        (["account", "add", "grace", "--person", "grace", "--password-stdin", "--config", "{}/arap.yaml"], "password"),
    ],
)
def test_mistake_of_an_operator_is_named_without_a_traceback(arguments: list[str], expected: str, dev: Path) -> None:
    assert expected in failure(*(argument.replace("{}", str(dev)) for argument in arguments), stdin="short\n")


def test_people_and_accounts_are_brought_in_and_every_change_is_audited(dev: Path) -> None:
    config = ["--config", str(dev / "arap.yaml")]
    path = people_file(dev)
    said = [run("people", "import", str(path), *config).stdout.splitlines() for _ in range(2)]
    assert said[0][0] == "add dana (Dana), groups reviewers"
    assert not any(line.startswith("add") for line in said[1])
    assert [lines[-1] for lines in said] == ["1 person is up to date."] * 2
    given = run(
        "account", "add", "Dana", "--person", "dana", "--password-stdin", *config, stdin="a long enough phrase\n"
    )
    assert given.stdout.splitlines()[0] == "Account Dana is ready."
    assert re.search(r"first log-in.* until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.$", given.stdout.splitlines()[1])
    guessed = failure(
        "account", "add", "Dana", "--person", "dana", "--password-stdin", *config, stdin="dana-in-november\n"
    )
    assert "no name of its owner" in guessed
    assert "password " in run("account", "add", "dana", "--person", "dana", *config).stdout
    with sqlite3.connect(dev / "arap.db") as database:
        identities = database.execute("SELECT iss, sub FROM identity WHERE person_id = 'dana' ORDER BY iss").fetchall()
        groups = database.execute("SELECT group_name FROM membership WHERE person_id = 'dana'").fetchall()
        kinds = database.execute("SELECT kind FROM audit_entry WHERE chain = 'configuration'").fetchall()
    database.close()
    assert identities == [("http://127.0.0.1:8400", "dana"), ("https://idp.example", "dana-7")]
    assert groups == [("reviewers",)]
    assert [kind for (kind,) in kinds].count("person_imported") == 4
    assert [kind for (kind,) in kinds].count("account_set") == 4
    path.write_text(path.read_text().replace("id: dana", "id: eve"))
    assert "already belongs to dana" in failure("people", "import", str(path), *config)


def test_a_password_that_replaces_another_is_told_to_its_owner_and_a_first_one_is_not(dev: Path) -> None:
    config = dev / "arap.yaml"
    config.write_text(
        config.read_text() + "notifications: {channels: {mail: {url: 'mailto://127.0.0.1?to={email}'}}}\n"
    )
    run("people", "import", str(people_file(dev)), "--config", str(config))
    told = []
    for _ in range(2):
        run("account", "add", "dana", "--person", "dana", "--config", str(config))
        with sqlite3.connect(dev / "arap.db") as database:
            told.append(database.execute("SELECT kind, people FROM announcement").fetchall())
        database.close()
    assert told == [[], [("password_changed", '["dana"]')]]


def test_a_breached_password_is_given_to_nobody(dev: Path) -> None:
    digest = hashlib.sha1(b"a long enough phrase", usedforsecurity=False).hexdigest().upper()
    path, config = dev / "breached.txt", dev / "arap.yaml"
    config.write_text(config.read_text() + "login: {breached_passwords: breached.txt}\n")
    given = ["account", "add", "grace", "--person", "grace", "--password-stdin", "--config", str(config)]
    assert "login.breached_passwords: " in failure(*given, stdin="a long enough phrase\n")
    path.write_text(f"{digest}:12\n")
    assert "became known elsewhere" in failure(*given, stdin="a long enough phrase\n")
    assert run(*given, stdin="another long phrase\n").stdout.startswith("Account grace is ready.\n")


def test_a_password_that_was_set_for_somebody_decides_nothing_at_a_terminal_and_has_an_end(dev: Path) -> None:
    """That of the development set-up is meant to be used at once."""
    config = ["--config", str(config_of(dev))]
    with sqlite3.connect(dev / "arap.db") as database:
        assert database.execute("SELECT count(*) FROM account WHERE first_until IS NULL").fetchone() == (2,)
    database.close()
    run("account", "add", "grace", "--person", "grace", "--password-stdin", *config, stdin="another long phrase\n")
    said = failure("requests", "list", "--as", "grace", *config, environment={"ARAP_PASSWORD": "another long phrase"})
    assert "replace it first" in said
    with sqlite3.connect(dev / "arap.db") as database:
        [(until, changed)] = database.execute(
            "SELECT julianday(first_until), julianday(changed_at) FROM account WHERE login = 'grace'"
        ).fetchall()
    database.close()
    assert until - changed == pytest.approx(3)


def test_audit_that_was_tampered_with_is_named(dev: Path) -> None:
    config = ["--config", str(dev / "arap.yaml")]
    assert run("audit", "verify", *config).stdout.startswith("1 chains with 4 entries are whole; 0 entries are under 0")
    with sqlite3.connect(dev / "arap.db") as database:
        database.execute("UPDATE audit_entry SET actor = 'nobody' WHERE seq = 2")
    database.close()
    assert "audit: chain configuration: entry 2 was changed" in failure("audit", "verify", *config)


def test_new_signing_key_is_published_at_the_next_start(dev: Path) -> None:
    """The old one stays published beside it (PDP-34); the first of all is in force at once."""
    made = [run("keys", "rotate", "binding", "--config", str(dev / "arap.yaml")).stdout.split()[1] for _ in range(2)]
    with serving(config_of(dev)) as (_, url):
        kids = {each["kid"] for each in httpx2.get(f"{url}/jwks.json").json()["keys"]}
    assert {kid for kid in kids if kid.startswith("binding-")} == set(made)


def test_rules_that_are_in_order_are_said_to_be(dev: Path) -> None:
    finished = run("policy", "check", str(dev / "policy.yaml"))
    assert (finished.returncode, "in order" in finished.stdout) == (0, True)


def test_version_and_help_speak_to_an_operator() -> None:
    assert run("--version").stdout.startswith("arap 0.")
    said = run("--help").stdout
    assert "a decision point, access requests, and a desk" in " ".join(said.split())
    assert "What every command shares" not in said
