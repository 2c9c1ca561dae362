"""What a log-in at the provider means here: which person it is, and the groups that the provider says he is in.

A person is known by issuer and subject and by nothing else: an address of mail can be given to somebody else. Each
log-in replaces what the provider said before, and leaves alone what an administrator brought in. What it said counts
while issuer, claims and the map of groups are those by which it was read. Who is unknown is refused, or added where the
configuration says so. Several log-ins of one person at the same instant take turns.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue

from arap_service import audit
from arap_service.oidc import LoginRefused
from arap_service.oidc_tokens import VERIFIED
from arap_service.settings_login import LoginSettings, OidcSettings
from arap_service.store.database import WriteSession
from arap_service.store.directory import add_identity, add_person_once, drop_groups_but, put_groups, put_person
from arap_service.store.people import groups_said, person_of_identity
from arap_service.store.people_tables import Person

CHAIN: Final = "configuration"
MOST_GROUPS: Final = 2_000


def received(session: WriteSession, settings: OidcSettings, claims: Mapping[str, Any], *, now: datetime) -> Person:
    """The person who has logged in with these claims, with his groups brought up to date.

    Raises:
        LoginRefused: He is nobody whom we know, or may not log in any more.
    """
    subject = subject_of(settings, claims)
    person = person_of_identity(session, settings.issuer, subject, for_update=True)
    if person is None:
        person = _added(session, settings, claims, subject, now=now)
    if not person.active:
        raise LoginRefused("person_not_active")
    if person.id == made_id(settings.issuer, subject):
        name, email = _name(settings, claims, subject), _email(settings, claims)
        put_person(session, person.id, name=name, email=email or person.email, active=True, now=now)
    source = group_source(settings)
    drop_groups_but(session, person.id, sources=() if source is None else (source,))
    if source is not None:
        groups, before = groups_of_claims(settings, claims), groups_said(session, person.id, by=source)
        if groups != before:
            put_groups(session, person.id, groups, source=source)
            detail: dict[str, JsonValue] = {"person": person.id, "groups": [*sorted(groups)], "by": settings.issuer}
            audit.append(session, CHAIN, kind="groups_received", actor="system", detail=detail, now=now)
    return person


def group_source(settings: OidcSettings) -> str | None:
    """Under what groups are stored that the provider names: its issuer and how its claims are read; None if not at all.

    Whoever changes that means other groups by the same names, so what was stored before counts no longer.
    """
    if settings.groups_claim is None:
        return None
    read_by = json.dumps([settings.person_claim, settings.groups_claim, dict(settings.groups)], sort_keys=True)
    return f"{settings.issuer}|{hashlib.sha256(read_by.encode()).hexdigest()[:16]}"


def group_sources(login: LoginSettings) -> frozenset[str]:
    """Whose word about groups counts beside that of administrators, as people log in now."""
    source = None if login.oidc is None else group_source(login.oidc)
    return frozenset() if source is None else frozenset({source})


def subject_of(settings: OidcSettings, claims: Mapping[str, Any]) -> str:
    """The name that the provider never gives to anybody else.

    Raises:
        LoginRefused: The claim that holds it is missing.
    """
    subject = claims.get(settings.person_claim)
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        raise LoginRefused("person_claim")
    return subject


def groups_of_claims(settings: OidcSettings, claims: Mapping[str, Any]) -> frozenset[str]:
    """Our groups for those that the claims name; what is no list of names counts as no group."""
    said = claims.get(settings.groups_claim or "")
    names = [said] if isinstance(said, str) else said
    if not isinstance(names, list) or len(names) > MOST_GROUPS:
        return frozenset()
    known = [name for name in names if isinstance(name, str) and 0 < len(name) <= 255 and name.isprintable()]
    if settings.groups:
        return frozenset(settings.groups[name] for name in known if name in settings.groups)
    return frozenset(known)


def made_id(issuer: str, subject: str) -> str:
    """The id of a person whom a log-in has added; nobody can choose it, since rules may name people by their ids."""
    return "p-" + hashlib.sha256(f"{issuer}|{subject}".encode()).hexdigest()[:20]


def _added(
    session: WriteSession, settings: OidcSettings, claims: Mapping[str, Any], subject: str, *, now: datetime
) -> Person:
    if not settings.create_people:
        raise LoginRefused("person_unknown")
    person_id, name, email = (
        made_id(settings.issuer, subject),
        _name(settings, claims, subject),
        _email(settings, claims),
    )
    if add_person_once(session, person_id, name=name, email=email, now=now):
        add_identity(session, person_id, iss=settings.issuer, sub=subject)
        detail: dict[str, JsonValue] = {"person": person_id, "by": settings.issuer}
        audit.append(session, CHAIN, kind="person_added", actor="system", detail=detail, now=now)
        session.flush()
    # He is there already: added in another window at this very moment, or an administrator has taken the identity away.
    person = person_of_identity(session, settings.issuer, subject, for_update=True)
    if person is None:
        raise LoginRefused("person_unknown")
    return person


def _name(settings: OidcSettings, claims: Mapping[str, Any], subject: str) -> str:
    name = claims.get(settings.name_claim)
    shown = "".join(char for char in name if char.isprintable()).strip() if isinstance(name, str) else ""
    return (shown or subject)[:200]


def _email(settings: OidcSettings, claims: Mapping[str, Any]) -> str | None:
    """The address, which requests may belong to by: only one that the provider says is his, of it or of all."""
    vouched = settings.email_is_verified
    if claims.get(VERIFIED, vouched) not in (True, "true") or not (vouched or settings.email_claim == "email"):
        return None
    email = claims.get(settings.email_claim)
    return email if isinstance(email, str) and 0 < len(email) <= 320 and email.isprintable() else None
