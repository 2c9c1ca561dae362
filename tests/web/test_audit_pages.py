"""The audit trail at the desk, for auditors alone; PDP-78, design.md sections 5 and 7."""

import re
from datetime import timedelta

import pytest
from fastapi import FastAPI

from arap_service import audit
from arap_service.auditing import trail
from arap_service.auditing.checkpoints import notary_of
from arap_service.auditing.export import issuer_of, static_issuers, verify_lines
from arap_service.auditing.stored import read_with
from arap_service.auditing.verification import Verifier
from arap_service.context import Context
from arap_service.store.database import WriteSession
from arap_service.store.tables import AuditEntry
from arap_service.web import audit_pages
from tests.clock import FakeClock
from tests.web.desk import Browser, commit_request, decide, transfer_request
from tests.web.parts import member, who_may

pytestmark = pytest.mark.anyio
ENTRIES = re.compile(r'<p class="trail-what"><strong>([^<]+)</strong>')


async def test_auditors_alone_see_the_trail(context: Context) -> None:
    assert await who_may(context, "/desk/audit") == {"audrey"}
    async with member(context, "grace") as grace:
        assert (await grace.get("/desk/audit/export")).status_code == 403


async def test_the_whole_trail_comes_with_the_newest_entry_first(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    task_id = await commit_request(app, context)
    clock.advance(60)
    await decide(grace, task_id, "deny", reason="No.")
    clock.advance(60)
    async with member(context, "audrey") as audrey:
        kinds = ENTRIES.findall((await audrey.get("/desk/audit")).text)
    assert kinds[:4] == ["Logged in", "Request denied", "Decision cast", "Request made"]


async def test_one_request_and_one_evaluation_have_their_story_and_the_chain_is_checked(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id, other = await commit_request(app, context), await commit_request(app, context)
    await decide(grace, task_id, "deny", reason="No.")
    async with member(context, "audrey") as audrey:
        page = (await audrey.get(f"/desk/audit?request={task_id}")).text
        assert ENTRIES.findall(page) == ["Request made", "Decision cast", "Request denied"]
        assert "3 entries, none altered, missing or foreign." in page
        assert other not in page
        evaluation = page.split('href="/desk/audit?evaluation=')[1].split('"')[0]
        story = (await audrey.get(f"/desk/audit?evaluation={evaluation}")).text
        kinds = ENTRIES.findall(story)
        assert kinds == ["Denied, and can be requested", "Request made", "Decision cast", "Request denied"]


async def test_a_changed_entry_is_found_on_the_page_of_its_chain(app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)

    def forge(session: WriteSession) -> None:
        session.get_one(AuditEntry, (task_id, 1)).actor = "somebody else"

    context.database.write_now(forge)
    async with member(context, "audrey") as audrey:
        page = (await audrey.get(f"/desk/audit?request={task_id}")).text
        assert "The chain is broken" in page
        assert "Entry 1 is altered, missing or foreign." in page
        assert "There is no chain of this name." in (await audrey.get("/desk/audit?request=none")).text


async def test_entries_are_found_by_kind_and_time(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    first = await commit_request(app, context)
    clock.advance(3_600)
    second = await commit_request(app, context)
    clock.advance(3_600)
    async with member(context, "audrey") as audrey:

        async def tasks(**query: str) -> list[bool]:
            page = await audrey.client.get("/desk/audit", params={"kind": "task_submitted", **query})
            assert set(ENTRIES.findall(page.text)) <= {"Request made"}
            return [task in page.text for task in (first, second)]

        assert await tasks() == [True, True]
        assert await tasks(since="2026-04-30T21:00") == [False, True]
        assert await tasks(until="2026-04-30T21:00") == [True, False]
        assert await tasks(since="2026-04-30T20:30", until="2026-04-30T20:59:59") == [False, False]
        assert await tasks(request=first) == [True, False]
        for query in ("since=yesterday", "until=2026-13-01T00:00", "cursor=nonsense", "request=" + "a" * 201):
            assert (await audrey.get(f"/desk/audit?{query}")).status_code == 400
        assert "Nothing on record fits" in (await audrey.get("/desk/audit?evaluation=none")).text


async def test_a_long_trail_comes_in_pages_and_is_looked_at_in_bounded_parts(
    app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pages, "PAGE_SIZE", 2)
    monkeypatch.setattr(trail, "_PART", 2)
    monkeypatch.setattr(trail, "_MOST_PARTS", 1)
    tasks = [await commit_request(app, context, f"Number {n}") for n in range(3)]
    async with member(context, "audrey") as audrey:
        link, seen, looks = "/desk/audit?kind=task_submitted", "", 0
        while link:
            page = (await audrey.get(link)).text
            seen += page
            looks += 1
            links = re.findall(r'<p class="more"><a href="([^"]+)"', page)
            link = links[0].replace("&amp;", "&") if links else ""
    assert ENTRIES.findall(seen) == ["Request made"] * 3
    assert all(task in seen for task in tasks)
    assert looks > 2, "a part without any such entry is a page by itself"


async def test_the_download_is_what_the_command_writes_and_verifies_without_the_service(
    app: FastAPI, context: Context
) -> None:
    await commit_request(app, context)
    async with member(context, "audrey") as audrey:
        assert "No checkpoint was signed yet" in (await audrey.get("/desk/audit")).text
        assert (await audrey.get("/desk/audit/export")).status_code == 404
        made = await notary_of(context).sign()
        assert made is not None
        assert f"under signed checkpoint {made.number} of" in (await audrey.get("/desk/audit")).text
        file = await audrey.get("/desk/audit/export")
    assert file.headers["content-disposition"] == f'attachment; filename="audit-{made.number}.jsonl"'
    lines = file.content.splitlines(keepends=True)
    issuer = issuer_of(lines[0])
    report = verify_lines(lines[1:], Verifier(read_with(static_issuers(issuer, context.keys.log_jwks()))))
    assert (report.is_whole, report.covered) == (True, made.size)


async def test_nothing_sealed_is_on_the_page_or_in_the_download(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await transfer_request(app, context)
    await decide(grace, task_id, "deny", reason="Not this account.")
    await notary_of(context).sign()
    async with member(context, "audrey") as audrey:
        for path in ("/desk/audit", f"/desk/audit?request={task_id}", "/desk/audit/export"):
            text = (await audrey.get(path)).text
            assert task_id in text
            for secret in ("hunter2", "acct-991", "50000", "Not this account"):
                assert secret not in text, (path, secret)


async def test_what_nobody_signs_for_too_long_is_told_to_operators(
    app: FastAPI, context: Context, clock: FakeClock
) -> None:
    await commit_request(app, context)
    await notary_of(context).sign()
    async with member(context, "oscar") as oscar:
        assert "nobody has signed it" not in (await oscar.get("/desk")).text
        clock.advance(timedelta(minutes=6).total_seconds())
        assert "nobody has signed it for too long" in (await oscar.get("/desk")).text
        await notary_of(context).sign()
        assert "nobody has signed it" not in (await oscar.get("/desk")).text


async def test_an_evaluation_of_several_systems_is_asked_back_about(context: Context) -> None:
    """One that another decision point gave the same id is told apart before anything is shown."""

    def work(session: WriteSession) -> None:
        for chain, issuer in (("first-chain", None), ("other-chain", "https://north.example")):
            audit.append(
                session,
                chain,
                kind="task_submitted",
                actor="gate",
                detail={"denial": {"iss": issuer}},
                now=context.clock(),
                evaluation_id="ev_1",
            )

    context.database.write_now(work)
    async with member(context, "audrey") as audrey:
        unclear = (await audrey.get("/desk/audit?evaluation=ev_1")).text
        assert "Whose evaluation?" in unclear
        assert "first-chain" not in unclear
        link = re.findall(r'<li><a href="([^"]+)">https://north.example</a>', unclear)[0].replace("&amp;", "&")
        found = (await audrey.get(link)).text
    assert "other-chain" in found
    assert "first-chain" not in found
