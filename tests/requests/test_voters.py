"""Nobody decides a request about himself, whatever name of his the request gives and however it is spelt.

Catalogue ARS-116, GOV-12.
"""

import unicodedata

import pytest

from arap_service.domain.errors import IneligibleApprover
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account, Identity, Membership, Person
from tests.clock import START
from tests.requests.world import World, person, question

pytestmark = pytest.mark.anyio
JOSE = unicodedata.normalize("NFC", "josé")


def add_jose(session: WriteSession) -> None:
    """A treasurer with an identity, an address and a local account that have nothing in common."""
    session.add(Person(id="p-17", name="Someone", email="J.Garcia@corp.example", created_at=START))
    session.flush()
    session.add(Identity(iss="https://idp.example", sub=JOSE, person_id="p-17"))
    session.add(Membership(person_id="p-17", group_name="treasury"))
    session.add(Account(login="treasurer-3", person_id="p-17", password_hash="x", created_at=START, changed_at=START))


@pytest.mark.requirement("ARS-116", "GOV-12")
@pytest.mark.parametrize(
    "subject",
    [
        JOSE,
        unicodedata.normalize("NFD", JOSE),
        JOSE.upper(),
        f"{JOSE} ",
        f"\t{JOSE}",
        "jo\u200bs\u00e9",
        f"{JOSE}\ufe0f",
        "\uff4a\uff4f\uff53\u00e9",
        f"https://idp.example|{unicodedata.normalize('NFD', JOSE)}",
        "J.Garcia@corp.example",
        "j.garcia@CORP.example",
        "treasurer-3",
        "Treasurer-3",
        "p-17",
    ],
    ids=ascii,
)
async def test_nobody_decides_for_himself_under_another_name_or_spelling(world: World, subject: str) -> None:
    await world.ctx.database.write(add_jose)
    submitted = await world.submit(await world.body(question(subject=subject)))
    with pytest.raises(IneligibleApprover) as caught:
        await world.decide(submitted.task["id"], person("p-17"))
    assert caught.value.extra == {"code": "is_subject"}
    assert await world.status(submitted.task["id"]) == "pending"


async def test_others_are_not_taken_for_him(world: World) -> None:
    """The names that are alike and not the same belong to others."""
    await world.ctx.database.write(add_jose)
    for subject in ("jose", "garcia@corp.example", "treasurer", "treasurer-33"):
        submitted = await world.submit(await world.body(question(subject=subject)))
        assert (await world.decide(submitted.task["id"], person("p-17"))).status == "approved"
