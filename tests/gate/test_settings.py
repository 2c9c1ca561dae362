"""The gate's configuration: what is refused at the start, and how it says so (design sections 1, 3, 8)."""

import base64
import stat
from pathlib import Path
from typing import Any

import pytest

from mcp_gate.settings import ConfigurationInvalid, GateSettings, load_ring, load_settings, parse_settings

MINIMAL: dict[str, Any] = {
    "server_name": "treasury",
    "backend": {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400},
}
GATEWAY: dict[str, Any] = {
    **MINIMAL,
    "upstream": {"command": "server"},
    "front": {"http": "127.0.0.1:8403"},
    "resource": "https://gate.example/mcp",
    "issuers": [{"issuer": "https://issuer.example", "jwks_uri": "https://issuer.example/jwks.json"}],
}


def merged(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**base, **changes}


def test_a_minimal_configuration_is_enough_for_an_embedded_gate() -> None:
    settings = parse_settings(MINIMAL)
    assert settings.envelope
    assert settings.front.stdio


def test_a_gateway_needs_a_front_that_knows_its_callers() -> None:
    assert parse_settings(GATEWAY).front.bind() == ("127.0.0.1", 8403)


@pytest.mark.requirement("PEP-62")
@pytest.mark.parametrize("retention", [None, 60])
def test_a_backend_that_forgets_keys_too_early_or_says_nothing_is_refused(retention: int | None) -> None:
    backend = {"identifier": "https://pdp.example"}
    if retention is not None:
        backend["idempotency_retention_seconds"] = retention  # type: ignore[assignment]
    with pytest.raises(ConfigurationInvalid, match="idempotency_retention_seconds"):
        parse_settings(merged(MINIMAL, backend=backend))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"server_name": ""}, "server_name"),
        ({"surprise": 1}, "surprise"),
        ({"front": {"http": "8403"}}, "front"),
        ({"front": {"http": "h:1", "stdio": True}}, "front"),
        ({"front": {"stdio": True}}, "stdio.principal"),
        ({"issuers": []}, "issuers and resource"),
        ({"resource": None}, "issuers and resource"),
        ({"upstream": {"command": "a", "url": "https://b.example"}}, "upstream"),
        ({"resource": "http://gate.example/mcp"}, "resource is not https"),
        ({"resource": "http://127.0.0.1:8403/mcp"}, "resource is not https"),
        ({"backend": {**MINIMAL["backend"], "identifier": "http://pdp.example"}}, "backend.identifier is not https"),
        ({"backend": {**MINIMAL["backend"], "client_id": "gate"}}, "client_secret"),
        ({"anonymous": {"iss": "i", "sub": "s", "client": "c"}}, "anonymous"),
        ({"clock_skew_seconds": 61}, "clock_skew_seconds"),
    ],
)
def test_a_fault_is_named_by_its_key(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=named):
        parse_settings(merged(GATEWAY, **changes))


BACKEND = MINIMAL["backend"]
KEY = base64.b64encode(b"k" * 32).decode()
ISSUER = GATEWAY["issuers"][0]


def calling_back(**keys: str) -> dict[str, Any]:
    return {"backend": {**BACKEND, "callback": {"endpoint": "https://gate.example/callbacks/arap", **keys}}}


def mapped(mapping: object) -> dict[str, Any]:
    return {"tools": {"wire": {"mapping": mapping}}}


def behind(url: str) -> dict[str, Any]:
    return {"upstream": {"url": url, "headers": {"authorization": "Bearer canary"}}}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (calling_back(key="canary"), r"backend\.callback\.key: a key must be base64"),
        (calling_back(key=base64.b64encode(b"short").decode()), r"backend\.callback\.key: .*24 bytes"),
        (calling_back(key=KEY, previous_key="!"), r"backend\.callback\.previous_key: a key must be base64"),
        (mapped({}), r"tools\.wire\.mapping: is not a COAZ mapping"),
        (mapped({"evaluation": {"surprise": 1}}), r"tools\.wire\.mapping: .*evaluation\.surprise"),
        (mapped({"evaluation": {"resource": {"type": "x", "id": "$((("}}}), r"tools\.wire\.mapping: .*resource\.id"),
        ({"database": "mysql://canary@host/db"}, "database: only sqlite:///file and postgresql"),
        ({"database": "sqlite://"}, "database: name a file"),
        (behind("http://upstream.example/mcp"), "upstream: headers would be sent in the clear"),
        ({"issuers": [{**ISSUER, "issuer": "http://issuer.example"}]}, r"issuers\.issuer is not https"),
        ({"issuers": [ISSUER, {**ISSUER, "jwks_uri": "https://other.example/jwks"}]}, "issuers: one of them .* twice"),
        ({"subject_claim": ""}, "subject_claim"),
        ({"agent_claim": ""}, "agent_claim"),
        ({"front": {"http": "127.0.0.1:8403", "path": "mcp"}}, r"front\.path"),
        ({"backend": {**BACKEND, "timeout_seconds": 31}}, r"backend\.timeout_seconds"),
        ({"backend": {**BACKEND, "idempotency_retention_seconds": 10**13}}, "idempotency_retention_seconds"),
        ({"backend": {**BACKEND, "trusted_origins": ["https://a.example/path"]}}, "trusted_origins.*must be an origin"),
        *[({"limits": {f"{name}_seconds": 10**13}}, name) for name in ("result_retention", "pending", "execution")],
        *[({"limits": {"poll_interval_seconds": wait}}, "poll_interval") for wait in (float("inf"), float("nan"), 1e6)],
        ({"upstream": {"command": "a", "call_seconds": float("nan")}}, r"upstream\.call_seconds"),
    ],
)
def test_a_value_that_would_fail_later_is_named_at_the_start(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=named) as caught:
        parse_settings(merged(GATEWAY, **changes))
    assert "canary" not in str(caught.value)


def test_values_at_their_bounds_are_taken() -> None:
    limits = {"result_retention_seconds": 315_360_000, "poll_interval_seconds": 86_400}
    changes = {**calling_back(key=f"whsec_{KEY}", previous_key=KEY), **behind("https://upstream.example/mcp")}
    settings = parse_settings(merged(GATEWAY, limits=limits, database="postgresql://u@h/db", **changes))
    assert settings.backend is not None
    assert settings.backend.callback is not None
    assert settings.backend.callback.keys() == (b"k" * 32, b"k" * 32)
    assert parse_settings(merged(GATEWAY, **behind("http://127.0.0.1:9/mcp"))).upstream is not None


def test_http_is_for_loopback_literals_and_only_when_it_is_asked_for() -> None:
    local = merged(GATEWAY, resource="http://127.0.0.1:8403/mcp", insecure_loopback=True)
    assert parse_settings(local).resource == "http://127.0.0.1:8403/mcp"
    with pytest.raises(ConfigurationInvalid, match="resource is not https"):
        parse_settings(merged(local, resource="http://localhost:8403/mcp"))


def test_an_anonymous_principal_needs_a_loopback_bind() -> None:
    anonymous = {"iss": "i", "sub": "s", "client": "c"}
    open_to_all = merged(GATEWAY, anonymous=anonymous, insecure_loopback=True, issuers=[], resource=None)
    assert parse_settings(open_to_all).anonymous is not None
    with pytest.raises(ConfigurationInvalid, match="anonymous"):
        parse_settings(merged(open_to_all, front={"http": "0.0.0.0:8403"}))


def test_no_value_is_repeated_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = {**MINIMAL["backend"], "client_secret": "canary-secret", "timeout_seconds": "canary-number"}
    with pytest.raises(ConfigurationInvalid) as caught:
        parse_settings(merged(MINIMAL, backend=backend))
    assert "canary" not in str(caught.value)


def test_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(
        "server_name: treasury\nbackend:\n  identifier: https://pdp.example\n  idempotency_retention_seconds: 86400\n"
    )
    monkeypatch.setenv("MCP_GATE_SERVER_NAME", "other")
    monkeypatch.setenv("MCP_GATE_BACKEND__CLIENT_ID", "gate")
    monkeypatch.setenv("MCP_GATE_BACKEND__CLIENT_SECRET", "s")
    settings = load_settings(file)
    assert settings.server_name == "other"
    assert settings.backend is not None
    assert settings.backend.identifier == "https://pdp.example"
    assert settings.backend.client_id == "gate"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("server_name: a\nserver_name: b\n", "line"),
        ("- list\n", "mapping"),
        ("a: [\n", "line"),
        ("? [a]\n: b\n", "not YAML that we accept"),
        ("server_name: 2026-13-45\n", "not YAML that we accept"),
        ("server_name: !!int abc\n", "not YAML that we accept"),
        ("server_name: !!bool abc\n", "not YAML that we accept"),
        ("server_name: !!timestamp abc\n", "not YAML that we accept"),
        ("a: " + "[" * 5000 + "]" * 5000, "not YAML that we accept"),
    ],
)
def test_a_file_that_says_two_things_is_refused(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationInvalid, match=named):
        load_settings(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"gate\.yaml"):
        load_settings(tmp_path / "gate.yaml")


def test_the_key_file_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    with pytest.raises(ConfigurationInvalid, match="does not exist"):
        load_ring(path, create=False)
    load_ring(path, create=True)
    text = path.read_text()
    load_ring(path, create=True)
    assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "current: k1\nkeys: {}\n", "current: k1\nkeys: {k1: c2hvcnQ=}\n", "keys: 1\n"])
def test_a_key_file_that_holds_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationInvalid, match="key_file"):
        load_ring(path, create=True)


def test_a_lease_that_a_slow_backend_outlasts_is_refused() -> None:
    """Else another instance would begin what this one is still doing."""
    backend = {**MINIMAL["backend"], "timeout_seconds": 10}
    parse_settings(merged(MINIMAL, backend=backend, limits={"lease_seconds": 30}))
    with pytest.raises(ConfigurationInvalid, match="lease_seconds is shorter"):
        parse_settings(merged(MINIMAL, backend=backend, limits={"lease_seconds": 29}))


def test_secrets_are_not_shown() -> None:
    backend = {**MINIMAL["backend"], "client_id": "gate", "client_secret": "canary-secret"}
    settings = GateSettings(**merged(MINIMAL, backend=backend))
    assert "canary" not in repr(settings)


@pytest.mark.parametrize("keys", [["short"], ["k" * 32, "k" * 32]])
def test_keys_of_request_states_that_protect_nothing_are_refused_without_being_shown(keys: list[str]) -> None:
    with pytest.raises(ConfigurationInvalid, match="request_state_keys") as caught:
        parse_settings(merged(MINIMAL, request_state_keys=keys))
    assert keys[0] not in str(caught.value)


def test_nothing_is_shown_or_loosened_unless_switched_on() -> None:
    settings = parse_settings(MINIMAL)
    assert (settings.match_client, settings.show_decision_text, settings.serve_approvals) == (True, False, False)
