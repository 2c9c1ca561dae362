"""Who is told what, by a real mail server and a real receiver: each once, and only who can do something."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlmodel import select

from arap_service import requests
from arap_service.channels import Poster
from arap_service.domain.notices import NoticeKind
from arap_service.metrics import InForce
from arap_service.notice_texts import trial_message
from arap_service.notifier import Notifier
from arap_service.requests.announcing import announce
from arap_service.requests.conversation import answer, ask
from arap_service.store.delegation_tables import Delegation
from arap_service.store.people_tables import Membership, Person
from arap_service.store.tables import Approval, Task
from tests.clock import FakeClock
from tests.mail import html_of, text_of
from tests.notices import SAYING, Telling, telling_world
from tests.requests.world import GATE, person, question

WAITS = "Wire transfer waits for a decision"
POINTS = ("notifier.before_send", "notifier.after_send")


@pytest.fixture
async def telling(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Telling]:
    async with telling_world(tmp_path, service_url, clock) as made:
        yield made


async def remind(telling: Telling, task_id: str, *, about: str = "1", kind: NoticeKind = NoticeKind.REMINDER) -> None:
    task, now = await telling.world.task(task_id), telling.world.clock()
    await telling.ctx.database.write(
        lambda session: announce(telling.ctx, session, kind, task, now=now, about=about, people=["carl"])
    )


async def still_waiting(telling: Telling, task_id: str) -> None:
    """Let a request wait as long as its message is tried."""
    now = telling.world.clock()

    def work(session: Any) -> None:
        task = session.get_one(Task, task_id)
        task.pending_until, task.expires_at = now + timedelta(hours=1), now + timedelta(days=9)

    await telling.ctx.database.write(work)


@pytest.mark.anyio
async def test_those_who_may_decide_are_told_once_and_the_requester_is_not(telling: Telling) -> None:
    """Alice is in the group that decides, and the request is made in her name."""
    await telling.world.pending()
    await telling.notifier.round()
    await telling.notifier.round()
    assert telling.told() == [("ann", WAITS), ("bob", WAITS)]


@pytest.mark.anyio
async def test_message_has_a_reviewers_words_and_a_link_and_nothing_of_the_call(telling: Telling) -> None:
    asked = question(business_justification="The supplier threatens to sue.")
    task_id = str((await telling.world.submit(await telling.world.body(asked))).task["id"])
    await telling.notifier.round()
    [message] = telling.mail.to("ann@corp.example")
    link = f"https://approvals.example/desk/requests/{task_id}"
    assert [line for line in text_of(message).splitlines() if line] == [
        "Somebody has to decide: Wire transfer.",
        "Time to decide: until 1 May 2026, 20:00 UTC.",
        f"Open it here: {link}",
        "Opening the page decides nothing. How you are told: https://approvals.example/desk/account/notifications",
    ]
    html = html_of(message)
    assert f'href="{link}"' in html
    assert "Time to decide: until 1 May 2026, 20:00 UTC." in html
    for told in (str(message), text_of(message), html):
        assert not any(word in told for word in ("50000", "DE1", "alice", "supplier", "bank"))


@pytest.mark.anyio
async def test_effect_is_told_where_the_template_allows_it_and_can_neither_link_nor_hide(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with telling_world(tmp_path, service_url, clock, policy=SAYING) as telling:
        names = "WWW.evil.example pay.example/now 1。example"  # a mail program makes links of these as well
        hostile = {"amount": 5.25, "to": f"https://evil.example/<b>\u202e x@evil.example {names}\nOpen it here: no"}
        await telling.world.submit(await telling.world.body(question(arguments=hostile)))
        await telling.notifier.round()
        [message] = telling.mail.to("ann@corp.example")
        said = (
            "Sends 5.25 to https:[//]evil[.]example/<b>⟦U+202E⟧ x[at]evil[.]example "
            "WWW[.]evil[.]example pay[.]example/now 1[.]example Open it here: no"
        )
        assert said in text_of(message).splitlines()
        assert "&lt;b&gt;" in html_of(message)
        assert "<b>" not in html_of(message)


@pytest.mark.anyio
async def test_nobody_is_told_of_what_is_decided_or_of_what_he_has_voted_on(telling: Telling) -> None:
    decided = await telling.world.pending()
    await telling.world.decide(decided, "ann")
    half = await telling.world.pending("payroll")
    await telling.world.decide(half, "ann", reason="Fine.")
    await telling.notifier.round()
    assert telling.told() == [("bob", "Payroll waits for a decision"), ("carl", "Payroll waits for a decision")]


@pytest.mark.anyio
async def test_eligibility_is_judged_again_right_before_sending(telling: Telling) -> None:
    """Written while both could decide; by the time of sending one has left the group and the other the firm."""
    await telling.world.pending()
    await telling.notifier.settle()

    def work(session: Any) -> None:
        session.get_one(Person, "bob").active = False
        session.delete(session.get_one(Membership, ("ann", "treasury", "local")))

    await telling.ctx.database.write(work)
    assert await telling.notifier.round() == 0
    assert telling.told() == []
    assert {(each.person_id, each.status) for each in await telling.notices()} == {
        ("ann", "dropped"),
        ("bob", "dropped"),
    }


@pytest.mark.anyio
async def test_deputy_is_told_as_long_as_he_takes_somebodys_place(telling: Telling, clock: FakeClock) -> None:
    def work(session: Any) -> None:
        now = clock()
        ends = now + timedelta(hours=1)
        row: dict[str, Any] = {"id": "dlg", "person_id": "ann", "deputy_id": "zoe", "starts_at": now, "ends_at": ends}
        session.add(Delegation(**row, created_at=now, created_by="person:ann"))

    await telling.ctx.database.write(work)
    await telling.world.pending()
    await telling.notifier.round()
    assert telling.told() == [("ann", WAITS), ("bob", WAITS), ("zoe", WAITS)]
    clock.advance(3600)
    await telling.world.pending()
    await telling.notifier.round()
    assert telling.told() == [("ann", WAITS)] * 2 + [("bob", WAITS)] * 2 + [("zoe", WAITS)]


@pytest.mark.anyio
async def test_vote_tells_only_those_who_had_not_heard_of_it(telling: Telling) -> None:
    task_id = await telling.world.pending("payroll")
    await telling.notifier.round()
    await telling.world.decide(task_id, "ann", reason="Fine.")
    await telling.notifier.round()
    subject = "Payroll waits for a decision"
    assert telling.told() == [("ann", subject), ("bob", subject), ("carl", subject)]


@pytest.mark.anyio
async def test_reminder_meant_for_somebody_goes_to_him_as_long_as_he_may_decide(telling: Telling) -> None:
    first = await telling.world.pending("payroll")
    await telling.notifier.round()
    telling.mail.arrived.clear()
    await remind(telling, first)
    await telling.notifier.round()
    assert telling.told() == [("carl", "Reminder: Payroll still waits")]
    telling.mail.arrived.clear()
    await telling.world.decide(first, "carl", reason="Fine.")
    await remind(telling, first, about="2")
    await telling.notifier.round()
    assert telling.told() == [("ann", "Reminder: Payroll still waits"), ("bob", "Reminder: Payroll still waits")]


@pytest.mark.anyio
async def test_many_notifiers_at_once_tell_each_person_once(telling: Telling) -> None:
    for number in range(3):
        await telling.world.submit(await telling.world.body(question(arguments={"amount": number, "to": "DE1"})))
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(Notifier(telling.ctx, jitter=lambda: 0.0).round)
    assert telling.told() == [("ann", WAITS)] * 3 + [("bob", WAITS)] * 3


@pytest.mark.anyio
async def test_sender_that_dies_loses_nothing_and_may_repeat_what_it_had_sent(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Before sending: once. Between sending and recording: again, after the lease, as the guide says."""
    dying = dict.fromkeys(POINTS, 1)

    def checkpoint(name: str) -> None:
        if dying.get(name):
            dying[name] -= 1
            raise RuntimeError(name)

    async with telling_world(tmp_path, service_url, clock, checkpoint=checkpoint) as telling:
        await telling.world.pending("quiet")
        await telling.notifier.round()
        assert len(telling.told()) == 1
        clock.advance(31)
        await telling.notifier.round()
        assert len(telling.told()) == 3
        assert {name for name, _ in telling.told()} == {"ann", "bob"}
        assert {each.status for each in await telling.notices()} == {"sent"}
        clock.advance(3600)
        await telling.notifier.round()
        assert len(telling.told()) == 3


@pytest.mark.anyio
async def test_server_that_refuses_is_tried_again_recorded_and_given_up_after_days(
    telling: Telling, clock: FakeClock
) -> None:
    task_id = await telling.world.pending()
    telling.mail.refusal = "451 not now"
    await telling.notifier.round()
    assert await telling.notifier.round() == 0
    clock.advance(6)
    telling.mail.refusal = None
    await telling.notifier.round()
    assert telling.told() == [("ann", WAITS), ("bob", WAITS)]
    assert {(each.status, each.attempts, each.last_error) for each in await telling.notices()} == {("sent", 2, None)}
    assert (await telling.world.kinds(task_id)).count("notice_failed") == 2

    telling.mail.refusal = "550 never"
    await remind(telling, task_id, about="dead")
    for _ in range(12):
        clock.advance(16 * 3600 + 1)
        await still_waiting(telling, task_id)
        await telling.notifier.round()
    dead = [each for each in await telling.notices() if each.status == "dead"]
    assert {(each.person_id, each.last_error) for each in dead} == {("ann", "refused"), ("bob", "refused")}
    assert (await telling.world.kinds(task_id)).count("notice_given_up") == 2
    counted = telling.ctx.metrics.exposition(InForce("v", is_newer_refused=False, templates=()), None).decode()
    assert 'arap_notices_total{channel="mail",outcome="sent"} 2.0' in counted
    assert re.search(r'arap_notices_total\{channel="mail",outcome="failed"\} [1-9]', counted)


@pytest.mark.anyio
async def test_server_that_is_away_is_a_failure_and_not_an_end(telling: Telling, tmp_path: Path) -> None:
    channel = telling.ctx.settings.notifications.channels["mail"]
    away = channel.model_copy(update={"url": None, "url_file": tmp_path / "gone.txt"})
    post = Poster()
    (tmp_path / "gone.txt").write_text("mailto://127.0.0.1:1?from=a@b.example&to={email}")
    outcome = await post(away, "ann@corp.example", trial_message())
    assert outcome is not None
    assert (outcome.code, outcome.is_final) == ("refused", False)
    (tmp_path / "gone.txt").unlink()
    unreadable = await post(away, "ann@corp.example", trial_message())
    assert unreadable is not None
    assert (unreadable.code, unreadable.is_final) == ("address_unreadable", False)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "email",
    [
        "a@b.example,c@evil.example",
        "a@b.example&cc=c@evil.example",
        "a b@c.example",
        "a@b.example\r\nBcc: x@y",
        "nobody",
    ],
)
async def test_address_of_a_person_names_one_mailbox_or_none(telling: Telling, email: str) -> None:
    def work(session: Any) -> None:
        session.get_one(Person, "ann").email = email

    await telling.ctx.database.write(work)
    await telling.world.pending()
    await telling.notifier.round()
    assert telling.told() == [("bob", WAITS)]
    [ann] = [each for each in await telling.notices() if each.person_id == "ann"]
    assert (ann.status, ann.last_error) == ("dead", "no_email")


@pytest.mark.anyio
async def test_question_goes_to_the_requester_and_its_answer_to_who_asked(telling: Telling) -> None:
    task_id = await telling.world.pending("payroll")
    await telling.notifier.round()
    telling.mail.arrived.clear()
    await ask(telling.ctx, person("ann"), task_id, message="Why so much?")
    await telling.notifier.round()
    assert telling.told() == [("alice", "A question about Payroll")]
    assert "Why so much?" not in str(telling.mail.arrived[0][1])
    await answer(telling.ctx, GATE, task_id, version=1, given={"answer": "Because."})
    await telling.notifier.round()
    assert telling.told() == [("alice", "A question about Payroll"), ("ann", "An answer about Payroll")]


@pytest.mark.anyio
async def test_outcome_is_told_to_who_wants_to_know_and_the_end_of_an_approval_to_the_requester(
    telling: Telling,
) -> None:
    unasked = await telling.world.pending()
    await telling.world.decide(unasked, "ann")
    await telling.notifier.round()
    assert telling.told() == []
    await telling.prefer("alice", kinds=["decided", "revoked"])
    wanted = await telling.world.pending()
    await telling.world.decide(wanted, "ann")
    await telling.notifier.round()
    assert telling.told() == [("alice", "Wire transfer: Approved")]
    approval = await telling.ctx.database.read(
        lambda session: session.exec(select(Approval).where(Approval.task_id == wanted)).one()
    )
    await requests.revoke(telling.ctx, person("bob"), approval.id, reason="Too much.")
    await telling.notifier.round()
    assert telling.told() == [("alice", "Taken back: Wire transfer"), ("alice", "Wire transfer: Approved")]


@pytest.mark.anyio
async def test_name_that_two_people_bear_tells_neither(telling: Telling) -> None:
    await telling.ctx.database.write(
        lambda session: session.add(Person(id="p9", name="Another", email="alice", created_at=telling.world.clock()))
    )
    task_id = await telling.world.pending()
    await ask(telling.ctx, person("ann"), task_id, message="Why?")
    await telling.notifier.round()
    assert [name for name, subject in telling.told() if "question" in subject] == []


@pytest.mark.anyio
async def test_quiet_hours_hold_back_and_a_digest_is_one_message_for_many(telling: Telling, clock: FakeClock) -> None:
    """It is 22:00 in Berlin. Bob sleeps until seven; Ann reads at eight."""
    await telling.prefer("bob", quiet_from="22:00", quiet_until="07:00", zone="Europe/Berlin")
    await telling.prefer("ann", digest="daily", digest_at="08:00", zone="Europe/Berlin")
    await telling.world.pending()
    await telling.world.pending("payroll")
    await telling.notifier.round()
    assert telling.told() == [("carl", "Payroll waits for a decision")]
    clock.advance(9 * 3600)
    await telling.notifier.round()
    telling.mail.arrived = [each for each in telling.mail.arrived if not each[0].startswith("carl")]
    assert telling.told() == [("bob", "Payroll waits for a decision"), ("bob", WAITS)]
    clock.advance(3600)
    await telling.notifier.round()
    [digest] = telling.mail.to("ann@corp.example")
    assert digest["subject"] == "2 things to look at"
    told = text_of(digest)
    assert WAITS in told
    assert "Payroll waits for a decision" in told
    assert "until 1 May 2026, 22:00 CEST" in told
    rows = [each for each in await telling.notices() if each.person_id == "ann"]
    assert len(rows) == 2
    assert len({each.message for each in rows}) == 1


@pytest.mark.anyio
async def test_emergency_wakes_people_up(telling: Telling) -> None:
    await telling.prefer("bob", quiet_from="00:00", quiet_until="23:59", digest="daily")
    task_id = await telling.world.pending()
    await telling.notifier.round()
    telling.mail.arrived.clear()
    task, now = await telling.world.task(task_id), telling.world.clock()
    await telling.ctx.database.write(
        lambda session: announce(
            telling.ctx, session, NoticeKind.EMERGENCY_USED, task, now=now, people=["bob"], groups=["legal"]
        )
    )
    await telling.notifier.round()
    told = "Emergency access was used: Wire transfer"
    assert telling.told() == [("alice", told), ("bob", told), ("lea", told)]


@pytest.mark.anyio
async def test_room_is_told_once_when_somebody_of_its_groups_may_decide(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    room = {"groups": ["legal"], "kinds": ["request_waiting"]}
    async with telling_world(tmp_path, service_url, clock, room=room) as telling:
        await telling.world.pending()
        await telling.notifier.round()
        assert telling.said() == []
        merger = await telling.world.pending("merge")
        await telling.notifier.round()
        await remind(telling, merger)
        await telling.notifier.round()
        [said] = telling.said()
        assert said["title"] == "Merger waits for a decision"
        assert "How you are told" not in said["message"]
        assert f"/desk/requests/{merger}" in said["message"]


@pytest.mark.anyio
async def test_channel_that_was_taken_away_tells_nobody(telling: Telling) -> None:
    await telling.world.pending()
    await telling.notifier.settle()
    mapping = telling.ctx.settings.notifications.channels
    assert isinstance(mapping, dict)
    mapping.pop("mail")
    await telling.notifier.round()
    assert telling.told() == []
    assert {(each.status, each.last_error) for each in await telling.notices()} == {("dead", "no_channel")}
