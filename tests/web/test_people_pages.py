"""People and groups at the desk, to look up and not to change; design.md section 7, "Elsewhere"."""

import re

import pytest

from arap_service.context import Context
from arap_service.store.database import GROUP_SOURCES, WriteSession
from arap_service.store.people_tables import Membership, Person
from arap_service.web import people_pages
from tests.web.desk import add_person
from tests.web.parts import member, who_may

pytestmark = pytest.mark.anyio
PROVIDER = "https://id.example|0123456789abcdef"
NAMES = re.compile(r'<th scope="row">([^<]+?)\s*<')


async def test_administrators_and_auditors_alone_see_people(context: Context) -> None:
    assert await who_may(context, "/desk/people") == {"adam", "audrey"}


async def test_everybody_is_listed_with_groups_their_sources_and_names(context: Context) -> None:
    def work(session: WriteSession) -> None:
        session.add(Membership(person_id="ada", group_name="auditors", source=PROVIDER))
        session.add(Membership(person_id="ada", group_name="board", source="https://id.example"))
        session.get_one(Person, "linus").active = False

    context.database.write_now(work)
    context.database._info[GROUP_SOURCES] = frozenset({PROVIDER})
    async with member(context, "adam") as adam:
        page = (await adam.get("/desk/people")).text
    assert NAMES.findall(page) == ["Ada Asker", "Adam", "Grace Hopper", "Linus Example", "Olga Outside"]
    ada = page[page.index("Ada Asker") : page.index("Grace Hopper")]
    assert "auditors <span" in ada
    assert "from https://id.example<" in ada
    assert "board" not in ada  # said by the provider as it was configured before
    assert "maintainers <span" in ada
    assert 'ada <span class="muted">at https://id.example' in ada
    linus = page[page.index("Linus Example") : page.index("Olga Outside")]
    assert "Not active" in linus
    assert page.count("Not active") == 1
    assert "None, so no step names them by a group." in page[page.index("Olga Outside") :]


async def test_a_group_counts_and_shows_its_active_people(context: Context) -> None:
    async with member(context, "adam") as adam:
        before = (await adam.get("/desk/people?group=maintainers")).text
        assert NAMES.findall(before) == ["Ada Asker", "Grace Hopper", "Linus Example"]
        assert 'maintainers</a> <span class="count">3' in before

        def deactivate(session: WriteSession) -> None:
            session.get_one(Person, "linus").active = False

        context.database.write_now(deactivate)
        assert 'maintainers</a> <span class="count">2' in (await adam.get("/desk/people?group=maintainers")).text
        assert NAMES.findall((await adam.get("/desk/people?q=hOPPER")).text) == ["Grace Hopper"]
        assert "Nobody found" in (await adam.client.get("/desk/people", params={"q": "\x00%_"})).text
        for query in ("cursor=nonsense", "q=" + "a" * 201):
            assert (await adam.get(f"/desk/people?{query}")).status_code == 400


async def test_many_people_come_in_pages(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people_pages, "PAGE_SIZE", 3)
    add_person(context, "grace-two", name="Grace Hopper")
    async with member(context, "adam") as adam:
        seen: list[str] = []
        link = "/desk/people"
        while link:
            page = (await adam.get(link)).text
            seen += NAMES.findall(page)
            links = re.findall(r'<p class="more"><a href="([^"]+)"', page)
            link = links[0].replace("&amp;", "&") if links else ""
    assert seen == ["Ada Asker", "Adam", "Grace Hopper", "Grace Hopper", "Linus Example", "Olga Outside"]
