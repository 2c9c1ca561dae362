"""Finds what will go wrong before somebody meets it: files, database, rules, people, issuers, callbacks, clocks.

Looks only: nothing is changed, no request is made but for what issuers publish, no callback is sent. Every finding is
one line with what to do about it; values of secrets are never among them. What prevents a start is found here too,
although `arap serve` refuses it as well, so that one look shows everything at once. See design.md section 2.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from arap_service.breached import ListUnusable, check_list
from arap_service.channels import fault_of
from arap_service.domain.appointing import MANAGER, Relation
from arap_service.domain.callers import Scope
from arap_service.domain.policy import Policy, Step
from arap_service.domain.policy_load import PolicyInvalid, load_policy
from arap_service.jwks import Fetched, KeysUnavailable, parse_keys
from arap_service.key_file import load_ring
from arap_service.keys import Clock
from arap_service.oidc import Fetch, Provider, ProviderUnavailable
from arap_service.outbound import DestinationRefused, Outbound
from arap_service.provider_people import group_sources
from arap_service.settings import Settings
from arap_service.settings_parts import is_loopback
from arap_service.store import migrate, operation
from arap_service.store.database import Database, StoreUnavailable
from arap_service.yaml_files import SettingsInvalid


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


Get = Callable[[str], Awaitable[Fetched]]


async def diagnose(settings: Settings, *, config: Path, clock: Clock, get: Get, outbound: Outbound) -> list[Finding]:
    """Everything that there is to find out about a service that is configured like this."""
    policy = _policy(settings.policy_path)
    found = [*_files(settings, config), _ring(settings.key_file), _rules(settings.policy_path, policy)]
    found += await anyio.to_thread.run_sync(_stored, settings, policy if isinstance(policy, Policy) else None, clock)
    found += [finding async for finding in _issuers(settings, clock=clock, get=get)]
    found += [finding async for finding in _provider(settings, clock=clock, get=get)]
    found += [finding async for finding in _callbacks(settings, outbound)]
    return [*found, *_breached(settings), *_channels(settings), *_weak(settings)]


def _breached(settings: Settings) -> Iterator[Finding]:
    path, check = settings.login.breached_passwords, "login.breached_passwords"
    if path is None:
        return
    try:
        check_list(path)
    except ListUnusable as error:
        yield Finding(check, State.FAILED, str(error), "take the SHA-1 list of Have I Been Pwned, ordered by hash")
    else:
        yield Finding(check, State.OK, f"{path} can be searched")


def _channels(settings: Settings) -> Iterator[Finding]:
    """Whether the addresses of channels are understood; whether they are right shows a message that arrives."""
    for name, channel in settings.notifications.channels.items():
        fault, check = fault_of(channel), f"notifications.channels.{name}"
        if fault is None:
            yield Finding(check, State.OK, f"its address is understood; try it with arap notify test {name}")
        elif fault == "address":
            yield Finding(check, State.FAILED, "its address is none that Apprise understands", "correct it")
        else:
            yield Finding(check, State.FAILED, "its url_file cannot be read", "correct its path or its mode")


def _files(settings: Settings, config: Path) -> Iterator[Finding]:
    key = None if settings.tls is None else settings.tls.key
    own = config if _holds_secrets(settings) else None
    secret = None if settings.login.oidc is None else settings.login.oidc.client_secret_file
    secrets = (("tls.key", key), ("login.oidc.client_secret_file", secret))
    for name, path in (("configuration", own), ("key_file", settings.key_file), *secrets):
        if path is None or not path.exists() or os.name != "posix":
            continue
        mode = path.stat().st_mode
        fix = f"run chmod 600 {path}"
        if mode & 0o007:
            yield Finding(name, State.FAILED, f"everybody on this machine can read {path}", fix)
        elif mode & 0o070:
            yield Finding(name, State.WARNING, f"the group of {path} can read it", fix)
    beside = config.parent / "secrets.json"
    if beside.exists() and beside.stat().st_mode & 0o077:
        yield Finding("secrets", State.FAILED, f"others can read {beside}", f"run chmod 600 {beside}")


def _holds_secrets(settings: Settings) -> bool:
    clients, upstream = settings.builtin_issuer.clients, settings.upstream
    is_secret_upstream = upstream is not None and (upstream.bearer is not None or upstream.client is not None)
    is_secret_login = settings.login.oidc is not None and settings.login.oidc.client_secret is not None
    has_channels = any(channel.url is not None for channel in settings.notifications.channels.values())
    has_receivers = has_channels or is_secret_login or bool(settings.callbacks) or bool(settings.subscriptions)
    return has_receivers or is_secret_upstream or any(client.secret is not None for client in clients)


def _ring(path: Path) -> Finding:
    try:
        load_ring(path)
    except SettingsInvalid as error:
        return Finding("key_file", State.FAILED, error.problems[0].removeprefix("key_file: "))
    return Finding("key_file", State.OK, "the keys that seal the database can be read")


def _policy(path: Path) -> Policy | str:
    try:
        return load_policy(path.read_text(encoding="utf-8"))
    except PolicyInvalid as error:
        first = error.problems[0]
        return f"line {first.line}: {first.pointer or '/'}: {first.message}"
    except (OSError, UnicodeDecodeError):
        return f"{path} cannot be read"


def _rules(path: Path, policy: Policy | str) -> Finding:
    if isinstance(policy, str):
        return Finding("rules", State.FAILED, policy, f"mend it and run arap policy check {path}")
    return Finding("rules", State.OK, f"in order, version {policy.version[:12]}")


def _stored(settings: Settings, policy: Policy | None, clock: Clock) -> list[Finding]:
    """What only the database knows, in the calling thread."""
    try:
        migrate.check(settings.database)
        opened = Database.open(settings.database, group_sources=group_sources(settings.login))
    except migrate.SchemaOutdated as error:
        return [Finding("database", State.FAILED, str(error).removeprefix("database: "))]
    except StoreUnavailable as error:
        return [Finding("database", State.FAILED, str(error).removeprefix("database: "))]
    try:
        found = [Finding("database", State.OK, "it can be reached and has the tables of this release")]
        moment = opened.read_now(operation.database_time)
        found.append(_drift("clock", "the database", moment, now=clock(), most=settings.clock_skew_seconds))
        backlog = opened.read_now(operation.backlog)
        if backlog.dead or backlog.disabled:
            says = f"{backlog.dead} callbacks were given up and {backlog.disabled} were switched off by their receiver"
            found.append(Finding("courier", State.WARNING, says, "look at them with arap deliveries list"))
        if policy is not None:
            found += [*_deciders(opened, settings, policy), *_way_in(opened, settings, policy)]
        return found
    finally:
        opened.close()


def _deciders(opened: Database, settings: Settings, policy: Policy) -> Iterator[Finding]:
    may_resolve = {
        client.client_id for client in settings.builtin_issuer.clients if Scope.APPROVAL_RESOLVE in client.scopes
    }
    lacking = False
    active = opened.read_now(partial(operation.named_people, names=_related(policy)))
    by_directory = {Relation("subject", MANAGER)} if opened.read_now(operation.has_managers) else set()
    for template in policy.templates.values():
        for step in template.steps:
            people = opened.read_now(partial(operation.eligible_people, groups=step.groups, people=step.people))
            unknown = bool(settings.issuers) and bool(step.resolvers - may_resolve)  # another issuer may know them
            count = len(people) + len(step.resolvers & may_resolve)
            # Whom an expression names shows only with a request; whom relations name is at least somebody.
            unknown = unknown or step.who is not None or not active.isdisjoint(_bearers(policy, step))
            unknown = unknown or not by_directory.isdisjoint(step.relations)
            if count >= step.quorum or unknown:
                continue
            lacking = True
            yield Finding(
                f"step {template.id}/{step.id}",
                State.FAILED,
                f"it takes {step.quorum} to approve and {count or 'nobody'} can",
                _remedy(step),
            )
    if not lacking:
        yield Finding("deciders", State.OK, "every step has enough people or resolvers who may decide")


def _related(policy: Policy) -> frozenset[str]:
    steps = (step for template in policy.templates.values() for step in template.steps)
    return frozenset().union(*(_bearers(policy, step) for step in steps))


def _bearers(policy: Policy, step: Step) -> frozenset[str]:
    """Everybody whom an entity names in a relation of the step."""
    names = {relation.relation for relation in step.relations}
    values = (
        facts[name] for named in policy.entities.values() for facts in named.values() for name in names & facts.keys()
    )
    listed = (each for value in values for each in (value if isinstance(value, list) else [value]))
    return frozenset(each for each in listed if isinstance(each, str))


def _way_in(opened: Database, settings: Settings, policy: Policy) -> Iterator[Finding]:
    asks_people = any(step.groups or step.people for each in policy.templates.values() for step in each.steps)
    if asks_people and settings.login.oidc is None and not opened.read_now(operation.has_account):
        fix = "give them accounts with arap account add, or name a provider under login.oidc"
        yield Finding("login", State.FAILED, "people have to decide and none of them can log in", fix)


async def _provider(settings: Settings, *, clock: Clock, get: Get) -> AsyncIterator[Finding]:
    oidc = settings.login.oidc
    if oidc is None:
        return
    check = f"login {oidc.issuer}"
    if oidc.create_people and settings.desk.readers is None:
        says = "everybody who can log in there is added, and may read every request"
        fix = "name the groups that may under desk.readers, or switch create_people off"
        yield Finding("login.oidc.create_people", State.WARNING, says, fix)
    if urlsplit(settings.identifier).scheme != "https":
        fix = "give the service an https identifier; most providers accept no other, and codes would travel in the open"
        yield Finding(check, State.WARNING, f"people come back to {settings.identifier}/login/callback", fix)
    try:
        oidc.secret()
    except (OSError, UnicodeError):
        yield Finding(
            check, State.FAILED, f"{oidc.client_secret_file} cannot be read", "nobody can log in until it can"
        )
    provider = Provider(
        oidc,
        clock=clock,
        skew_seconds=settings.clock_skew_seconds,
        insecure_loopback=settings.insecure_loopback,
        fetch=_fetching(get),
    )
    try:
        await provider.check()
    except ProviderUnavailable as error:
        fix = "check login.oidc.issuer, the way to it, and what it publishes; until then nobody can log in by it"
        yield Finding(check, State.FAILED, f"it gives no usable answer ({error.code})", fix)
    else:
        yield Finding(check, State.OK, "its metadata and keys can be used")


def _fetching(get: Get) -> Fetch:
    async def fetch(url: str, *, seconds: float) -> bytes:  # noqa: ARG001 - how long it takes is for `get` to say
        return (await get(url)).body

    return fetch


def _remedy(step: Step) -> str:
    if step.relations:
        named = ", ".join(sorted({each.relation for each in step.relations}))
        return f"name active people as {named} under entities, or bring them in with arap people import"
    if step.groups:
        return f"bring people into {', '.join(sorted(step.groups))} with arap people import"
    if step.people:
        return f"bring in {', '.join(sorted(step.people))} with arap people import"
    return f"give {', '.join(sorted(step.resolvers))} the scope {Scope.APPROVAL_RESOLVE}"


async def _issuers(settings: Settings, *, clock: Clock, get: Get) -> AsyncIterator[Finding]:
    signers = {signer.jwks_uri: signer.issuer for signer in settings.issuers}
    signers |= {signer.jwks_uri: signer.issuer for signer in (*settings.trusted_pdps, *settings.trusted_services)}
    for url, issuer in signers.items():
        check = f"issuer {issuer}"
        try:
            fetched = await get(url)
            keys = parse_keys(fetched.body)
        except KeysUnavailable as error:
            fix = "check jwks_uri and the way to it; until then its tokens are refused"
            yield Finding(check, State.FAILED, f"no keys at {url} ({error.code})", fix)
            continue
        if not keys:
            yield Finding(
                check, State.FAILED, f"no key at {url} is one that we can use", "it needs ES256, EdDSA or RS256"
            )
        else:
            yield Finding(check, State.OK, f"{len(keys)} keys at {url}")
        if fetched.at is not None:
            most = settings.clock_skew_seconds
            yield _drift("clock", f"issuer {issuer}", fetched.at, now=clock(), most=most)


async def _callbacks(settings: Settings, outbound: Outbound) -> AsyncIterator[Finding]:
    for client_id, configured in sorted(settings.callbacks.items()):
        for url in sorted(configured.endpoints):
            parts = urlsplit(url)
            where = f"callback of {client_id} to {parts.hostname}"
            try:
                await outbound.check(url, allow=configured.allow_destinations)
            except DestinationRefused as refused:
                yield Finding(where, State.FAILED, f"it is never called ({refused.code})", _way_out(refused.code, url))
            else:
                yield Finding(where, State.OK, "it may be called")


def _way_out(code: str, url: str) -> str:
    parts = urlsplit(url)
    destination = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    match code:
        case "unresolvable":
            return "check the name, or the resolver of this machine"
        case "internal_address":
            return f"if that is meant, put {destination} into allow_destinations of this client"
        case "port":
            return f"put the port into limits.callback_ports, or {destination} into allow_destinations"
    return "use https"


def _weak(settings: Settings) -> Iterator[Finding]:
    is_local = is_loopback(urlsplit(settings.identifier).hostname)
    if settings.authentication == "none":
        yield Finding("authentication", State.WARNING, "anybody on this machine may ask", "set it to bearer")
    if settings.insecure_loopback:
        yield Finding("insecure_loopback", State.WARNING, "http is accepted on loopback", "switch it off for real use")
    if settings.builtin_issuer.enabled and not is_local:
        fix = "name an identity provider under issuers and switch it off"
        yield Finding("builtin_issuer", State.WARNING, "it gives out tokens for client secrets", fix)
    plain = sorted(client.client_id for client in settings.builtin_issuer.clients if client.secret is not None)
    if plain:
        fix = "write secret_hash instead"
        yield Finding("builtin_issuer", State.WARNING, f"secrets of {', '.join(plain)} stand in the file", fix)
    if settings.log_level == "debug":
        yield Finding("log_level", State.WARNING, "debug says more than operation needs", "set it to info")
    for client_id, configured in sorted(settings.callbacks.items()):
        if not configured.keys:
            fix = "give it keys, so that callbacks are signed"
            yield Finding(f"callbacks.{client_id}", State.WARNING, "callbacks carry a bearer token only", fix)


def _drift(check: str, whose: str, moment: datetime, *, now: datetime, most: int) -> Finding:
    seconds = abs((now - moment).total_seconds())
    # Both clocks are cut to whole seconds, so one second says nothing.
    if seconds <= max(most, 1) + 1:
        return Finding(check, State.OK, f"this machine and {whose} agree")
    says = f"this machine and {whose} differ by {round(seconds)} seconds"
    return Finding(check, State.FAILED, says, "mend the clocks (NTP); tokens are refused and deadlines are off")
