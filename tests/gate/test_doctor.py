"""What `mcp-gate doctor` finds: each trouble by itself, with what to do, and nothing where all is well."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from joserfc.jwk import RSAKey

from mcp_gate import doctor, migrate
from mcp_gate.cli import run_command
from mcp_gate.doctor import Finding, State, diagnose
from mcp_gate.settings import GateSettings, load_ring, parse_settings
from tests.clock import FakeClock
from tests.gate.local.desk import LOCAL
from tests.gate.scripted_service import HOST, ScriptedService

pytestmark = pytest.mark.anyio
ISSUER = {"issuer": "https://issuer.example", "jwks_uri": "https://issuer.example/jwks"}
CALLBACK = {"endpoint": "https://gate.example/callbacks/arap", "key": "a" * 44}


def settings(folder: Path, **changes: Any) -> GateSettings:
    """A gate in order: prepared database, key file for its owner only."""
    document: dict[str, Any] = {
        "server_name": "treasury",
        "backend": {"identifier": HOST, "idempotency_retention_seconds": 86_400},
        "database": f"sqlite:///{folder}/gate.sqlite",
        "key_file": str(folder / "keys.yaml"),
        "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
        **changes,
    }
    made = parse_settings({name: value for name, value in document.items() if value is not None})
    load_ring(made.key_file, create=True)
    migrate.upgrade(made.database)
    return made


async def found(
    given: GateSettings,
    tmp_path: Path,
    *,
    service: ScriptedService | None = None,
    other: Callable[[httpx2.Request], httpx2.Response] = lambda _: httpx2.Response(404),
) -> dict[str, Finding]:
    """What is not in order, by what it is about; hosts other than the service's answer by `other`."""
    config = tmp_path / "gate.yaml"
    config.touch(0o600)
    scripted = (service or ScriptedService()).transport()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if str(request.url).startswith(HOST):
            return await scripted.handle_async_request(request)
        return other(request)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        told = await diagnose(given, config=config, http=http, clock=FakeClock())
    assert all((finding.fix is None) == (finding.state is State.OK) or finding.check == "key_file" for finding in told)
    return {finding.check: finding for finding in told if finding.state is not State.OK}


async def test_a_gate_in_order_has_no_finding(tmp_path: Path) -> None:
    assert await found(settings(tmp_path), tmp_path) == {}


async def test_a_missing_key_file_and_a_database_that_was_not_prepared_are_found_and_not_made(tmp_path: Path) -> None:
    given = settings(tmp_path)
    async for file in anyio.Path(tmp_path).iterdir():
        await file.unlink()
    told = await found(given, tmp_path)
    assert told["key_file"].state is State.FAILED
    assert told["database"].fix == "start the gate, or run mcp-gate migrate"
    assert [file.name async for file in anyio.Path(tmp_path).iterdir()] == ["gate.yaml"]


async def test_files_that_others_can_read_are_found(tmp_path: Path) -> None:
    given = settings(tmp_path)
    given.key_file.chmod(0o644)
    told = await found(given, tmp_path)
    assert told["key_file"].state is State.WARNING
    assert told["key_file"].fix == f"run chmod 600 {given.key_file}"


async def test_an_armed_gate_without_a_decision_point_is_found(tmp_path: Path) -> None:
    def refuse(_: Any) -> httpx2.Response:
        raise httpx2.ConnectError("no")

    told = await found(settings(tmp_path), tmp_path, service=ScriptedService(override=refuse))
    assert told["backend"].state is State.FAILED
    assert "there is no decision point" in told["backend"].says


async def test_a_backend_that_does_not_let_the_gate_ask_is_found(tmp_path: Path) -> None:
    told = await found(settings(tmp_path), tmp_path, service=ScriptedService(token="secret-token"))
    assert told["backend"].says == "it does not let this gate ask (status 401)"
    assert told["backend"].fix == "set backend.client_id"


async def test_a_backend_at_which_nothing_can_be_requested_is_found(tmp_path: Path) -> None:
    def bare(received: Any) -> httpx2.Response | None:
        if not received.url.endswith("authzen-configuration"):
            return None
        document = {"policy_decision_point": HOST, "access_evaluation_endpoint": f"{HOST}/evaluation"}
        return httpx2.Response(200, json=document)

    told = await found(settings(tmp_path), tmp_path, service=ScriptedService(override=bare))
    assert "no denial can be requested" in told["backend"].says


async def test_a_probe_is_never_a_question_about_somebody(tmp_path: Path) -> None:
    service = ScriptedService()
    service.override = lambda received: httpx2.Response(400) if received.url.endswith("/evaluation") else None
    assert await found(settings(tmp_path), tmp_path, service=service) == {}
    assert [received.json() for received in service.received if received.method == "POST"] == [{}]


@pytest.mark.parametrize(
    ("answer", "is_well"),
    [
        (httpx2.Response(200, json={"keys": [RSAKey.generate_key(2048).as_dict(private=False)]}), True),
        (httpx2.Response(200, json={"keys": "none"}), False),
        (httpx2.Response(200, text="<html>"), False),
        (httpx2.Response(503), False),
    ],
    ids=["keys", "no list", "a page", "away"],
)
async def test_an_issuer_whose_keys_cannot_be_had_is_found(
    tmp_path: Path, answer: httpx2.Response, *, is_well: bool
) -> None:
    given = settings(tmp_path, issuers=[ISSUER], resource="https://gate.example/mcp")
    told = await found(given, tmp_path, other=lambda _: answer)
    assert ("issuers (https://issuer.example)" not in told) == is_well


@pytest.mark.parametrize(
    ("status", "state"), [(401, None), (400, None), (200, State.FAILED), (404, State.FAILED), (502, State.FAILED)]
)
async def test_a_callback_endpoint_that_is_not_ours_is_found(tmp_path: Path, status: int, state: State | None) -> None:
    backend = {"identifier": HOST, "idempotency_retention_seconds": 86_400, "callback": CALLBACK}
    told = await found(settings(tmp_path, backend=backend), tmp_path, other=lambda _: httpx2.Response(status))
    assert (told["backend.callback"].state if told else None) is state


async def test_a_callback_endpoint_that_cannot_be_reached_is_a_warning(tmp_path: Path) -> None:
    def refuse(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no")

    backend = {"identifier": HOST, "idempotency_retention_seconds": 86_400, "callback": CALLBACK}
    told = await found(settings(tmp_path, backend=backend), tmp_path, other=refuse)
    assert told["backend.callback"].state is State.WARNING


async def test_approvers_beside_the_caller_are_enough(tmp_path: Path) -> None:
    """One of the two approvers is the caller under another name."""
    assert await found(settings(tmp_path, backend=None, local=LOCAL), tmp_path) == {}


@pytest.mark.parametrize(
    "principal",
    [{"sub": "RITA", "client": "c"}, {"sub": "s", "client": "rita"}, {"sub": "s", "client": "c", "agent": "rita"}],
)
async def test_a_rule_that_nobody_but_the_caller_could_approve_is_found(
    tmp_path: Path, principal: dict[str, str]
) -> None:
    rules = [{"tools": ["wire"], "decision": "request", "approvers": ["rita"]}]
    stdio = {"principal": {"iss": "i", **principal}}
    told = await found(settings(tmp_path, backend=None, local=LOCAL | {"rules": rules}, stdio=stdio), tmp_path)
    assert told["local"].state is State.FAILED
    assert "nobody could approve what rule 1 asks for" in told["local"].says


async def test_an_upstream_that_is_not_there_is_found(tmp_path: Path) -> None:
    def refuse(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no")

    upstreams = {"git": {"command": "no-such-command"}, "web": {"url": "https://mcp.example/mcp"}}
    told = await found(settings(tmp_path, upstreams=upstreams), tmp_path, other=refuse)
    assert told["upstreams.git"].fix == "install it or give its path"
    assert told["upstreams.web"].says == "it cannot be reached (ConnectError)"
    there = {"command": shutil.which("python3")}
    assert await found(settings(tmp_path, upstream=there), tmp_path) == {}
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    relative = {"command": "./bin/server", "cwd": str(tmp_path)}  # found where the gateway starts it
    assert await found(settings(tmp_path, upstream=relative), tmp_path) == {}


async def test_what_answers_without_an_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may open a stream of events, which is an answer; a key set that trickles in is none."""

    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    monkeypatch.setattr(doctor, "PATIENCE_SECONDS", 0.05)
    given = settings(
        tmp_path,
        upstreams={"web": {"url": "https://mcp.example/mcp"}},
        issuers=[ISSUER],
        resource="https://gate.example/mcp",
    )
    with anyio.fail_after(20):
        told = await found(given, tmp_path, other=lambda _: httpx2.Response(200, content=trickle()))
    assert {name: finding.says for name, finding in told.items()} == {
        "issuers (https://issuer.example)": "its key set cannot be had (TimeoutError), so every token of it is refused"
    }


async def test_weak_settings_are_warned_about(tmp_path: Path) -> None:
    weak: dict[str, Any] = {
        "insecure_loopback": True,
        "anonymous": {"iss": "i", "sub": "s", "client": "c"},
        "match_client": False,
        "deny_unknown_methods": False,
    }
    told = await found(settings(tmp_path, **weak), tmp_path)
    assert told.keys() == weak.keys()
    assert {finding.state for finding in told.values()} == {State.WARNING}


def test_the_command_prints_findings_and_fails_when_something_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gate.yaml"
    document: dict[str, Any] = {"server_name": "t", "local": LOCAL, "database": f"sqlite:///{tmp_path}/g.db"}
    config.write_text(json.dumps({**document, "key_file": str(tmp_path / "keys.yaml")}))
    config.chmod(0o600)
    ended = []
    for arguments in (["doctor"], ["migrate"], ["doctor", "--json"]):
        with pytest.raises(SystemExit) as end:
            run_command([*arguments, "--config", str(config)])
        ended.append((int(end.value.code or 0), capsys.readouterr().out))
    assert ended[0][0] == 1
    assert "failed   database: " in ended[0][1]
    assert ended[2][0] == 0
    assert {finding["state"] for finding in json.loads(ended[2][1])} == {"ok"}


async def test_no_secret_is_in_a_finding(tmp_path: Path) -> None:
    """Every kind of trouble at once, with a canary wherever a secret stands."""

    def refuse(_: Any) -> httpx2.Response:
        raise httpx2.ConnectError("canary-in-an-error")

    backend = {
        "identifier": HOST,
        "idempotency_retention_seconds": 86_400,
        "client_id": "gate",
        "client_secret": "canary-secret",
        "callback": CALLBACK | {"key": "Y2FuYXJ5" * 8},
    }
    upstreams = {"web": {"url": "https://mcp.example/mcp", "headers": {"x-key": "canary-header"}}}
    given = settings(tmp_path, backend=backend, upstreams=upstreams)
    told = await found(given, tmp_path, service=ScriptedService(override=refuse), other=refuse)
    assert told.keys() == {"backend", "backend.callback", "upstreams.web"}
    shown = "".join(finding.line + json.dumps(finding.as_json()) for finding in told.values())
    assert "canary" not in shown
    assert "Y2FuYXJ5" not in shown
