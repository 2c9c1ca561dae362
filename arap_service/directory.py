"""People and their local accounts, as an administrator brings them in.

A people file is YAML: `people:` with `id`, `name`, and optionally `email`, `active`, `groups` and `identities`
({iss, sub}). A person in the file is added or brought up to date; people who are not in it stay as they are. A
principal that already is somebody else is refused, because moving it would move his past. Every change is in the audit
log.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arap_service import audit
from arap_service.store.database import WriteSession
from arap_service.store.directory import (
    add_identity,
    find_account,
    owner_of_identity,
    put_account,
    put_groups,
    put_person,
)
from arap_service.store.people import find_person
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


class PeopleFile(_Part):
    """A whole people file."""

    people: tuple[PersonEntry, ...]


def read_people(path: Path) -> PeopleFile:
    """The people file at `path`.

    Raises:
        DirectoryInvalid, SettingsInvalid: It cannot be read or has another form.
    """
    values: dict[str, Any] = read_yaml(path)
    try:
        return PeopleFile.model_validate(values)
    except ValidationError as error:
        raise DirectoryInvalid(
            [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        ) from None


def import_people(session: WriteSession, people: PeopleFile, *, now: datetime) -> int:
    """Bring in everybody of the file, in the caller's transaction; returns how many people that were.

    Raises:
        DirectoryInvalid: A principal belongs to somebody else.
    """
    for entry in people.people:
        put_person(session, entry.id, name=entry.name, email=entry.email, active=entry.active, now=now)
        put_groups(session, entry.id, entry.groups)
        for principal in entry.identities:
            owner = owner_of_identity(session, principal.iss, principal.sub)
            if owner is None:
                add_identity(session, entry.id, iss=principal.iss, sub=principal.sub)
            elif owner != entry.id:
                raise DirectoryInvalid([f"people: an identity of {entry.id} already belongs to {owner}"])
        detail: dict[str, Any] = {"person": entry.id, "active": entry.active, "groups": sorted(entry.groups)}
        audit.append(session, CHAIN, kind="person_imported", actor="command line", detail=detail, now=now)
    return len(people.people)


def add_account(
    session: WriteSession, login: str, *, person_id: str, password_hash: str, issuer: str, now: datetime
) -> None:
    """Give a person a local account, or his account another password; `issuer` is who we are in his identity.

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
    put_account(session, login, person_id=person_id, password_hash=password_hash, now=now)
    if owner is None:
        add_identity(session, person_id, iss=issuer, sub=login)
    detail: dict[str, Any] = {"account": login, "person": person_id}
    audit.append(session, CHAIN, kind="account_set", actor="command line", detail=detail, now=now)
