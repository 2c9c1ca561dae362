"""What can be wrong with TLS is found before anything listens."""

import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
import uvicorn
import yaml
from cryptography.hazmat.primitives import serialization
from starlette.types import Receive, Scope, Send

from arap_service.serving import Server, end_within, tls_context
from arap_service.settings_parts import TlsSettings
from arap_service.yaml_files import SettingsInvalid
from examples.certification.__main__ import prepare, write_certificate
from tests.test_cli import run


@pytest.fixture
def tls(tmp_path: Path) -> TlsSettings:
    """A certificate and the key that belongs to it."""
    found = TlsSettings(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")
    write_certificate(found.certificate, found.key, now=datetime(2026, 4, 30, tzinfo=UTC))
    return found


def test_without_settings_there_is_no_tls() -> None:
    assert tls_context(None) is None


def test_old_versions_are_not_spoken_and_callers_need_no_certificate(tls: TlsSettings) -> None:
    context = tls_context(tls)
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE


def test_a_key_that_everybody_could_read_is_not_written(tls: TlsSettings) -> None:
    assert tls.key.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("fault", ["missing", "swapped", "foreign", "locked"])
def test_files_that_do_not_serve_are_refused_without_asking_anybody(tls: TlsSettings, fault: str) -> None:
    match fault:
        case "missing":
            tls.key.unlink()
        case "swapped":
            tls = TlsSettings(certificate=tls.key, key=tls.certificate)
        case "foreign":
            write_certificate(tls.key.with_name("other.pem"), tls.key, now=datetime(2026, 4, 30, tzinfo=UTC))
        case _:
            private = serialization.load_pem_private_key(tls.key.read_bytes(), None)
            tls.key.write_bytes(
                private.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.BestAvailableEncryption(b"passphrase"),
                )
            )
    with pytest.raises(SettingsInvalid) as refused:
        tls_context(tls)
    assert [problem.partition(":")[0] for problem in refused.value.problems] == ["tls"]


def test_the_command_says_in_one_line_what_is_wrong_with_tls(tmp_path: Path) -> None:
    config = prepare(tmp_path, port=8401, tls=True)
    settings = yaml.safe_load(config.read_text(encoding="utf-8"))
    config.write_text(yaml.safe_dump(settings | {"tls": {"certificate": "no.pem", "key": "key.pem"}}), encoding="utf-8")
    finished = run("serve", "--config", str(config))
    assert finished.returncode == 1
    assert finished.stderr.startswith("arap: tls: ")
    assert finished.stderr.count("\n") == 1


def test_a_stop_that_takes_too_long_is_forced_and_one_in_time_is_not() -> None:
    """The database may hang for good; whatever was under way is in it or was never promised."""
    forced = threading.Event()
    end_within(0.01, give_up=forced.set)
    assert forced.wait(5)
    in_time = threading.Event()
    timer = end_within(60, give_up=in_time.set)
    timer.cancel()
    timer.join(5)
    assert timer.daemon
    assert not in_time.is_set()


@pytest.mark.anyio
async def test_a_server_says_that_it_stops_before_it_waits_for_anything() -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        told.append("lifespan ends")
        await send({"type": "lifespan.shutdown.complete"})

    config = uvicorn.Config(app, lifespan="on", log_config=None, port=0)
    server = Server(
        config, announce=lambda: setattr(server, "should_exit", True), stopping=lambda: told.append("stopping")
    )
    with anyio.fail_after(40):
        await server.serve()
    assert told == ["stopping", "lifespan ends"]
