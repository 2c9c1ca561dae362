"""How people log in, as configured: what is refused, and where the secret comes from."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from arap_service.settings import load_settings
from arap_service.settings_login import LoginSettings, OidcSettings
from arap_service.yaml_files import SettingsInvalid

KNOWN: dict[str, Any] = {"issuer": "https://login.example", "client_id": "desk", "client_secret": "hush"}
FILE = """
identifier: https://approvals.example
policy_path: policy.yaml
key_file: keys.json
builtin_issuer: {enabled: true}
"""


def test_without_a_word_people_have_local_accounts_for_half_an_hour_and_half_a_day() -> None:
    login = LoginSettings()
    assert (login.local, login.oidc, login.idle_seconds, login.absolute_seconds) == (True, None, 1800, 43200)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "login.example"},
        {"issuer": "https://login.example?a=b"},
        {"issuer": "https://user@login.example"},
        {"client_secret": None},
        {"client_secret_file": "secret"},
        {"client_authentication": "none"},
        {"scopes": ["profile"]},
        {"algorithms": ["none"]},
        {"algorithms": ["HS256"]},
        {"algorithms": []},
        {"person_claim": "email"},
        {"person_claim": "preferred_username"},
        {"groups": {"a": "b"}},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_provider_that_could_not_be_trusted_is_refused_without_showing_a_secret(change: dict[str, Any]) -> None:
    OidcSettings.model_validate(KNOWN)
    with pytest.raises(ValidationError) as refused:
        OidcSettings.model_validate(KNOWN | change)
    assert "hush" not in str(refused.value)


def test_nobody_locks_everybody_out() -> None:
    with pytest.raises(ValidationError, match="nobody can log in"):
        LoginSettings(local=False)


def test_a_secret_in_a_file_is_read_beside_the_configuration_and_anew(tmp_path: Path) -> None:
    path = tmp_path / "arap.yaml"
    login = "login: {oidc: {issuer: 'https://login.example', client_id: desk, client_secret_file: oidc-secret}}"
    path.write_text(FILE + login, encoding="utf-8")
    oidc = load_settings(path).login.oidc
    assert oidc is not None
    for secret in ("first", "second"):
        (tmp_path / "oidc-secret").write_text(secret + "\n", encoding="utf-8")
        assert oidc.secret() == secret


def test_a_secret_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "arap.yaml"
    path.write_text(FILE + "login: {oidc: {issuer: 'https://login.example', client_id: desk}}", encoding="utf-8")
    monkeypatch.setenv("ARAP_LOGIN__OIDC__CLIENT_SECRET", "from outside")
    oidc = load_settings(path).login.oidc
    assert oidc is not None
    assert oidc.secret() == "from outside"


def test_a_provider_without_tls_is_for_this_machine_alone(tmp_path: Path) -> None:
    path = tmp_path / "arap.yaml"
    login = "login: {oidc: {issuer: 'http://ISSUER', client_id: desk, client_secret: hush}}"
    path.write_text(FILE + login.replace("ISSUER", "127.0.0.1:9"), encoding="utf-8")
    with pytest.raises(SettingsInvalid, match=r"login\.oidc\.issuer: must be https"):
        load_settings(path)
    path.write_text(FILE + "insecure_loopback: true\n" + login.replace("ISSUER", "127.0.0.1:9"), encoding="utf-8")
    load_settings(path)
    path.write_text(FILE + "insecure_loopback: true\n" + login.replace("ISSUER", "login.example"), encoding="utf-8")
    with pytest.raises(SettingsInvalid):
        load_settings(path)
