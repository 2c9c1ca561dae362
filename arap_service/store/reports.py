"""Who reports to whom, as the directory of people has it, by every name that an enforcement point may use."""

from sqlalchemy import literal, select, union_all
from sqlmodel import Session, col

from arap_service.store.people_tables import Account, Identity, Manager, Person


def names_of_reports(session: Session, person_id: str) -> frozenset[str]:
    """The names of all who report to this person: ids, addresses, accounts, and identities in full and bare."""
    reports = select(col(Manager.person_id)).where(col(Manager.manager_id) == person_id)
    identity = col(Identity.iss) + literal("|") + col(Identity.sub)
    found = session.execute(
        union_all(
            reports,
            select(col(Person.email)).where(col(Person.id).in_(reports)),
            select(col(Account.login)).where(col(Account.person_id).in_(reports)),
            select(col(Identity.sub)).where(col(Identity.person_id).in_(reports)),
            select(identity).where(col(Identity.person_id).in_(reports)),
        )
    )
    return frozenset(name for (name,) in found if name)
