"""The published keys of other issuers, fetched when needed and remembered.

Only addresses from the configuration are fetched. An unknown key id causes one fetch, and never more than one in
`REFETCH_AFTER`, so that a stranger who invents key ids cannot make us knock at somebody's door (PDP-35). When a fetch
fails, the keys that were known stay known until they are `STALE_AFTER` old. Access Request and Approval Profile, "Keys
and Metadata".
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import anyio
import httpx2
import structlog

from arap_service.keys import Clock, PublicKey, import_public
from arap_service.protocol.canonical import InvalidJson, strict_loads

Fetch = Callable[[str], Awaitable[bytes]]
FRESH_FOR: Final = timedelta(minutes=10)
REFETCH_AFTER: Final = timedelta(seconds=30)
STALE_AFTER: Final = timedelta(hours=24)
MAX_BYTES: Final = 524_288


class KeysUnavailable(Exception):
    """The key set could not be fetched; `code` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a GET: its body, and when it was made by the clock of whoever answered."""

    body: bytes
    at: datetime | None


async def fetch_keys(url: str, *, seconds: float = 5.0) -> bytes:
    """The body of what `fetch` gets.

    Raises:
        KeysUnavailable: No such answer came.
    """
    return (await fetch(url, seconds=seconds)).body


async def fetch(url: str, *, seconds: float = 5.0) -> Fetched:
    """GET `url`, without redirects, within `seconds` and `MAX_BYTES` in all, however slowly the answer comes.

    Raises:
        KeysUnavailable: No such answer came.
    """
    try:
        # Whoever needs one of these keys waits for the fetch; the timeout of the client is for each read by itself.
        with anyio.fail_after(seconds):
            return await _get(url, seconds)
    except TimeoutError:
        raise KeysUnavailable("timeout") from None
    except httpx2.HTTPError as error:
        raise KeysUnavailable(type(error).__name__) from None


async def _get(url: str, seconds: float) -> Fetched:
    async with (
        httpx2.AsyncClient(timeout=seconds, follow_redirects=False, trust_env=False) as client,
        client.stream("GET", url, headers={"Accept": "application/json"}) as response,
    ):
        if response.status_code != 200:
            raise KeysUnavailable(f"status_{response.status_code}")
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                raise KeysUnavailable("too_large")
        return Fetched(body, _date(response.headers.get("date")))


def _date(header: str | None) -> datetime | None:
    try:
        at = None if header is None else parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


class RemoteKeys:
    """The key set of one issuer at `url`."""

    def __init__(self, url: str, *, fetch: Fetch, clock: Clock) -> None:
        self._url = url
        self._fetch = fetch
        self._clock = clock
        self._keys: Mapping[str, PublicKey] = {}
        self._fetched: datetime | None = None
        self._asked: datetime | None = None
        self._lock = anyio.Lock()
        self._log = structlog.get_logger("arap.jwks")

    def find(self, kid: str) -> PublicKey | None:
        """The key `kid`, if it was in the set when that was last seen, and that is not too long ago."""
        return self._keys.get(kid) if self._is_within(self._fetched, STALE_AFTER) else None

    async def prepare(self, kid: str) -> None:
        """Fetch the set if it is old or does not hold `kid`; a failure is logged and changes nothing."""
        if self._known(kid):
            return
        async with self._lock:
            # Whoever waited for the lock finds the answer of the fetch before.
            if self._known(kid) or self._is_within(self._asked, REFETCH_AFTER - timedelta.resolution):
                return
            self._asked = now = self._clock()
            try:
                self._keys = parse_keys(await self._fetch(self._url))
            except KeysUnavailable as error:
                self._log.warning("key_set_fetch_failed", url=self._url, code=error.code)
                return
            self._fetched = now

    def _known(self, kid: str) -> bool:
        return kid in self._keys and self._is_within(self._fetched, FRESH_FOR)

    def _is_within(self, moment: datetime | None, span: timedelta) -> bool:
        """Whether `moment` is no further from now than `span`; one in the future (a clock set back) is no fresher."""
        return moment is not None and abs(self._clock() - moment) <= span


def parse_keys(body: bytes) -> dict[str, PublicKey]:
    """The usable keys of the set in `body`, by their ids.

    Raises:
        KeysUnavailable: It is no key set.
    """
    try:
        document = strict_loads(body)
    except InvalidJson:
        raise KeysUnavailable("not_json") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise KeysUnavailable("not_a_key_set")
    keys: dict[str, PublicKey] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or not isinstance(entry.get("kid"), str):
            continue
        key = import_public(entry)
        if key is not None:
            keys[str(entry["kid"])] = key
    return keys
