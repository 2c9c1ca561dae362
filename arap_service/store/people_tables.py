"""The tables of people: who they are, by which names they are known, how they log in, and which browsers they use.

Who may decide what is judged elsewhere, at the moment of deciding. See design.md section 3.
"""

from datetime import datetime

from sqlalchemy import CheckConstraint, false
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
    """A person is in a group, as somebody says; who says so takes back only what he has said himself."""

    person_id: str = Field(primary_key=True, foreign_key="person.id", ondelete="CASCADE")
    group_name: str = Field(primary_key=True, index=True)
    source: str = Field(default="local", primary_key=True)  # local, or the issuer that said so


class Manager(Row, table=True):
    """Who a person reports to; at most one."""

    person_id: str = Field(primary_key=True, foreign_key="person.id", ondelete="CASCADE")
    manager_id: str = Field(foreign_key="person.id", ondelete="CASCADE", index=True)


class Account(Row, table=True):
    """A local login; the password is an argon2 hash, and with `first_until` its owner has to replace it by then."""

    login: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="person.id", ondelete="CASCADE", index=True)
    password_hash: str
    active: bool = True
    created_at: datetime
    changed_at: datetime
    first_until: datetime | None = None


class WebSession(Row, table=True):
    """A browser's session; the cookie holds the secret whose digest is the key here.

    `authenticated_at` is when the person last proved who he is, by `method`. `provider_sub` and `provider_sid` are what
    the provider calls person and session, for its word that they have ended. `typed_sealed` is what was in a form that
    has to wait for a fresh log-in. With `must_change` it allows nothing but to replace the password.
    """

    __table_args__ = (CheckConstraint("method IN ('local', 'provider')", name="method"),)

    digest: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="person.id", ondelete="CASCADE", index=True)
    iss: str
    sub: str
    csrf: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime = Field(index=True)
    authenticated_at: datetime
    method: str = "local"
    browser: str = ""
    provider_sub: str | None = Field(default=None, index=True)
    provider_sid: str | None = Field(default=None, index=True)
    typed_sealed: bytes | None = None
    must_change: bool = Field(default=False, sa_column_kwargs={"server_default": false()})


class LoginAttempt(Row, table=True):
    """Somebody was sent to the provider to log in; only digests are kept, and the row goes when he comes back.

    `person_id` is set where somebody who is logged in has to prove it again.
    """

    state_digest: str = Field(primary_key=True)
    browser_digest: str
    target: str
    person_id: str | None = Field(default=None, foreign_key="person.id", ondelete="CASCADE", index=True)
    started_at: datetime
    expires_at: datetime = Field(index=True)


class SpentLogout(Row, table=True):
    """A word of the provider that a session has ended, which counts once; kept until it would be too old anyway."""

    digest: str = Field(primary_key=True)
    expires_at: datetime = Field(index=True)
