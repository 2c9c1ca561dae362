"""Whose request it is: the person who made it, or in whose name it was made.

An enforcement point names its subject by whatever name it knows him by, so all names of a person count; one that may
mean several people means nobody. What the owner of a request may do with it is decided elsewhere (ARS-63, ARS-76).
"""

from dataclasses import dataclass

from sqlmodel import Session

from arap_service.domain.callers import Caller
from arap_service.store import people
from arap_service.store.tables import Task


@dataclass(frozen=True, slots=True)
class Ownership:
    """The names by which requests belong to a person: as their subject, and as who sent them."""

    subjects: frozenset[str]
    submitters: frozenset[str]

    def holds(self, task: Task) -> bool:
        """Whether the request is his."""
        return task.subject_id in self.subjects or task.submitter in self.submitters


def ownership_of(session: Session, caller: Caller) -> Ownership:
    """By which names the caller owns requests; by none where nobody knows him as a person."""
    person = None if caller.person_id is None else people.find_person(session, caller.person_id)
    if person is None or not person.active:
        return Ownership(frozenset(), frozenset())
    identities = people.identities_of(session, person.id)
    full = {f"{identity.iss}|{identity.sub}" for identity in identities}
    names = {person.id, *full, *(identity.sub for identity in identities), *people.logins_of(session, person.id)}
    names |= {person.email} if person.email else set()
    return Ownership(
        subjects=frozenset(name for name in names if people.people_called(session, name) == {person.id}),
        submitters=frozenset(full),
    )
