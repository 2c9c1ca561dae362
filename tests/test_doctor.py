"""The doctor names every trouble with its remedy, changes nothing, and is quiet about what is in order."""

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from arap_service.doctor import Finding, State, diagnose
from arap_service.jwks import Fetched, KeysUnavailable
from arap_service.outbound import Outbound
from arap_service.settings import Settings
from arap_service.store.database import Database
from arap_service.store.people_tables import Membership, Person
from arap_service.surroundings import utc_now
from tests.peers import POLICY
from tests.service import CALLBACK, CALLBACK_KEY, settings_for
from tests.test_cli import config_of, dev, failure, prepared, run

__all__ = ["dev", "prepared"]  # fixtures
PEOPLED = POLICY.replace(
    "steps: [{id: risk, title: Risk engine, resolvers: [resolver, second-resolver]}]",
    "steps: [{id: board, title: Board, groups: [board], people: [zoe], quorum: 2}]",
)
KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "kid": "1",
    "use": "sig",
    "alg": "ES256",
}


async def public(_host: str, _port: int) -> list[str]:
    return ["8.8.8.8"]


async def internal(_host: str, _port: int) -> list[str]:
    return ["10.0.0.1"]


async def found(
    settings: Settings,
    *,
    config: Path | None = None,
    answers: Mapping[str, Fetched | str] | None = None,
    outbound: Outbound | None = None,
) -> dict[str, Finding]:
    """All findings by what they are about; of several about one thing the worst."""

    async def get(url: str) -> Fetched:
        answer = (answers or {}).get(url, "ConnectError")
        if isinstance(answer, str):
            raise KeysUnavailable(answer)
        return answer

    findings = await diagnose(
        settings,
        config=config or settings.key_file,
        clock=utc_now,
        get=get,
        outbound=outbound or Outbound(resolver=public),
    )
    ranked = sorted(findings, key=lambda finding: [State.OK, State.WARNING, State.FAILED].index(finding.state))
    return {finding.check: finding for finding in ranked}


def troubles(by_check: Mapping[str, Finding]) -> dict[str, str]:
    return {check: finding.state.value for check, finding in by_check.items() if finding.state is not State.OK}


def prepared_settings(folder: Path, url: str, policy: str = POLICY, **changes: Any) -> Settings:
    return settings_for(folder, database=url, policy=policy, **changes)


@pytest.mark.anyio
async def test_what_is_in_order_is_no_trouble(service_url: str, tmp_path: Path) -> None:
    by_check = await found(prepared_settings(tmp_path, service_url))
    assert troubles(by_check) == {"builtin_issuer": "warning"}
    assert {"database", "rules", "key_file", "deciders", "clock"} <= by_check.keys()


@pytest.mark.anyio
async def test_a_step_that_nobody_can_decide_is_found_until_enough_people_are_there(
    service_url: str, tmp_path: Path
) -> None:
    settings = prepared_settings(tmp_path, service_url, PEOPLED)
    step = (await found(settings))["step transfer/board"]
    assert (step.state, step.says) == (State.FAILED, "it takes 2 to approve and nobody can")
    assert step.fix == "bring people into board with arap people import"
    opened = Database.open(service_url)
    now = utc_now()
    people = [Person(id=name, name=name, active=name != "gone", created_at=now) for name in ("zoe", "kim", "gone")]
    opened.write_now(lambda session: session.add_all(people))
    opened.write_now(
        lambda session: session.add_all(Membership(person_id=name, group_name="board") for name in ("gone", "zoe"))
    )
    assert (await found(settings))["step transfer/board"].says == "it takes 2 to approve and 1 can"
    opened.write_now(lambda session: session.add(Membership(person_id="kim", group_name="board")))
    opened.close()
    assert "step transfer/board" not in await found(settings)


@pytest.mark.anyio
async def test_a_step_of_resolvers_without_the_scope_is_found_unless_another_issuer_may_know_them(
    service_url: str, tmp_path: Path
) -> None:
    policy = POLICY.replace("resolvers: [resolver, second-resolver]", "resolvers: [reader]")
    lonely = await found(prepared_settings(tmp_path, service_url, policy))
    assert lonely["step transfer/risk"].fix == "give reader the scope approval:resolve"
    issuer = {"issuer": "https://idp.example", "jwks_uri": "https://idp.example/jwks"}
    other = await found(prepared_settings(tmp_path, service_url, policy, issuers=[issuer]))
    assert "step transfer/risk" not in other


@pytest.mark.anyio
async def test_a_step_whose_relation_names_nobody_who_is_there_is_found(service_url: str, tmp_path: Path) -> None:
    entities = "entities: {user: {alice: {manager: zoe}, bob: {manager: [5, gone]}}}"
    related = POLICY.replace(
        "resolvers: [resolver, second-resolver]", "relations: [{of: subject, is: manager}]"
    ).replace("version: 1", f"version: 1\n{entities}", 1)
    settings = prepared_settings(tmp_path, service_url, related)
    step = (await found(settings))["step transfer/risk"]
    assert (step.state, step.says) == (State.FAILED, "it takes 1 to approve and nobody can")
    opened = Database.open(service_url)
    opened.write_now(lambda session: session.add(Person(id="gone", name="G", active=False, created_at=utc_now())))
    assert "step transfer/risk" in await found(settings)
    opened.write_now(lambda session: session.add(Person(id="zoe", name="Z", created_at=utc_now())))
    opened.close()
    assert "step transfer/risk" not in await found(settings)


@pytest.mark.anyio
async def test_issuers_without_reachable_usable_keys_or_with_another_clock_are_found(
    service_url: str, tmp_path: Path
) -> None:
    names = ("away", "empty", "good", "late")
    issuers = [{"issuer": f"https://{name}.example", "jwks_uri": f"https://{name}.example/jwks"} for name in names]
    settings = prepared_settings(tmp_path, service_url, issuers=issuers)
    body = json.dumps({"keys": [KEY]}).encode()
    answers: dict[str, Fetched | str] = {
        "https://away.example/jwks": "ConnectTimeout",
        "https://empty.example/jwks": Fetched(b'{"keys": []}', None),
        "https://good.example/jwks": Fetched(body, utc_now()),
        "https://late.example/jwks": Fetched(body, utc_now() - timedelta(minutes=10)),
    }
    by_check = await found(settings, answers=answers)
    states = {name: by_check[f"issuer https://{name}.example"].state.value for name in names}
    assert states == {"away": "failed", "empty": "failed", "good": "ok", "late": "ok"}
    assert "ConnectTimeout" in by_check["issuer https://away.example"].says
    assert by_check["clock"].state is State.FAILED
    assert "late.example" in by_check["clock"].says


@pytest.mark.anyio
async def test_callbacks_that_would_never_be_called_are_found_with_the_way_out(
    service_url: str, tmp_path: Path
) -> None:
    settings = prepared_settings(tmp_path, service_url)
    refused = await found(settings, outbound=Outbound(resolver=internal))
    check = refused["callback of gate to gate.example"]
    assert (check.state, check.says) == (State.FAILED, "it is never called (internal_address)")
    assert check.fix == "if that is meant, put gate.example:443 into allow_destinations of this client"
    listed = {"endpoints": [CALLBACK], "keys": [CALLBACK_KEY], "allow_destinations": ["gate.example:443"]}
    allowed = prepared_settings(tmp_path, service_url, callbacks={"gate": listed})
    assert (await found(allowed, outbound=Outbound(resolver=internal)))[check.check].state is State.OK


@pytest.mark.anyio
async def test_files_that_others_can_read_are_found(service_url: str, tmp_path: Path) -> None:
    settings = prepared_settings(tmp_path, service_url)
    config = tmp_path / "arap.yaml"
    config.write_text("identifier: x")
    secrets = tmp_path / "secrets.json"
    secrets.write_text("{}")
    for path, mode in ((config, 0o640), (secrets, 0o604), (settings.key_file, 0o644)):
        path.chmod(mode)
    by_check = await found(settings, config=config)
    assert troubles(by_check) == {
        "configuration": "warning",
        "secrets": "failed",
        "key_file": "failed",
        "builtin_issuer": "warning",
    }
    assert by_check["secrets"].fix == f"run chmod 600 {secrets}"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "part",
    [
        {"upstream": {"identifier": "https://pdp.example", "bearer": "s3cret"}},
        {
            "upstream": {
                "identifier": "https://pdp.example",
                "client": {"token_endpoint": "https://pdp.example/t", "client_id": "us", "client_secret": "s3cret"},
            }
        },
        {"subscriptions": {"board": {"endpoint": "https://events.example/in", "keys": [CALLBACK_KEY]}}},
    ],
    ids=["bearer", "client", "subscription"],
)
async def test_a_configuration_with_credentials_for_elsewhere_is_nobody_elses_to_read(
    service_url: str, tmp_path: Path, part: dict[str, Any]
) -> None:
    settings = prepared_settings(tmp_path, service_url, **part)
    config = tmp_path / "arap.yaml"
    config.write_text("identifier: x")
    config.chmod(0o644)
    assert (await found(settings, config=config))["configuration"].state is State.FAILED
    config.chmod(0o600)
    assert "configuration" not in await found(settings, config=config)


@pytest.mark.anyio
async def test_old_tables_broken_rules_and_a_missing_key_file_are_found_at_one_look(
    service_url: str, tmp_path: Path
) -> None:
    settings = prepared_settings(tmp_path, service_url)
    opened = Database.open(service_url)
    opened.write_now(lambda session: session.execute(text("UPDATE service_version SET version_num = 'service_0000'")))
    opened.close()
    settings.policy_path.write_text("version: 1\nrules: 7\n", encoding="utf-8")
    settings.key_file.unlink()
    by_check = await found(settings, config=tmp_path / "absent.yaml")
    assert {check: by_check[check].state.value for check in ("database", "rules", "key_file")} == dict.fromkeys(
        ("database", "rules", "key_file"), "failed"
    )
    assert "arap migrate" in by_check["database"].says
    assert by_check["rules"].says.startswith("line 2: /rules")


@pytest.mark.anyio
async def test_weak_settings_are_warnings_that_name_no_secret(service_url: str, tmp_path: Path) -> None:
    clients = [{"client_id": "gate", "secret": "hush hush hush hush", "scopes": ["arap:submit"]}]
    settings = prepared_settings(
        tmp_path,
        service_url,
        authentication="none",
        insecure_loopback=True,
        log_level="debug",
        builtin_issuer={"enabled": True, "clients": clients},
        callbacks={"gate": {"endpoints": [CALLBACK], "bearer": "hush hush hush hush"}},
    )
    by_check = await found(settings)
    weak = {"authentication", "insecure_loopback", "builtin_issuer", "log_level", "callbacks.gate"}
    assert weak <= troubles(by_check).keys()
    assert not any("hush" in finding.line for finding in by_check.values())
    assert all(finding.fix for finding in by_check.values() if finding.check in weak)


def test_the_command_prints_lines_or_json_and_fails_when_something_has_failed(dev: Path) -> None:
    config = config_of(dev)
    config.chmod(0o600)
    healthy = run("doctor", "--config", str(config))
    assert healthy.returncode == 0, healthy.stdout
    assert "failed" not in healthy.stdout
    (dev / "keys.json").chmod(0o644)
    ill = run("doctor", "--config", str(config), "--json")
    assert ill.returncode == 1
    states = {entry["check"]: entry["state"] for entry in json.loads(ill.stdout)}
    assert states["key_file"] == "failed"
    assert "cannot be read" in failure("doctor", "--config", str(dev / "absent.yaml"))
