"""What `arap doctor` finds about logging in: nobody who can, and a provider that would not do."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from arap_service.doctor import Finding, State
from arap_service.jwks import Fetched
from arap_service.store.database import Database
from arap_service.store.people_tables import Account, Person
from arap_service.surroundings import utc_now
from tests.clock import FakeClock
from tests.service import app_for, service_context, settings_for
from tests.test_doctor import KEY, PEOPLED, found

pytestmark = pytest.mark.anyio
ISSUER = "https://login.example"
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/jwks",
}


async def about_login(folder: Path, url: str, answers: dict[str, Any], **oidc: Any) -> Finding:
    known = {"issuer": ISSUER, "client_id": "desk", "client_secret": "hush", **oidc}
    settings = settings_for(folder, database=url, policy=PEOPLED, login={"oidc": known})
    bodies = {
        name: value if isinstance(value, str) else Fetched(json.dumps(value).encode(), None)
        for name, value in answers.items()
    }
    by_check = await found(settings, answers=bodies)
    assert "login" not in by_check  # whoever has a provider needs no account
    return by_check[f"login {ISSUER}"]


async def test_people_who_must_decide_and_cannot_log_in_are_found(service_url: str, tmp_path: Path) -> None:
    settings = settings_for(tmp_path, database=service_url, policy=PEOPLED)
    assert (await found(settings))["login"].state is State.FAILED
    opened, now = Database.open(service_url), utc_now()
    opened.write_now(lambda session: session.add(Person(id="zoe", name="Zoe", active=False, created_at=now)))
    account = {"login": "zoe", "person_id": "zoe", "password_hash": "h", "created_at": now, "changed_at": now}
    opened.write_now(lambda session: session.add(Account.model_validate(account)))
    assert "login" in await found(settings)

    opened.write_now(lambda session: setattr(session.get_one(Person, "zoe"), "active", True))
    opened.close()
    assert "login" not in await found(settings)


async def test_a_provider_that_can_be_asked_is_in_order(service_url: str, tmp_path: Path) -> None:
    answers = {f"{ISSUER}/.well-known/openid-configuration": METADATA, f"{ISSUER}/jwks": {"keys": [KEY]}}
    assert (await about_login(tmp_path, service_url, answers)).state is State.OK


@pytest.mark.parametrize(
    ("metadata", "keys", "code"),
    [
        ("ConnectTimeout", {"keys": [KEY]}, "metadata_ConnectTimeout"),
        ({**METADATA, "issuer": "https://other.example"}, {"keys": [KEY]}, "metadata_issuer"),
        (METADATA, "status_404", "keys_status_404"),
        (METADATA, {"keys": []}, "no_usable_key"),
        (METADATA, {"keys": [{**KEY, "alg": "ES384"}]}, "no_usable_key"),
    ],
)
async def test_a_provider_that_would_let_nobody_in_is_found(
    service_url: str, tmp_path: Path, metadata: Any, keys: Any, code: str
) -> None:
    answers = {f"{ISSUER}/.well-known/openid-configuration": metadata, f"{ISSUER}/jwks": keys}
    finding = await about_login(tmp_path, service_url, answers)
    assert finding.state is State.FAILED
    assert code in finding.says


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, State.WARNING),
        ({"login": {"create_people": False}}, None),
        ({"desk": {"readers": ["staff"]}}, None),
        ({"desk": {"readers": []}}, None),
    ],
    ids=str,
)
async def test_a_desk_that_shows_everything_to_everybody_who_comes_is_found_and_told_at_the_start(
    service_url: str, tmp_path: Path, clock: FakeClock, changes: dict[str, Any], state: State | None
) -> None:
    known = {"issuer": ISSUER, "client_id": "desk", "client_secret": "hush", "create_people": True}
    login = {"oidc": known | changes.get("login", {})}
    settings = settings_for(tmp_path, database=service_url, policy=PEOPLED, login=login, desk=changes.get("desk", {}))
    bodies = {
        f"{ISSUER}/.well-known/openid-configuration": Fetched(json.dumps(METADATA).encode(), None),
        f"{ISSUER}/jwks": Fetched(json.dumps({"keys": [KEY]}).encode(), None),
    }
    finding = (await found(settings, answers=bodies)).get("login.oidc.create_people")
    assert (None if finding is None else finding.state) == state
    async with service_context(settings, clock=clock) as context:
        with capture_logs() as told:
            app_for(context)
    assert ("everybody_may_read_requests" in {each["event"] for each in told}) == (state is not None)


async def test_a_secret_that_cannot_be_read_is_found(service_url: str, tmp_path: Path) -> None:
    answers = {f"{ISSUER}/.well-known/openid-configuration": METADATA, f"{ISSUER}/jwks": {"keys": [KEY]}}
    gone = {"client_secret": None, "client_secret_file": tmp_path / "gone"}
    finding = await about_login(tmp_path, service_url, answers, **gone)
    assert (finding.state, "cannot be read" in finding.says) == (State.FAILED, True)


async def test_a_way_back_that_is_not_https_is_found(service_url: str, tmp_path: Path) -> None:
    answers = {f"{ISSUER}/.well-known/openid-configuration": METADATA, f"{ISSUER}/jwks": {"keys": [KEY]}}
    known = {"issuer": ISSUER, "client_id": "desk", "client_secret": "hush"}
    changes = {"insecure_loopback": True, "identifier": "http://127.0.0.1:8400", "login": {"oidc": known}}
    settings = settings_for(tmp_path, database=service_url, policy=PEOPLED, **changes)
    bodies = {name: Fetched(json.dumps(value).encode(), None) for name, value in answers.items()}
    finding = (await found(settings, answers=bodies))[f"login {ISSUER}"]
    assert (finding.state, "/login/callback" in finding.says) == (State.WARNING, True)
