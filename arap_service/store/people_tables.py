"""The tables of people: who they are, by which names they are known, how they log in, and which browsers they use.

Who may decide what is judged elsewhere, at the moment of deciding. See design.md section 3.
"""

from datetime import datetime

from sqlmodel import Field

from arap_service.store.tables import Row


class Person(Row, table=True):
    """A human being who may decide; owns any number of identities and accounts."""

    id: str = Field(primary_key=True)
    name: str
    email: str | None = None
    active: bool = True
    created_at: datetime


class Identity(Row, table=True):
    """A principal (`iss`, `sub`) that is this person, wherever it appears (ARS-116)."""

    iss: str = Field(primary_key=True)
    sub: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="person.id", ondelete="CASCADE", index=True)


class Membership(Row, table=True):
    """A person is in a group."""

    person_id: str = Field(primary_key=True, foreign_key="person.id", ondelete="CASCADE")
    group_name: str = Field(primary_key=True, index=True)
    source: str = "local"  # local, or the issuer that said so


class Account(Row, table=True):
    """A local login; the password is an argon2 hash."""

    login: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="person.id", ondelete="CASCADE", index=True)
    password_hash: str
    active: bool = True
    created_at: datetime
    changed_at: datetime


class WebSession(Row, table=True):
    """A browser's session; the cookie holds the secret whose digest is the key here."""

    digest: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="person.id", ondelete="CASCADE", index=True)
    iss: str
    sub: str
    csrf: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime = Field(index=True)
