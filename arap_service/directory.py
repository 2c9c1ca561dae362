"""People and their local accounts, as an administrator brings them in.

A people file is YAML: `people:` with `id`, `name`, and optionally `email`, `active`, `groups`, `identities` ({iss,
sub}) and `manager` (an id); or it is a JSON file with resources of SCIM 2.0 (`scim.py`). A person in the file is added
or brought up to date; people who are not in it stay as they are unless it is said otherwise. A principal that already
is somebody else is refused, because moving it would move his past. Every change is in the audit log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arap_service import audit
from arap_service.scim import Reading, ScimInvalid, read_scim
from arap_service.store.database import WriteSession
from arap_service.store.directory import (
    LOCAL,
    add_identity,
    find_account,
    owner_of_identity,
    put_account,
    put_groups,
    put_manager,
    put_person,
    remove_identity,
)
from arap_service.store.people import everybody, find_person, groups_said, identities_of, logins_of, manager_of
from arap_service.store.people_tables import Person
from arap_service.yaml_files import read_yaml

CHAIN: Final = "configuration"
_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}$"


class DirectoryInvalid(Exception):
    """What was to be brought in is refused, whole; `problems` holds one line for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Principal(_Part):
    """A subject of an issuer."""

    iss: str = Field(min_length=1)
    sub: str = Field(min_length=1)


class PersonEntry(_Part):
    """One person of a people file."""

    id: str = Field(pattern=_ID)
    name: str = Field(min_length=1, max_length=200)
    email: str | None = None
    active: bool = True
    groups: frozenset[str] = frozenset()
    identities: tuple[Principal, ...] = ()
    manager: str | None = None


class PeopleFile(_Part):
    """A whole people file."""

    people: tuple[PersonEntry, ...]


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import has changed, a line for each person, and the ids of active people whom the file does not name."""

    count: int
    changes: tuple[str, ...]
    missing: tuple[str, ...]


def read_people(path: Path, how: Reading | None = None) -> PeopleFile:
    """The people file at `path`; with the ending `.json` one of SCIM resources, read as `how` says.

    Raises:
        DirectoryInvalid, SettingsInvalid, OSError: It cannot be read or has another form.
    """
    try:
        values = read_scim(path, how or Reading()) if path.suffix.lower() == ".json" else read_yaml(path)
        return PeopleFile.model_validate(values)
    except ScimInvalid as error:
        raise DirectoryInvalid(error.problems) from None
    except ValidationError as error:
        raise DirectoryInvalid(
            [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        ) from None


def import_people(
    session: WriteSession, people: PeopleFile, *, now: datetime, deactivate_missing: bool = False
) -> Imported:
    """Bring in everybody of the file, in the caller's transaction; with `deactivate_missing` nobody else stays active.

    Raises:
        DirectoryInvalid: A principal belongs to somebody else, or a manager is nobody.
    """
    named = {entry.id for entry in people.people}
    missing = tuple(person.id for person in everybody(session) if person.active and person.id not in named)
    changes = [change for entry in people.people if (change := _difference(session, entry)) is not None]
    for entry in people.people:
        _put(session, entry, now=now)
    for entry in people.people:
        _put_manager(session, entry)
    for person_id in missing if deactivate_missing else ():
        person = find_person(session, person_id)
        if person is not None:
            put_person(session, person_id, name=person.name, email=person.email, active=False, now=now)
            detail: dict[str, Any] = {"person": person_id, "active": False}
            audit.append(session, CHAIN, kind="person_imported", actor="command line", detail=detail, now=now)
            changes.append(f"deactivate {person_id}, who is not in the file")
    return Imported(len(people.people), tuple(changes), missing)


def _put(session: WriteSession, entry: PersonEntry, *, now: datetime) -> None:
    put_person(session, entry.id, name=entry.name, email=entry.email, active=entry.active, now=now)
    put_groups(session, entry.id, entry.groups)
    for principal in entry.identities:
        owner = owner_of_identity(session, principal.iss, principal.sub)
        if owner is None:
            add_identity(session, entry.id, iss=principal.iss, sub=principal.sub)
        elif owner != entry.id:
            raise DirectoryInvalid([f"people: an identity of {entry.id} already belongs to {owner}"])
    detail: dict[str, Any] = {"person": entry.id, "active": entry.active, "groups": sorted(entry.groups)}
    if entry.manager is not None:
        detail["manager"] = entry.manager
    audit.append(session, CHAIN, kind="person_imported", actor="command line", detail=detail, now=now)


def _put_manager(session: WriteSession, entry: PersonEntry) -> None:
    if entry.manager == entry.id:
        raise DirectoryInvalid([f"people: {entry.id} cannot be his own manager"])
    if entry.manager is not None and find_person(session, entry.manager) is None:
        raise DirectoryInvalid([f"people: there is no person {entry.manager}, who is named as manager of {entry.id}"])
    put_manager(session, entry.id, entry.manager)


def _difference(session: WriteSession, entry: PersonEntry) -> str | None:
    """What the entry will change, in a line; None where everything is so already."""
    person = find_person(session, entry.id)
    if person is None:
        groups = f", groups {', '.join(sorted(entry.groups))}" if entry.groups else ""
        return f"add {entry.id} ({entry.name}){groups}"
    return f"change {entry.id}: {', '.join(said)}" if (said := [*_changed(session, person, entry)]) else None


def _changed(session: WriteSession, person: Person, entry: PersonEntry) -> Iterator[str]:
    if person.name != entry.name:
        yield f"name {entry.name}"
    if person.email != entry.email:
        yield f"email {entry.email or 'none'}"
    if person.active != entry.active:
        yield "active again" if entry.active else "no longer active"
    groups = groups_said(session, entry.id, by=LOCAL)
    yield from (f"into {group}" for group in sorted(entry.groups - groups))
    yield from (f"out of {group}" for group in sorted(groups - entry.groups))
    known = {(identity.iss, identity.sub) for identity in identities_of(session, entry.id)}
    yield from (f"known as {each.sub}" for each in entry.identities if (each.iss, each.sub) not in known)
    if manager_of(session, entry.id) != entry.manager:
        yield f"manager {entry.manager or 'none'}"


def link_identity(session: WriteSession, person_id: str, *, iss: str, sub: str, now: datetime) -> bool:
    """Say that this principal is the person too; whether that is new.

    Raises:
        DirectoryInvalid: There is no such person, or the principal is somebody else.
    """
    if not iss or not sub or "|" in iss:
        raise DirectoryInvalid(["people: an identity needs an issuer without a bar, and a subject"])
    if find_person(session, person_id) is None:
        raise DirectoryInvalid([f"people: there is no person {person_id}"])
    owner = owner_of_identity(session, iss, sub)
    if owner == person_id:
        return False
    if owner is not None:
        raise DirectoryInvalid([f"people: this identity belongs to {owner}; take it away with arap people unlink"])
    add_identity(session, person_id, iss=iss, sub=sub)
    detail: dict[str, Any] = {"person": person_id, "iss": iss, "sub": sub}
    audit.append(session, CHAIN, kind="identity_linked", actor="command line", detail=detail, now=now)
    return True


def unlink_identity(session: WriteSession, person_id: str, *, iss: str, sub: str, issuer: str, now: datetime) -> None:
    """Take this principal away from the person, and end what it is logged in to; `issuer` is who we are ourselves.

    Raises:
        DirectoryInvalid: It is not his, or it is that of his local account.
    """
    if owner_of_identity(session, iss, sub) != person_id:
        raise DirectoryInvalid([f"people: this identity does not belong to {person_id}"])
    if iss == issuer and sub in logins_of(session, person_id):
        raise DirectoryInvalid(["people: this is his local account, which stays his"])
    remove_identity(session, iss=iss, sub=sub)
    detail: dict[str, Any] = {"person": person_id, "iss": iss, "sub": sub}
    audit.append(session, CHAIN, kind="identity_unlinked", actor="command line", detail=detail, now=now)


def add_account(
    session: WriteSession,
    login: str,
    *,
    person_id: str,
    password_hash: str,
    first_until: datetime | None,
    issuer: str,
    now: datetime,
) -> bool:
    """Give a person a local account, or his account another password; whether he had one before.

    `issuer` is who we are in his identity. With `first_until` the password is for the first log-in and has to be
    replaced by then.

    Raises:
        DirectoryInvalid: There is no such person, or the account is somebody else's.
    """
    login = login.strip().casefold()
    if not login or len(login) > 100:
        raise DirectoryInvalid(["account: the name needs 1 to 100 characters"])
    if find_person(session, person_id) is None:
        raise DirectoryInvalid([f"account: there is no person {person_id}; bring people in with arap people import"])
    account = find_account(session, login)
    owner = owner_of_identity(session, issuer, login)
    if owner not in {None, person_id} or (account is not None and account.person_id != person_id):
        raise DirectoryInvalid([f"account: {login} belongs to somebody else"])
    put_account(session, login, person_id=person_id, password_hash=password_hash, first_until=first_until, now=now)
    if owner is None:
        add_identity(session, person_id, iss=issuer, sub=login)
    detail: dict[str, Any] = {"account": login, "person": person_id}
    audit.append(session, CHAIN, kind="account_set", actor="command line", detail=detail, now=now)
    return account is not None
