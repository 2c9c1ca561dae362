"""Verification, of the database and of an export alike: whatever is done to a log afterwards shows, and shows where."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import pytest
from sqlalchemy import delete, update
from sqlmodel import col, select

from arap_service import audit
from arap_service.auditing.checkpoints import Notary
from arap_service.auditing.export import ExportInvalid, export_lines, issuer_of, verify_lines
from arap_service.auditing.stored import signed, verify_stored
from arap_service.auditing.verification import Report
from arap_service.protocol.canonical import canonical
from arap_service.store import log
from arap_service.store.database import WriteSession
from arap_service.store.log_tables import AuditCheckpoint, AuditPlace
from arap_service.store.tables import AuditEntry, AuditHead
from tests.auditing.conftest import ISSUER, append, verifier
from tests.clock import START, FakeClock

Tamper = Callable[[WriteSession], object]


def filled(notary: Notary, clock: FakeClock) -> None:
    """Two checkpoints: keys 1 to 3, task_1 1 to 2 | task_2 1, task_1 3; then login 1, which has no place."""
    append(notary.database, clock, "task_1", "one", "two")
    anyio.run(notary.sign)
    append(notary.database, clock, "task_2", "three")
    append(notary.database, clock, "task_1", "four")
    anyio.run(notary.sign)
    append(notary.database, clock, "login", "five")


def verified(notary: Notary) -> Report:
    return notary.database.read_now(lambda session: verify_stored(session, verifier(notary)))


def exported(notary: Notary) -> list[bytes]:
    def work(session: Any) -> list[bytes]:
        until = log.last_checkpoint(session)
        assert until is not None
        return list(export_lines(session, until, issuer=ISSUER))

    return notary.database.read_now(work)


def verified_export(notary: Notary, lines: Iterable[bytes]) -> Report:
    given = iter(lines)
    assert issuer_of(next(given)) == ISSUER
    return verify_lines(given, verifier(notary))


@pytest.mark.requirement("ARS-123")
def test_untouched_log_is_whole_in_the_database_and_in_an_export(notary: Notary, clock: FakeClock) -> None:
    filled(notary, clock)
    assert verified(notary) == Report(faults=(), fault_count=0, entries=8, chains=4, checkpoints=2, covered=7)
    lines = exported(notary)
    assert verified_export(notary, lines) == Report(
        faults=(), fault_count=0, entries=7, chains=3, checkpoints=2, covered=7
    )
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["header", *["entry"] * 5, "checkpoint", *["entry"] * 2, "checkpoint", "end"]


def changing(chain: str, seq: int, **columns: object) -> Tamper:
    return lambda session: session.execute(
        update(AuditEntry).where(col(AuditEntry.chain) == chain, col(AuditEntry.seq) == seq).values(**columns)
    )


def rewriting(chain: str, seq: int) -> Tamper:
    """Change the last entry of a chain and mend its hash and the head, as somebody with the database could."""

    def work(session: WriteSession) -> None:
        entry = session.exec(select(AuditEntry).where(AuditEntry.chain == chain, AuditEntry.seq == seq)).one()
        entry.actor = "somebody else"
        entry.hash = audit.link(entry)
        session.add(entry)
        session.execute(update(AuditHead).where(col(AuditHead.chain) == chain).values(hash=entry.hash))

    return work


def rewriting_place(chain: str, seq: int) -> Tamper:
    """The same, and the place as well."""

    def work(session: WriteSession) -> None:
        rewriting(chain, seq)(session)
        entry = session.exec(select(AuditEntry).where(AuditEntry.chain == chain, AuditEntry.seq == seq)).one()
        session.execute(
            update(AuditPlace).where(col(AuditPlace.chain) == chain, col(AuditPlace.seq) == seq).values(hash=entry.hash)
        )

    return work


def cutting(chain: str, *, after: int, places: bool = False) -> Tamper:
    """Cut off a tail, and make the head say that it never was."""

    def work(session: WriteSession) -> None:
        left = select(AuditEntry).where(AuditEntry.chain == chain, AuditEntry.seq == after)
        last = session.exec(left).one_or_none()
        session.execute(delete(AuditEntry).where(col(AuditEntry.chain) == chain, col(AuditEntry.seq) > after))
        if last is None:
            session.execute(delete(AuditHead).where(col(AuditHead.chain) == chain))
        else:
            head = {"seq": last.seq, "hash": last.hash, "placed": last.seq}
            session.execute(update(AuditHead).where(col(AuditHead.chain) == chain).values(**head))
        if places:
            session.execute(delete(AuditPlace).where(col(AuditPlace.chain) == chain, col(AuditPlace.seq) > after))

    return work


def removing_and_closing_the_ranks(session: WriteSession) -> None:
    """Remove a whole chain from everywhere and number the places anew."""
    cutting("task_2", after=0, places=True)(session)
    session.execute(update(AuditPlace).where(col(AuditPlace.position) > 6).values(position=6))


def forgetting_the_end(session: WriteSession) -> None:
    """Everything since the first checkpoint, with the second one."""
    cutting("task_2", after=0, places=True)(session)
    cutting("task_1", after=2, places=True)(session)
    session.execute(delete(AuditCheckpoint).where(col(AuditCheckpoint.number) == 2))


def on_checkpoint(number: int, **columns: object) -> Tamper:
    return lambda session: session.execute(
        update(AuditCheckpoint).where(col(AuditCheckpoint.number) == number).values(**columns)
    )


@pytest.mark.requirement("ARS-123")
@pytest.mark.parametrize(
    ("tamper", "said", "said_of_export"),
    [
        (changing("task_1", 2, actor="x"), "chain task_1: entry 2 was changed", "same"),
        (changing("task_1", 2, kind="x"), "chain task_1: entry 2 was changed", "same"),
        (changing("task_1", 2, detail="{}"), "chain task_1: entry 2 was changed", "same"),
        (changing("task_1", 2, detail='{"n": 1,"why":null}'), "chain task_1: entry 2 was changed", "same"),
        (changing("task_1", 2, detail="nonsense"), "chain task_1: entry 2 was changed", "same"),
        (changing("task_1", 2, evaluation_id="x"), "chain task_1: entry 2 was changed", "same"),
        (changing("task_1", 2, previous="0" * 64), "chain task_1: entry 2 does not follow the one before it", "same"),
        (changing("login", 1, actor="x"), "chain login: entry 1 was changed", None),
        (rewriting("task_1", 3), "chain task_1: entry 3 is not the one that was placed", "same"),
        (rewriting_place("task_1", 3), "checkpoint 2 contradicts the log: something before place 7", "same"),
        (cutting("task_1", after=2), "chain task_1: entry 3 is missing", "same"),
        (cutting("task_1", after=2, places=True), "checkpoint 2 covers 7 places, and the log has 6", "same"),
        (cutting("task_2", after=0), "chain task_2: entry 1 is missing", "same"),
        (cutting("task_2", after=0, places=True), "place 6 of the log is missing", "same"),
        (removing_and_closing_the_ranks, "checkpoint 2 covers 7 places, and the log has 6", "same"),
        (on_checkpoint(1, size=4), "checkpoint 1 says something else than was signed", "same"),
        (on_checkpoint(1, at=START), "checkpoint 1 says something else than was signed", "same"),
        (on_checkpoint(1, root="0" * 64), "checkpoint 1 says something else than was signed", "same"),
        (on_checkpoint(1, signature="x"), "checkpoint 1 is not signed by a key of this service", "same"),
        (
            lambda session: session.execute(delete(AuditCheckpoint).where(col(AuditCheckpoint.number) == 1)),
            "checkpoint 1 is missing",
            "same",
        ),
        (
            lambda session: session.execute(delete(AuditHead).where(col(AuditHead.chain) == "task_1")),
            "chain task_1: its head is missing",
            None,
        ),
        (
            lambda session: session.execute(delete(AuditHead).where(col(AuditHead.chain) == "login")),
            "chain login: entry 1 is none that the chain's head knows of",
            None,
        ),
        (
            lambda session: session.execute(
                update(AuditHead).where(col(AuditHead.chain) == "login").values(hash="0" * 64)
            ),
            "chain login: entry 1 is not the one that the chain's head names",
            None,
        ),
        (
            lambda session: session.execute(update(AuditHead).where(col(AuditHead.chain) == "login").values(seq=2)),
            "chain login: entry 2 is missing",
            None,
        ),
    ],
)
def test_whatever_was_done_to_the_log_shows_where(
    notary: Notary, clock: FakeClock, tamper: Tamper, said: str, said_of_export: str | None
) -> None:
    """Including whoever mends every hash that he can reach: the signature is what he cannot make."""
    filled(notary, clock)
    notary.database.write_now(tamper)
    assert any(fault.startswith(said) for fault in verified(notary).faults)
    report = verified_export(notary, exported(notary))
    if said_of_export is None:
        assert report.is_whole
    else:
        assert any(fault.startswith(said) for fault in report.faults)


def test_log_that_was_cut_back_to_an_earlier_checkpoint_contradicts_one_that_was_kept_elsewhere(
    notary: Notary, clock: FakeClock
) -> None:
    """By itself such a log looks like an older one; that is what a witness is for."""
    filled(notary, clock)
    kept = notary.database.read_now(log.last_checkpoint)
    assert kept is not None
    witness = signed(kept)
    whole = verifier(notary)
    whole.witnessed = witness
    assert notary.database.read_now(lambda session: verify_stored(session, whole)).is_whole

    notary.database.write_now(forgetting_the_end)
    assert verified(notary).is_whole
    lines = exported(notary)
    asked = verifier(notary)
    asked.witnessed = witness
    report = notary.database.read_now(lambda session: verify_stored(session, asked))
    assert report.faults == ("the log ends before place 7, which a checkpoint that was seen before covers",)
    asked = verifier(notary)
    asked.witnessed = witness
    assert not verify_lines(iter(lines[1:]), asked).is_whole

    append(notary.database, clock, "task_9", "other", "history", "again")
    anyio.run(notary.sign)
    asked = verifier(notary)
    asked.witnessed = witness
    report = notary.database.read_now(lambda session: verify_stored(session, asked))
    assert [fault.partition(":")[0] for fault in report.faults] == [
        "the checkpoint that was seen before contradicts the log"
    ]


def test_keys_of_somebody_else_vouch_for_nothing(notary: Notary, clock: FakeClock) -> None:
    filled(notary, clock)
    strange = verifier(notary)
    strange.read_signature = lambda _: None
    report = notary.database.read_now(lambda session: verify_stored(session, strange))
    assert report.faults == tuple(f"checkpoint {number} is not signed by a key of this service" for number in (1, 2))
    assert report.covered == 0


def replaced(lines: list[bytes], line: int, **members: object) -> list[bytes]:
    value = json.loads(lines[line]) | members
    return [*lines[:line], json.dumps(value).encode(), *lines[line + 1 :]]


def test_export_from_which_lines_were_taken_is_not_whole(notary: Notary, clock: FakeClock) -> None:
    filled(notary, clock)
    lines = exported(notary)
    for number in range(1, len(lines)):
        assert not verified_export(notary, [*lines[:number], *lines[number + 1 :]]).is_whole, lines[number]
        assert not verified_export(notary, lines[:number]).is_whole
    swapped = [*lines[:2], lines[3], lines[2], *lines[4:]]
    assert not verified_export(notary, swapped).is_whole
    twice = [*lines[:2], lines[1], *lines[2:]]
    assert not verified_export(notary, twice).is_whole
    for number, line in enumerate(lines):
        if json.loads(line)["type"] == "entry":
            assert not verified_export(notary, replaced(lines, number, actor="x")).is_whole
            assert not verified_export(notary, replaced(lines, number, position=99)).is_whole


def test_detail_beside_the_text_that_was_hashed_is_no_part_of_an_entry(notary: Notary, clock: FakeClock) -> None:
    """A reader would see one of them, and the hash is of the other."""
    filled(notary, clock)
    lines = exported(notary)
    hashed = canonical(json.loads(lines[1])["detail"]).decode()
    with pytest.raises(ExportInvalid, match="line 2: has its detail twice"):
        verified_export(notary, replaced(lines, 1, detail={"forged": True}, detail_text=hashed))


def test_lines_that_are_under_no_signature_are_counted(notary: Notary, clock: FakeClock) -> None:
    filled(notary, clock)
    lines = exported(notary)
    assert verified_export(notary, lines).revealed == 0
    added = [*lines[:2], b'{"type":"revealed","task":"task_1","about":"whatever"}', *lines[2:]]
    report = verified_export(notary, added)
    assert (report.is_whole, report.revealed) == (True, 1)


@pytest.mark.parametrize(
    ("line", "members", "what"),
    [
        (1, {"type": "other"}, "line 2: is of an unknown type"),
        (1, {"seq": "1"}, "line 2: seq is missing or of another form"),
        (1, {"at": "yesterday"}, "line 2: is no entry"),
        (1, {"detail": 2**60}, "line 2: is no entry"),
        (1, {"detail_text": "{}"}, "line 2: has its detail twice"),
        (1, {"approved_by": "ann"}, "line 2: approved_by is missing or of another form"),
        (6, {"root": 1}, "line 7: root is missing"),
        (6, {"at": "yesterday"}, "line 7: at is missing"),
        (6, {"covers": 99}, "line 7: covers is missing"),
        (-1, {"size": None}, "line 11: size is missing"),
    ],
)
def test_line_that_is_not_as_it_should_be_is_named(
    notary: Notary, clock: FakeClock, line: int, members: dict[str, object], what: str
) -> None:
    filled(notary, clock)
    lines = exported(notary)
    place = line % len(lines)
    with pytest.raises(ExportInvalid, match=what):
        verified_export(notary, replaced(lines, place, **members))


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff", b'{"type":"entry"}', b'{"type":"header"}']
)
def test_file_that_is_no_export_is_refused(notary: Notary, raw: bytes) -> None:
    with pytest.raises(ExportInvalid, match="line 1"):
        issuer_of(raw)
    with pytest.raises(ExportInvalid):
        verify_lines([raw], verifier(notary))
    with pytest.raises(ExportInvalid, match="nothing may follow"):
        verify_lines([b'{"type":"end","size":0}', b'{"type":"end","size":0}'], verifier(notary))
