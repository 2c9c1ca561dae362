"""The configuration: refused whole when any part is wrong, in words that name key and remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from arap_service.key_file import load_ring, write_new_ring
from arap_service.settings import load_settings
from arap_service.settings_parts import is_loopback
from arap_service.yaml_files import SettingsInvalid

GOOD: dict[str, Any] = {
    "identifier": "https://approvals.example",
    "policy_path": "policy.yaml",
    "key_file": "keys.json",
    "issuers": [{"issuer": "https://issuer.example", "jwks_uri": "https://issuer.example/jwks.json"}],
}
UPSTREAM = {"identifier": "https://pdp.example"}
UPSTREAM_CLIENT = {"token_endpoint": "https://as.example/token", "client_id": "us", "client_secret": "s3cret"}
CALLBACK = {"endpoints": ["https://gate.example/cb"], "keys": ["a2V5IG9mIHRoaXJ0eSB0d28gYnl0ZXMsIG5vdCBsZXNz"]}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "arap.yaml"
    values = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def problems(path: Path) -> str:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(path)
    return "\n".join(caught.value.problems)


def test_good_file_is_read_with_paths_relative_to_it(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, callbacks={"gate": CALLBACK}))
    assert settings.policy_path == tmp_path / "policy.yaml"
    assert settings.key_file == tmp_path / "keys.json"
    assert settings.database == f"sqlite:///{tmp_path / 'arap.db'}"
    assert settings.access_request_endpoint == "https://approvals.example/access/v1/request"
    assert settings.base_path == ""
    assert settings.tls is None
    assert settings.callbacks["gate"].signing_keys == (b"key of thirty two bytes, not less",)


def test_certificate_and_key_are_relative_to_the_file_and_go_together(tmp_path: Path) -> None:
    tls = load_settings(written(tmp_path, tls={"certificate": "c.pem", "key": "secret/k.pem"})).tls
    assert tls is not None
    assert (tls.certificate, tls.key) == (tmp_path / "c.pem", tmp_path / "secret" / "k.pem")
    assert "tls.key: is missing" in problems(written(tmp_path, tls={"certificate": "c.pem"}))


@pytest.mark.parametrize("database", ["sqlite:////var/lib/arap.db", "postgresql://db/arap"])
def test_database_that_is_elsewhere_stays_there(database: str, tmp_path: Path) -> None:
    assert load_settings(written(tmp_path, database=database)).database == database


def test_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARAP_IDENTIFIER", "https://other.example/tenant1")
    monkeypatch.setenv("ARAP_LIMITS__MAX_DEPTH", "64")
    settings = load_settings(written(tmp_path, limits={"max_depth": 32, "poll_seconds": 9}))
    assert (settings.identifier, settings.base_path) == ("https://other.example/tenant1", "/tenant1")
    assert (settings.limits.max_depth, settings.limits.poll_seconds) == (64, 9)


def test_variable_that_is_no_json_is_refused_without_its_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARAP_ISSUERS", "[canary-value")
    text = problems(written(tmp_path))
    assert "JSON" in text
    assert "canary-value" not in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"identifier": None}, "identifier: is missing"),
        ({"identifer": "https://x.example"}, "identifer: is not a key; check the spelling"),
        ({"identifier": "http://approvals.example"}, "identifier: must be https"),
        ({"identifier": "https://approvals.example/"}, "identifier: must have neither a query nor a trailing slash"),
        ({"identifier": "https://approvals.example/a|b"}, "identifier: must have neither"),
        (
            {"issuers": [{"issuer": "https://a.example|b", "jwks_uri": "https://a.example/jwks"}]},
            "issuers.0.issuer: String should match pattern",
        ),
        ({"identifier": "https://approvals.example?a=b"}, "identifier: must have neither"),
        ({"identifier": "https://a@approvals.example"}, "identifier: must be an absolute https URL"),
        ({"identifier": "approvals.example"}, "identifier: must be an absolute https URL"),
        ({"clock_skew_seconds": 61}, "clock_skew_seconds: must not be above 60"),
        ({"clock_skew_seconds": -1}, "clock_skew_seconds: "),
        ({"bind": "localhost"}, "bind: must have the form host:port"),
        ({"bind": "127.0.0.1:99999"}, "bind: must end in a port"),
        ({"insecure_loopback": True, "bind": "0.0.0.0:8400"}, "bind: must be a loopback address"),
        ({"insecure_loopback": True, "bind": "localhost:8400"}, "bind: must be a loopback address"),
        ({"authentication": "none", "bind": "10.0.0.1:8400"}, "bind: must be a loopback address"),
        ({"insecure_loopback": True, "identifier": "http://localhost:8400"}, "identifier: must be https"),
        ({"insecure_loopback": True, "identifier": "http://10.0.0.1"}, "identifier: must be https"),
        ({"issuers": []}, "issuers: name at least one"),
        ({"issuers": [*GOOD["issuers"], *GOOD["issuers"]]}, "issuers: must not name an issuer twice"),
        ({"issuers": [{"issuer": "x", "jwks_uri": "http://x.example/keys"}]}, "jwks_uri: must be https"),
        ({"upstream": {"identifier": "http://pdp.example"}}, "upstream: must be https"),
        ({"upstream": UPSTREAM | {"evaluation_endpoint": "http://pdp.example/e"}}, "upstream: must be https"),
        (
            {"upstream": UPSTREAM | {"client": UPSTREAM_CLIENT | {"token_endpoint": "http://as.example"}}},
            "upstream: must be https",
        ),
        ({"upstream": UPSTREAM | {"bearer": "x" * 20, "client": UPSTREAM_CLIENT}}, "upstream: takes either bearer"),
        ({"upstream": UPSTREAM | {"timeout_seconds": 0}}, "upstream.timeout_seconds: "),
        ({"upstream": UPSTREAM | {"convertible": ["x"]}}, "upstream.convertible: is not a key"),
        ({"request_endpoint": "https://requests.example/r"}, "request_endpoint: needs independent: true"),
        (
            {"independent": True, "request_endpoint": "http://requests.example/r"},
            "request_endpoint: must be https",
        ),
        ({"callbacks": {"gate": CALLBACK | {"keys": []}}}, "callbacks.gate: needs keys or bearer"),
        ({"callbacks": {"gate": CALLBACK | {"keys": ["c2hvcnQ="]}}}, "keys.0: must decode to at least 24 bytes"),
        ({"callbacks": {"gate": CALLBACK | {"keys": ["???"]}}}, "keys.0: must be base64"),
        ({"callbacks": {"gate": CALLBACK | {"endpoints": []}}}, "endpoints: "),
        ({"callbacks": {"gate": CALLBACK | {"endpoints": ["http://gate.example/"]}}}, "callbacks: must be https"),
        ({"callbacks": {"gate": CALLBACK | {"allow_destinations": ["*:443"]}}}, "exact destinations"),
        ({"builtin_issuer": {"clients": [{"client_id": "a", "scopes": ["admin"]}]}}, "needs either secret"),
        (
            {"builtin_issuer": {"clients": [{"client_id": "a", "scopes": [], "secret": "x" * 20}]}},
            "needs either scopes",
        ),
        ({"builtin_issuer": {"clients": [{"client_id": "a", "scopes": ["admin"], "secret": "x"}]}}, "16 characters"),
        ({"builtin_issuer": {"clients": [{"client_id": "a", "scopes": ["root"], "secret": "x" * 20}]}}, "scopes.0: "),
        (
            {"builtin_issuer": {"clients": [{"client_id": "a", "scopes": ["admin"], "secret_hash": "md5:0"}]}},
            "needs a secret_hash of the form",
        ),
        (
            {"builtin_issuer": {"clients": [{"client_id": "a", "scopes": ["admin"], "secret": "x" * 20}] * 2}},
            "must not name a client_id twice",
        ),
    ],
)
@pytest.mark.requirement("ARS-33", "ARS-95")
def test_fault_is_named_with_its_key_and_what_to_do(changes: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """ARS-33: a skew of 61 refuses the start. ARS-95: no callback without proof of the sender can be configured."""
    assert expected in problems(written(tmp_path, **changes))


def test_all_faults_are_reported_together(tmp_path: Path) -> None:
    text = problems(written(tmp_path, identifier="x", clock_skew_seconds=99, wrong=1))
    assert [line.partition(":")[0] for line in text.splitlines()] == ["identifier", "clock_skew_seconds", "wrong"]


def test_secret_is_shown_by_no_fault(tmp_path: Path) -> None:
    clients = [{"client_id": "a", "scopes": ["admin"], "secret": "canary-secret"}]
    callback = CALLBACK | {"keys": ["canary+key+that+is+not+base64!"], "bearer": 7}
    text = problems(written(tmp_path, builtin_issuer={"clients": clients}, callbacks={"gate": callback}))
    assert "canary" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"identifier: https://a.example\nidentifier: https://b.example\n", "stands there twice"),
        (b"limits: {max_depth: 20, max_depth: 30}\n", "stands there twice"),
        (b"identifier: [\n", "is not valid YAML at line 2"),
        (b"- a\n", "must hold keys and values"),
        (b"\xff\xfe\xff", "is not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
        (b"? [a]\n: b\n", "is not valid YAML"),
        (b"? {a: b}\n: c\n", "is not valid YAML"),
        (b"identifier: 2026-13-45\n", "is not valid YAML"),
        (b"identifier: !!int abc\n", "is not valid YAML"),
        (b"identifier: !!float abc\n", "is not valid YAML"),
        (b"identifier: !!bool abc\n", "is not valid YAML"),
        (b"identifier: !!binary abc\n", "is not valid YAML"),
        (b"identifier: !!timestamp abc\n", "is not valid YAML"),
        (b"<<: abc\n", "is not valid YAML"),
        (b"a: &a [*a]\n", "a: is not a key"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "is not valid YAML"),
    ],
)
def test_file_that_is_no_configuration_is_refused(text: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "arap.yaml"
    path.write_bytes(text)
    assert expected in problems(path)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "cannot be read" in problems(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", False), (None, False)]
)
def test_loopback_is_a_literal_and_never_a_name(host: str | None, expected: bool) -> None:  # noqa: FBT001
    assert is_loopback(host) is expected


def test_key_file_opens_what_it_sealed_and_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    write_new_ring(path)
    assert path.stat().st_mode & 0o777 == 0o600
    sealed = load_ring(path).seal(b"x", aad="a")
    assert load_ring(path).open_(sealed, aad="a") == b"x"
    with pytest.raises(FileExistsError):
        write_new_ring(path)


@pytest.mark.parametrize(
    ("text", "mode", "expected"),
    [
        (None, 0o600, "make one with arap init"),
        ('{"current": "a", "keys": {"a": "AAAA"}}', 0o600, "must have the form"),
        ('{"current": "b", "keys": {"a": "' + "A" * 43 + '="}}', 0o600, "must have the form"),
        ('{"current": "a", "keys": []}', 0o600, "must have the form"),
        ("[]", 0o600, "must have the form"),
        ("nonsense", 0o600, "is not valid JSON"),
        ('{"current": "a", "keys": {"a": "' + "A" * 43 + '="}}', 0o644, "everybody can read"),
    ],
)
def test_key_file_that_will_not_do_is_refused(text: str | None, mode: int, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(SettingsInvalid) as caught:
        load_ring(path)
    assert expected in str(caught.value)
