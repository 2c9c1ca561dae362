"""The service's signing keys, and what it takes for a signature to count.

Binding tokens, approval states and access tokens have distinct `typ` headers and separate keys, so that none can stand
in for another (PDP-57); signed metadata has a `typ` of its own. `verify` proves who signed and that nothing was
changed; audience, expiry, replay and meaning of the claims are judged by whoever asked. Keys live sealed in the
database; a new key is published before it signs, and an old one stays published until all that it signed has expired
(PDP-34). Access Request and Approval Profile, "Keys and Metadata"; RFC 7515, RFC 8725.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal, NewType, Protocol

from cryptography.exceptions import InvalidSignature
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey

from arap_service import audit
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import InvalidJson, strict_loads
from arap_service.protocol.sealing import KeyRing
from arap_service.store.database import Database, WriteSession
from arap_service.store.keys import lock_signing_keys, stored_signing_keys
from arap_service.store.tables import SigningKey

Clock = Callable[[], datetime]
PublicKey = ECKey | OKPKey
EvaluationKind = Literal["permit", "deny", "requestable"]
Claims = NewType("Claims", dict[str, Any])
"""The claims of a token whose signature, type and issuer were verified; nothing else about them was."""

BINDING_TYP: Final = "arap-denial-binding+jwt"
APPROVAL_TYP: Final = "arap-approval-state+jwt"
ACCESS_TYP: Final = "at+jwt"
METADATA_TYP: Final = "arap-metadata+jwt"
CHECKPOINT_TYP: Final = "arap-audit-checkpoint+jwt"
CHAIN: Final = "keys"
"""The audit chain that every new key is recorded in."""
LEAD: Final = timedelta(minutes=15)
"""How long a new key is published before it signs; every instance reloads and every cache expires within that time."""
KEEP: Final = timedelta(days=366)
"""How long a replaced key stays published: longer than any approval that the schema of the rules file allows."""

_ALGORITHMS: Final[Mapping[str, type[Any]]] = {
    "ES256": ECKey,
    "EdDSA": OKPKey,
    "Ed25519": OKPKey,
}  # ARS-18; the last by RFC 9864
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_HEADER_KEYS: Final = ("jwk", "jku", "x5u", "x5c", "crit")
MAX_TOKEN: Final = 65_536
_KINDS: Final[Mapping[EvaluationKind, bytes]] = {"permit": b"p", "deny": b"d", "requestable": b"r"}
_RANDOM: Final = 16
_MAC: Final = 16


class Use(StrEnum):
    """What a key signs; a key has one use."""

    BINDING = "binding"
    APPROVAL = "approval"
    ACCESS_TOKEN = "access-token"  # noqa: S105 - a name


# What the decision point says of itself and of its log is signed by the key that signs its denials.
_TYPS: Final[Mapping[Use, frozenset[str]]] = {
    Use.BINDING: frozenset({BINDING_TYP, METADATA_TYP, CHECKPOINT_TYP}),
    Use.APPROVAL: frozenset({APPROVAL_TYP}),
    Use.ACCESS_TOKEN: frozenset({ACCESS_TYP}),
}


class TokenInvalid(Exception):
    """The token proves nothing; `code` says why, for the log and never for the caller."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class KeySource(Protocol):
    """The keys of one issuer."""

    def find(self, kid: str) -> PublicKey | None:
        """The key with this id, as far as it is known without asking anybody."""
        ...

    async def prepare(self, kid: str) -> None:
        """Ask for the key with this id if it isn't known, as often as the limits allow."""
        ...


@dataclass(frozen=True, slots=True)
class TrustedIssuers:
    """Whose signatures count here: the issuer is looked up first, then the key within that issuer's own (PDP-33)."""

    sources: Mapping[str, KeySource]

    def find(self, issuer: str, kid: str) -> PublicKey | None:
        """The key `kid` of `issuer`, if that issuer is trusted and the key is known."""
        source = self.sources.get(issuer)
        return None if source is None else source.find(kid)

    async def prepare(self, token: str) -> None:
        """Fetch what verifying `token` will need; decides nothing and never raises on a bad token."""
        try:
            parsed = _parse(token)
        except TokenInvalid:
            return
        source = self.sources.get(parsed.issuer)
        if source is not None:
            await source.prepare(parsed.kid)


@dataclass(frozen=True, slots=True)
class _Parsed:
    alg: str
    typ: str
    kid: str
    issuer: str
    claims: dict[str, Any]


def verify(token: str, *, typ: str, issuers: TrustedIssuers) -> Claims:
    """The claims of `token` once its type, issuer, key, algorithm and signature have been proven.

    Raises:
        TokenInvalid: Any of them is wrong.
    """
    parsed = _parse(token)
    if parsed.typ != typ:
        raise TokenInvalid("typ")
    if parsed.issuer not in issuers.sources:
        raise TokenInvalid("issuer")
    key = issuers.find(parsed.issuer, parsed.kid)
    if key is None:
        raise TokenInvalid("kid")
    if not isinstance(key, _ALGORITHMS[parsed.alg]):
        raise TokenInvalid("alg")
    try:
        if isinstance(key, ECKey):
            jws.deserialize_compact(token, key, algorithms=["ES256"])
        else:
            # joserfc warns about the name EdDSA, which tokens still carry, so this is done one layer below.
            signed, _, signature = token.rpartition(".")
            key.public_key.verify(_decode(signature), signed.encode())
    except (JoseError, InvalidSignature, ValueError):
        raise TokenInvalid("signature") from None
    return Claims(parsed.claims)


def _parse(token: str) -> _Parsed:
    if len(token) > MAX_TOKEN or token.count(".") != 2 or not token.isascii():
        raise TokenInvalid("format")
    header, payload, _ = token.split(".")
    head, claims = _object(header), _object(payload)
    if any(name in head for name in _HEADER_KEYS):  # ARS-18
        raise TokenInvalid("header")
    alg, typ, kid, issuer = head.get("alg"), head.get("typ"), head.get("kid"), claims.get("iss")
    if not isinstance(alg, str) or alg not in _ALGORITHMS:
        raise TokenInvalid("alg")
    if not isinstance(typ, str):
        raise TokenInvalid("typ")
    if not isinstance(kid, str):
        raise TokenInvalid("kid")
    if not isinstance(issuer, str):
        raise TokenInvalid("issuer")
    return _Parsed(alg, typ.lower().removeprefix("application/"), kid, issuer, claims)


def _object(part: str) -> dict[str, Any]:
    try:
        value = strict_loads(_decode(part))
    except (ValueError, InvalidJson):
        raise TokenInvalid("format") from None
    if not isinstance(value, dict):
        raise TokenInvalid("format")
    return value


def _decode(part: str) -> bytes:
    if not _BASE64URL.fullmatch(part):
        raise ValueError("not base64url")
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def import_public(jwk: Mapping[str, Any]) -> PublicKey | None:
    """A key of an algorithm that we accept, from a JWK; None for any other kind of key."""
    try:
        match (jwk.get("kty"), jwk.get("crv")):
            case ("EC", "P-256"):
                return ECKey.import_key({name: str(jwk[name]) for name in ("kty", "crv", "x", "y")})
            case ("OKP", "Ed25519"):
                return OKPKey.import_key({name: str(jwk[name]) for name in ("kty", "crv", "x")})
            case _:
                return None
    except (JoseError, KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key of ours with its private part."""

    kid: str
    use: Use
    key: ECKey
    active_from: datetime
    remove_at: datetime | None
    secret: bytes = field(init=False, repr=False, compare=False)
    """Derived from the key for `mac`, and good for nothing else."""

    def __post_init__(self) -> None:
        scalar = _decode(str(self.key.as_dict(private=True)["d"]))
        object.__setattr__(self, "secret", hmac.digest(scalar, b"arap evaluation id v1", hashlib.sha256))

    def mac(self, message: bytes) -> bytes:
        """A code over `message` that only a holder of this key can make."""
        return hmac.digest(self.secret, message, hashlib.sha256)[:_MAC]


class Keys:
    """All signing keys of this service, as last read from the database."""

    def __init__(self, keys: Iterable[OwnKey], *, clock: Clock) -> None:
        self._clock = clock
        self._keys: tuple[OwnKey, ...] = ()
        self.replace(keys)

    @classmethod
    async def load_or_create(cls, database: Database, ring: KeyRing, *, clock: Clock) -> "Keys":
        """Read the keys, making the first one of each use; instances that start together make one set."""
        now = clock()

        def work(session: WriteSession) -> list[OwnKey]:
            lock_signing_keys(session)
            rows = list(stored_signing_keys(session))
            for use in Use:
                if not any(row.use == use for row in rows):
                    row = new_signing_key(use, ring, now=now, active_from=now)
                    session.add(row)
                    rows.append(row)
                    _record(session, row, kind="key_created", actor="system", now=now)
            return [_opened(row, ring) for row in rows]

        return cls(await database.write(work), clock=clock)

    async def reload(self, database: Database, ring: KeyRing) -> None:
        """Take over what another instance or the operator has changed."""
        self.replace(await database.read(lambda session: [_opened(row, ring) for row in stored_signing_keys(session)]))

    def replace(self, keys: Iterable[OwnKey]) -> None:
        """Hold exactly `keys` from now on."""
        self._keys = tuple(sorted(keys, key=lambda key: (key.active_from, key.kid)))
        self._newest_first = {use: [key for key in reversed(self._keys) if key.use is use] for use in Use}

    def sign(self, use: Use | str, claims: Mapping[str, Any], typ: str) -> str:
        """A compact JWS over `claims` by the current key of `use`; `typ` must be one that belongs to the use."""
        if typ not in _TYPS[Use(use)]:
            raise ValueError(f"{use} keys do not sign {typ}")
        key = self._current(Use(use))
        header = {"alg": "ES256", "typ": typ, "kid": key.kid}
        payload = json.dumps(claims, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        return jws.serialize_compact(header, payload, key.key, algorithms=["ES256"])

    def verify(self, token: str, *, typ: str, issuers: TrustedIssuers) -> Claims:
        """See `verify`; here so that who has the keys needs no second import."""
        return verify(token, typ=typ, issuers=issuers)

    def source(self, use: Use) -> KeySource:
        """Our own published keys of one use, as the keys of the issuer that we are in that use."""
        return _OwnSource(self, use)

    def published(self, *uses: Use) -> Sequence[OwnKey]:
        """The keys of these uses that are still good for verifying."""
        now = self._clock()
        return [key for key in self._keys if key.use in uses and (key.remove_at is None or now < key.remove_at)]

    def log_jwks(self) -> dict[str, Any]:
        """Every key that may ever have signed a checkpoint: the audit log outlives what else they have signed."""
        return {"keys": [key.key.as_dict(private=False) for key in self._keys if key.use is Use.BINDING]}

    def jwks(self, *uses: Use) -> dict[str, Any]:
        """The JWK Set of these uses, by default of binding tokens and approval states (PDP-31, PDP-32)."""
        return {
            "keys": [key.key.as_dict(private=False) for key in self.published(*(uses or (Use.BINDING, Use.APPROVAL)))]
        }

    def mint_evaluation_id(self, kind: EvaluationKind) -> str:
        """A new evaluation id that only we can tell the kind of (PDP-41, PDP-42)."""
        body = _KINDS[kind] + secrets.token_bytes(_RANDOM)
        return "ev_" + _encode(body + self._current(Use.BINDING).mac(body))

    def evaluation_kind(self, evaluation_id: str) -> EvaluationKind | None:
        """What kind of answer `evaluation_id` was given for, or None when it is not an id of ours."""
        try:
            raw = _decode(evaluation_id.removeprefix("ev_"))
        except ValueError:
            return None
        body, code = raw[: 1 + _RANDOM], raw[1 + _RANDOM :]
        if not any(hmac.compare_digest(key.mac(body), code) for key in self.published(Use.BINDING)):
            return None
        return next(kind for kind, letter in _KINDS.items() if letter == body[:1])

    def _current(self, use: Use) -> OwnKey:
        now = self._clock()
        own = self._newest_first[use]
        if not own:
            raise RuntimeError(f"no key for {use}")
        # Where the clock was set back to before there was a key, the first one signs: it is published, as all are.
        return next((key for key in own if key.active_from <= now), own[-1])


@dataclass(frozen=True, slots=True)
class _OwnSource:
    keys: Keys
    use: Use

    def find(self, kid: str) -> PublicKey | None:
        return next((key.key for key in self.keys.published(self.use) if key.kid == kid), None)

    async def prepare(self, kid: str) -> None:
        """Own keys are always known: a new one is read long before it signs."""


def new_signing_key(use: Use, ring: KeyRing, *, now: datetime, active_from: datetime) -> SigningKey:
    """A row with a fresh ES256 key that signs from `active_from` on."""
    kid = f"{use}-{secrets.token_urlsafe(9)}"
    key = ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})
    private = json.dumps(key.as_dict(private=True)).encode()
    return SigningKey(
        kid=kid,
        use=use,
        alg="ES256",
        public_jwk=key.as_dict(private=False),
        private_sealed=ring.seal(private, aad=_aad(kid)),
        created_at=now,
        active_from=active_from,
    )


async def rotate(database: Database, ring: KeyRing, *, use: Use, now: datetime) -> str:
    """Publish a new key that signs after `LEAD`, keep the old ones published for `KEEP` longer; returns the new id."""

    def work(session: WriteSession) -> str:
        lock_signing_keys(session)
        signing = [row for row in stored_signing_keys(session) if row.use == use and row.retired_at is None]
        for row in signing:
            row.retired_at = now + LEAD
            row.remove_at = now + LEAD + KEEP  # PDP-34
            session.add(row)
        # Where there is nothing to take over from, nobody can wait.
        fresh = new_signing_key(use, ring, now=now, active_from=now + LEAD if signing else now)
        session.add(fresh)
        _record(session, fresh, kind="key_rotated", actor="command line", now=now)
        return fresh.kid

    return await database.write(work)


def _record(session: WriteSession, row: SigningKey, *, kind: str, actor: str, now: datetime) -> None:
    detail = {"kid": row.kid, "use": row.use, "active_from": format_instant(row.active_from)}
    audit.append(session, CHAIN, kind=kind, actor=actor, detail=detail, now=now)


def _aad(kid: str) -> str:
    return f"signing_key:{kid}:private_sealed"


def _opened(row: SigningKey, ring: KeyRing) -> OwnKey:
    private = json.loads(ring.open_(row.private_sealed, aad=_aad(row.kid)))
    return OwnKey(row.kid, Use(row.use), ECKey.import_key(private), row.active_from, row.remove_at)
