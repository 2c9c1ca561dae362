"""Builds a `Context` from the configuration: opens the database, reads keys and rules, names who is trusted.

What can be wrong at a start is found here, before anything listens. Everything that a test wants to hold in its hands
(clock, ids, network, the point of a crash) can be given; the defaults are the real ones.
"""

from datetime import UTC, datetime
from typing import Any

import structlog
from opentelemetry.trace import Tracer

from arap_service.breached import ListUnusable, check_list
from arap_service.checkpoints import Checkpoint, passing
from arap_service.context import Context, NewId, Trust, random_id
from arap_service.jwks import Fetch, RemoteKeys, fetch_keys
from arap_service.key_file import load_ring
from arap_service.keys import Clock, Keys, KeySource, TrustedIssuers, Use
from arap_service.metrics import Metrics
from arap_service.oidc import Provider
from arap_service.outbound import Outbound
from arap_service.policy_source import PolicySource
from arap_service.protocol.sealing import KeyRing
from arap_service.provider_people import group_sources
from arap_service.rates import Rates
from arap_service.settings import Settings
from arap_service.settings_parts import Limits, TrustedSigner
from arap_service.settings_record import record_settings
from arap_service.simulator.calling_back import SimulatedOutbound
from arap_service.simulator.core import Simulator
from arap_service.store.database import Database
from arap_service.tracing import own_tracer
from arap_service.upstream import Upstream
from arap_service.yaml_files import SettingsInvalid


def utc_now() -> datetime:
    """The present moment."""
    return datetime.now(UTC)


def trust(settings: Settings, keys: Keys, *, fetch: Fetch, clock: Clock) -> Trust:
    """Whose signatures count for what: ourselves under the identifier of each role, and whoever is configured."""

    def remote(signers: tuple[TrustedSigner, ...]) -> dict[str, KeySource]:
        return {signer.issuer: RemoteKeys(signer.jwks_uri, fetch=fetch, clock=clock) for signer in signers}

    access = remote(settings.issuers)
    audiences = {issuer.issuer: issuer.audience or settings.identifier for issuer in settings.issuers}
    if settings.builtin_issuer.enabled:
        access[settings.builtin_issuer_identifier] = keys.source(Use.ACCESS_TOKEN)
        audiences[settings.builtin_issuer_identifier] = settings.identifier
    return Trust(
        binding=TrustedIssuers({**remote(settings.trusted_pdps), settings.identifier: keys.source(Use.BINDING)}),
        approval=TrustedIssuers(
            {**remote(settings.trusted_services), settings.access_request_endpoint: keys.source(Use.APPROVAL)}
        ),
        access=TrustedIssuers(access),
        audiences=audiences,
        acrs={issuer.issuer: issuer.step_up_acr for issuer in settings.issuers},
    )


async def open_context(
    settings: Settings,
    *,
    clock: Clock = utc_now,
    new_id: NewId = random_id,
    checkpoint: Checkpoint = passing,
    outbound: Outbound | None = None,
    fetch: Fetch = fetch_keys,
    upstream: Upstream | None = None,
    tracer: Tracer | None = None,
) -> Context:
    """Open everything that the settings name; close it with `context.aclose()`.

    Raises:
        SettingsInvalid, PolicyInvalid, StoreUnavailable, OSError: Something is not as configured.
    """
    _check_breached(settings)
    rehearsal, clock = _rehearsal(settings, clock)
    ring = load_ring(settings.key_file)
    policy = _policy(settings, has_upstream=upstream is not None or settings.upstream is not None)
    database = Database.open(settings.database, group_sources=group_sources(settings.login))
    keys = await _recorded(database, settings, policy, ring, clock)
    metrics = Metrics(_per_minute(settings.limits))
    context = Context(
        settings=settings,
        database=database,
        policy=policy,
        keys=keys,
        ring=ring,
        trust=trust(settings, keys, fetch=fetch, clock=clock),
        clock=clock,
        new_id=new_id,
        checkpoint=checkpoint,
        outbound=outbound or guarded(settings, rehearsal),
        rates=Rates(metrics.limits, clock=clock, refused=metrics.limited),
        metrics=metrics,
        tracer=tracer or own_tracer(),
        log=structlog.get_logger("arap"),
        rehearsal=rehearsal,
        upstream=upstream or (None if settings.upstream is None else Upstream(settings.upstream, clock=clock)),
        provider=_provider(settings, clock),
    )
    _rehearse(context, rehearsal)
    return context


async def _recorded(database: Database, settings: Settings, policy: PolicySource, ring: KeyRing, clock: Clock) -> Keys:
    """The keys, once rules and settings are on record as well; the database is closed if anything of that fails."""
    try:
        keys = await Keys.load_or_create(database, ring, clock=clock)
        await policy.record(database, now=clock())
        await record_settings(database, settings, now=clock())
    except BaseException:
        await database.aclose()
        raise
    return keys


def _check_breached(settings: Settings) -> None:
    if settings.login.breached_passwords is not None:
        try:
            check_list(settings.login.breached_passwords)
        except ListUnusable as error:
            raise SettingsInvalid((f"login.breached_passwords: {error}",)) from None


def _rehearsal(settings: Settings, clock: Clock) -> tuple[Simulator | None, Clock]:
    """What rehearses, if anything does, and the clock that then counts."""
    rehearsal = Simulator(clock) if settings.simulator else None
    return rehearsal, clock if rehearsal is None else rehearsal.clock


def _provider(settings: Settings, clock: Clock) -> Provider | None:
    if settings.login.oidc is None:
        return None
    skew, insecure = settings.clock_skew_seconds, settings.insecure_loopback
    return Provider(settings.login.oidc, clock=clock, skew_seconds=skew, insecure_loopback=insecure)


def _policy(settings: Settings, *, has_upstream: bool) -> PolicySource:
    policy = PolicySource.open(settings.policy_path)
    if policy.current().upstream is not None and not has_upstream:
        raise SettingsInvalid(("upstream: is missing, but the rules are made for standing behind one; name it",))
    return policy


def _per_minute(limits: Limits) -> dict[str, int]:
    """How often one caller may do what, by the names that the use cases and the figures have for it."""
    return {
        "submission": limits.submissions_per_minute,
        "poll": limits.polls_per_minute,
        "denial": limits.requestable_denials_per_minute,
        "evaluation": limits.evaluations_per_minute,
        "catalog": limits.catalog_calls_per_minute,
    }


def _rehearse(context: Context, rehearsal: Simulator | None) -> None:
    if rehearsal is not None:
        rehearsal.attach(context)
        context.log.warning("simulator_enabled", identifier=context.settings.identifier)
    elif any(template.script for template in context.policy.current().templates.values()):
        context.log.warning("scripts_ignored", reason="simulator is off")


def guarded(settings: Settings, rehearsal: Simulator | None = None) -> Outbound:
    """The way out for callbacks, as it is configured; with a simulator by way of that."""
    options: dict[str, Any] = {
        "ports": settings.limits.callback_ports,
        "insecure_loopback": settings.insecure_loopback,
        "timeout": settings.limits.callback_timeout_seconds,
    }
    return Outbound(**options) if rehearsal is None else SimulatedOutbound(rehearsal.callbacks, **options)
