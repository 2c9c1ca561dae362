"""Finds what will go wrong with a gate before a call meets it: files, database, backend, approvers, issuers, upstreams.

Looks only: the database is not changed, the backend is asked nothing that it could act on, and no upstream is started.
Every finding is one line with what to do about it, and shows no secret. Design section 8.
"""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import httpx2
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from mcp_gate import migrate
from mcp_gate.arap_channel import Channel, ChannelUnavailable
from mcp_gate.database import StoreUnavailable, parse_url
from mcp_gate.local.deciding import is_one_of
from mcp_gate.settings import Backend, ConfigurationInvalid, GateSettings, load_ring
from mcp_gate.settings_local import Local
from mcp_gate.settings_tools import Upstream

KEY_SET_LIMIT: Final = 1024 * 1024
PATIENCE_SECONDS: Final = 5.0
_OTHERS: Final = 0o077


class State(StrEnum):
    """How bad a finding is; `failed` means that something does not work or is not safe now."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what it is about, how it is, and what to do unless it is in order."""

    check: str
    state: State
    says: str
    fix: str | None = None

    @property
    def line(self) -> str:
        """The finding for a terminal."""
        return f"{self.state.value:<7}  {self.check}: {self.says}" + ("" if self.fix is None else f"; {self.fix}")

    def as_json(self) -> dict[str, Any]:
        """The finding for a program."""
        return asdict(self)


async def diagnose(
    settings: GateSettings, *, config: Path, http: httpx2.AsyncClient, clock: Callable[[], datetime]
) -> list[Finding]:
    """Everything that there is to find out about a gate that is configured like this."""
    found = [*_files(settings, config)]
    found.append(await anyio.to_thread.run_sync(_database, settings.database))
    if settings.local is not None:
        found += _approvers(settings, settings.local)
    if settings.backend is not None:
        channel = Channel(settings.backend, http=http, clock=clock, insecure_loopback=settings.insecure_loopback)
        found += [finding async for finding in _backend(settings.backend, channel)]
    found += [await _keys(issuer.issuer, issuer.jwks_uri, http) for issuer in settings.issuers]
    if settings.callback is not None:
        found.append(await _callback(settings.callback.endpoint, http))
    for name, upstream in settings.behind.items():
        found.append(await _upstream(f"upstreams.{name}" if name else "upstream", upstream, http))
    return [*found, *_weak(settings)]


def _files(settings: GateSettings, config: Path) -> Iterator[Finding]:
    try:
        load_ring(settings.key_file, create=False)
        yield Finding("key_file", State.OK, "the keys that seal the database can be read")
    except ConfigurationInvalid as error:
        says, _, fix = str(error).removeprefix("key_file: ").partition("; ")
        yield Finding("key_file", State.FAILED, says, "start the gate, or " + fix if fix.startswith("run ") else None)
    for name, path in (("settings", config), ("key_file", settings.key_file)):
        if os.name == "posix" and path.exists() and path.stat().st_mode & _OTHERS:
            yield Finding(name, State.WARNING, f"others on this machine can read {path}", f"run chmod 600 {path}")


def _database(url: str) -> Finding:
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():
        return Finding(
            "database", State.FAILED, f"{parsed.database} does not exist", "start the gate, or run mcp-gate migrate"
        )
    try:
        migrate.check(url)
    except (StoreUnavailable, migrate.SchemaOutdated) as error:
        return Finding("database", State.FAILED, str(error).removeprefix("database: "))
    return Finding("database", State.OK, "at the tables of this release")


def _approvers(settings: GateSettings, local: Local) -> Iterator[Finding]:
    caller = settings.stdio.principal if settings.stdio is not None else settings.anonymous
    asking = () if caller is None else (caller.sub, caller.client, caller.agent)
    for number, rule in enumerate(local.rules, start=1):
        able = [name for name in rule.approvers if not is_one_of(asking, name, local.approvers[name])]
        if rule.decision == "request" and not able:
            says = f"nobody could approve what rule {number} asks for: its approvers are the configured caller himself"
            yield Finding("local", State.FAILED, says, "name another approver")
    yield Finding("local", State.OK, f"{len(local.rules)} rules and {len(local.approvers)} approvers")


async def _backend(backend: Backend, channel: Channel) -> AsyncIterator[Finding]:
    try:
        metadata = await channel.metadata()
    except ChannelUnavailable as error:
        fix = "is it running, and is backend.identifier exactly what its metadata say?"
        yield Finding("backend", State.FAILED, f"the gate is armed, but there is no decision point ({error})", fix)
        return
    if metadata.request_endpoint is None:
        says = "it names no access request endpoint that may be trusted, so no denial can be requested"
        yield Finding("backend", State.FAILED, says, "set its request endpoint, or backend.trusted_origins")
    try:
        # An evaluation without a question: whoever may ask is told that it is none, and nothing is decided.
        answer = await channel.send("POST", metadata.evaluation_endpoint, body=b"{}")
    except ChannelUnavailable as error:
        fix = "check client_id, client_secret and token_endpoint" if backend.client_id else "is it running?"
        yield Finding("backend", State.FAILED, f"the decision point cannot be asked ({error})", fix)
        return
    if answer.status in {401, 403}:
        fix = "check the client's credentials and scopes" if backend.client_id else "set backend.client_id"
        yield Finding("backend", State.FAILED, f"it does not let this gate ask (status {answer.status})", fix)
    elif answer.status >= 500:
        yield Finding("backend", State.FAILED, f"it answers with status {answer.status}", "look at its log")
    else:
        yield Finding("backend", State.OK, "the decision point answers this gate")


async def _keys(issuer: str, url: str, http: httpx2.AsyncClient) -> Finding:
    name = f"issuers ({issuer})"
    try:
        with anyio.fail_after(PATIENCE_SECONDS):  # in all, however slowly the answer comes
            response = await http.get(url, headers={"accept": "application/json"})
        if response.status_code != 200 or len(response.content) > KEY_SET_LIMIT:
            raise ValueError("not a key set")
        count = len(KeySet.import_key_set(response.json()).keys)
    except (httpx2.HTTPError, TimeoutError, ValueError, TypeError, KeyError, JoseError) as error:
        says = f"its key set cannot be had ({type(error).__name__}), so every token of it is refused"
        return Finding(name, State.FAILED, says, "check jwks_uri")
    return Finding(name, State.OK, f"{count} {'key' if count == 1 else 'keys'}")


async def _status(method: str, url: str, http: httpx2.AsyncClient, **more: Any) -> int:
    """The status of an answer; its body, which may be a stream of events without an end, is not waited for."""
    with anyio.fail_after(PATIENCE_SECONDS):
        async with http.stream(method, url, **more) as response:
            return response.status_code


async def _callback(endpoint: str, http: httpx2.AsyncClient) -> Finding:
    try:
        # Without a signature it is refused, which shows that something listens there.
        status = await _status("POST", endpoint, http, content=b"{}", headers={"content-type": "application/json"})
    except (httpx2.HTTPError, TimeoutError) as error:
        says = f"nothing answers at {endpoint} ({type(error).__name__}); without it the gate polls"
        return Finding("backend.callback", State.WARNING, says, "is the gate running, and is the way to it open?")
    if status < 400 or status == 404 or status >= 500:
        says = f"{endpoint} is not this gate's: an unsigned callback was answered with status {status}"
        return Finding("backend.callback", State.FAILED, says, "check the endpoint")
    return Finding("backend.callback", State.OK, "an unsigned callback is refused")


async def _upstream(name: str, upstream: Upstream, http: httpx2.AsyncClient) -> Finding:
    if upstream.command is not None:
        here = Path(upstream.cwd or ".")  # where the gateway starts it
        named = str(here / upstream.command) if "/" in upstream.command else upstream.command
        if shutil.which(named, path=upstream.env.get("PATH")) is None:
            return Finding(
                name, State.FAILED, f"the command {upstream.command} is not found", "install it or give its path"
            )
        return Finding(name, State.OK, f"the command {upstream.command} is there")
    try:
        await _status("GET", str(upstream.url), http, headers={"accept": "text/event-stream, application/json"})
    except (httpx2.HTTPError, TimeoutError) as error:
        return Finding(name, State.FAILED, f"it cannot be reached ({type(error).__name__})", "is it running?")
    return Finding(name, State.OK, "it answers")


def _weak(settings: GateSettings) -> Iterator[Finding]:
    if settings.insecure_loopback:
        says = "http is accepted on loopback addresses"
        yield Finding("insecure_loopback", State.WARNING, says, "leave it out in production")
    if settings.anonymous is not None:
        yield Finding("anonymous", State.WARNING, "callers are not authenticated", "leave it out in production")
    if not settings.match_client:
        says = "every client of a person can read and cancel his tasks"
        yield Finding("match_client", State.WARNING, says, "leave it true unless clients share tasks")
    if not settings.deny_unknown_methods:
        says = "methods that no mapping knows are let through"
        yield Finding("deny_unknown_methods", State.WARNING, says, "leave it true")
