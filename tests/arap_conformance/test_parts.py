"""The parts of the suite that no subject of its tests uses: other signatures, other proofs of a callback, TLS."""

import base64
import hashlib
import hmac
import json
import socket
import ssl
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from arap_service.conformance import jose
from arap_service.conformance.checks.callbacks import _is_authentic
from arap_service.conformance.control import Callbacks
from arap_service.conformance.instants import instant
from arap_service.conformance.listener import Call, listening
from arap_service.conformance.suite import asked
from arap_service.conformance.wire import Answer
from arap_service.surroundings import utc_now
from blackbox_kit.model import NotRun
from examples.certification.__main__ import write_certificate

BODY = json.dumps({"task": {"id": "t-1"}}).encode()
DIGEST = hmac.new(b"shared", BODY, hashlib.sha256).digest()


def number(value: int) -> str:
    return jose.encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def signed(algorithm: str) -> tuple[str, dict[str, Any]]:
    """A token, and the published key that verifies it."""
    head = jose.encoded(json.dumps({"alg": algorithm, "kid": "k"}).encode())
    text = f"{head}.{jose.encoded(json.dumps({'iss': 'x'}).encode())}"
    if algorithm == "EdDSA":
        edwards = ed25519.Ed25519PrivateKey.generate()
        x = jose.encoded(edwards.public_key().public_bytes_raw())
        return f"{text}.{jose.encoded(edwards.sign(text.encode()))}", {"kty": "OKP", "crv": "Ed25519", "x": x}
    if algorithm[:2] in {"RS", "PS"}:
        key = rsa.generate_private_key(65537, 2048)
        public = key.public_key().public_numbers()
        digest = hashes.SHA256() if algorithm.endswith("256") else hashes.SHA512()
        salted = padding.PSS(padding.MGF1(digest), digest.digest_size)
        signature = key.sign(text.encode(), salted if algorithm.startswith("PS") else padding.PKCS1v15(), digest)
        return f"{text}.{jose.encoded(signature)}", {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
    curve = ec.generate_private_key(ec.SECP384R1())
    point = curve.public_key().public_numbers()
    halves = decode_dss_signature(curve.sign(text.encode(), ec.ECDSA(hashes.SHA384())))
    raw = b"".join(half.to_bytes(48, "big") for half in halves)
    places = {name: jose.encoded(value.to_bytes(48, "big")) for name, value in (("x", point.x), ("y", point.y))}
    return f"{text}.{jose.encoded(raw)}", {"kty": "EC", "crv": "P-384", **places}


@pytest.mark.parametrize("algorithm", ["EdDSA", "RS256", "RS512", "PS256", "PS512", "ES384"])
def test_signatures_of_every_kind_are_verified_and_only_by_their_key(algorithm: str) -> None:
    token, key = signed(algorithm)
    assert jose.verified(token, [{**key, "kid": "k"}])[1] == {"iss": "x"}
    with pytest.raises(jose.Unreadable, match="no published key verifies it"):
        jose.verified(jose.with_other_signature(token), [{**key, "kid": "k"}])
    with pytest.raises(jose.Unreadable, match="no published key has the kid"):
        jose.verified(token, [{**key, "kid": "other"}])


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", None, 7, "ES384", "RS256", "EdDSA"])
def test_a_signature_counts_only_by_the_algorithm_that_its_header_names(algorithm: Any) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    point = key.public_key().public_numbers()
    text = f"{jose.encoded(json.dumps({'alg': algorithm}).encode())}.{jose.encoded(b'{}')}"
    halves = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    token = f"{text}.{jose.encoded(b''.join(half.to_bytes(32, 'big') for half in halves))}"
    places = {name: jose.encoded(value.to_bytes(32, "big")) for name, value in (("x", point.x), ("y", point.y))}
    with pytest.raises(jose.Unreadable):
        jose.verified(token, [{"kty": "EC", "crv": "P-256", **places}])


def test_a_signature_of_a_kind_that_the_suite_does_not_know_is_neither_good_nor_bad() -> None:
    text = f"{jose.encoded(json.dumps({'alg': 'ML-DSA-65'}).encode())}.{jose.encoded(b'{}')}.{jose.encoded(b'x')}"
    with pytest.raises(NotRun, match="does not know signatures with ML-DSA-65"):
        jose.verified(text, [{"kty": "AKP"}])


@pytest.mark.parametrize("token", [None, 7, "", "a.b", "a.b.c", "!.!.!", "W10.W10.x"])
def test_what_is_no_token_is_said_to_be_none(token: Any) -> None:
    with pytest.raises(jose.Unreadable):
        jose.read(token)


@pytest.mark.parametrize("sent", ["sha256=" + DIGEST.hex(), "sha256=" + base64.b64encode(DIGEST).decode()])
def test_a_callback_with_a_plain_hmac_is_known_by_its_body(sent: str) -> None:
    agreed = {"header": "X-Signature", "secret": {"env": "X"}, "prefix": "sha256="}
    callbacks = Callbacks.model_validate({"listen": "127.0.0.1:1", "endpoint": "https://x", "hmac": agreed})
    secrets = {"hmac": "shared"}
    assert _is_authentic(callbacks, Call({"x-signature": sent}, BODY), secrets, at=utc_now())
    assert not _is_authentic(callbacks, Call({"x-signature": sent}, BODY + b" "), secrets, at=utc_now())
    assert not _is_authentic(callbacks, Call({}, BODY), secrets, at=utc_now())


def test_callbacks_can_be_taken_over_tls(tmp_path: Path) -> None:
    write_certificate(tmp_path / "certificate.pem", tmp_path / "key.pem", now=utc_now())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    callbacks = Callbacks.model_validate(
        {
            "listen": f"127.0.0.1:{port}",
            "endpoint": f"https://127.0.0.1:{port}/",
            "certificate": "certificate.pem",
            "key": "key.pem",
            "bearer": {"env": "X"},
        }
    )
    trusted = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
    with listening(callbacks, tmp_path) as listener:
        way = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=30)
        way.request("POST", "/", BODY, {"Authorization": "Bearer b"})
        assert way.getresponse().status == 204
        way.close()
    (call,) = listener.about("t-1")
    assert call.body == BODY
    assert _is_authentic(callbacks, call, {"bearer": "b"}, at=utc_now())
    assert not _is_authentic(callbacks, call, {"bearer": "c"}, at=utc_now())
    assert listener.about("t-2") == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2026-04-30T20:15:00Z", True),
        ("2026-04-30T20:15:00.5+02:00", True),
        ("2026-04-30T20:15:00", False),
        ("2026-13-30T20:15:00Z", False),
        ("soon", False),
        (7, False),
    ],
)
def test_an_instant_has_a_date_a_time_and_an_offset(text: Any, is_one: bool) -> None:  # noqa: FBT001 - a parameter
    assert (instant(text) is not None) is is_one


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {"by": "Zoë Quist"}, text='{"by": "Zo\\u00eb Quist"}'),
        Answer(200, {"zoë quist": 1}),
        Answer(500, None, text="<p>asked zoë quist</p>"),
    ],
    ids=["spelt-otherwise", "a-name-in-small-letters", "no-json"],
)
def test_a_hidden_text_is_seen_in_whatever_form_it_comes(answer: Answer) -> None:
    assert answer.shown_of(["nobody", "Zoë Quist"]) == "Zoë Quist"
    assert answer.shown_of(["nobody"]) is None


def test_an_exchange_with_what_is_no_url_can_be_told() -> None:
    assert asked({"method": "GET", "url": "http://[bad"}) == "GET http://[bad"
    assert asked({"method": "GET", "url": "http://x.example/a?b"}) == "GET /a"
