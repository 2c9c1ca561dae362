"""A desk on which everything is that a desk can have: requests in every state, and what surrounds them.

Seeded by the use cases themselves, without the browser. `Room.ids` are the requests by what became of them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

from arap_service import requests
from arap_service.auditing.checkpoints import notary_of
from arap_service.domain.callers import Scope
from arap_service.requests.delegations import Wanted, delegate
from arap_service.requests.mine import answer_own
from arap_service.requests.reviews import close_review
from arap_service.requests.standing_rules import confirm_rule, propose_rule
from arap_service.settings_notifications import NotificationSettings
from arap_service.store.database import WriteSession
from arap_service.store.log_tables import SilencedEndpoint
from arap_service.store.notice_tables import Announcement, Notice
from arap_service.store.people_tables import Person
from arap_service.store.tables import Delivery, DeliveryAttempt
from tests.browser.office import Asked, Office, later, open_office
from tests.requests.world import person
from tests.web.parts import DESK

RULES: Final = (Path(__file__).parent / "room.rules.yaml").read_text(encoding="utf-8")
EVERYTHING: Final = ("maintainers", "treasurers", "ops", "audit", "admins", "on-call")
PEOPLE: Final = {"rita": EVERYTHING, "sam": ("maintainers",), "olga": ()}
CHANNELS: Final = {"mail": {"url": "mailto://desk:secret@127.0.0.1?from=d@approvals.example&to={email}"}}
WHY: Final = {"business_justification": "The nightly report is off by one cent since the last release."}
GATE: Final = "https://gate.example/callbacks/arap"


@dataclass(slots=True)
class Room:
    """An office, and the requests that are in it by what became of them."""

    office: Office
    ids: dict[str, Asked] = field(default_factory=dict)

    def open(self, path: str, *, who: str = "rita") -> Page:
        """Show somebody a page."""
        return self.office.become(who, path).page

    def commit(self, message: str = "Fix rounding of the last digit", wanted: Mapping[str, Any] | None = None) -> Asked:
        """A request that one maintainer decides."""
        return self.office.ask("git_commit", wanted, server="git", message=message, repository="ledger")

    def decide(self, asked: Asked, decision: str, *, who: str = "rita", **more: Any) -> Any:
        """What somebody decides, on the version that there is."""
        context, portal = self.office.desk.context, self.office.desk.portal
        caller = person(who, proved_at=context.clock())

        async def work() -> Any:
            version = (await requests.detail(context, caller, asked.id)).version
            return await requests.decide(context, caller, asked.id, decision=decision, version=version, **more)

        return portal.call(work)

    def do(self, use_case: Any, *arguments: Any, who: str = "rita", scopes: tuple[Scope, ...] = (), **more: Any) -> Any:
        """Have somebody do something else."""
        caller = person(who, proved_at=self.office.desk.context.clock())
        if scopes:
            caller = person(who, proved_at=self.office.desk.context.clock(), scopes=caller.scopes | set(scopes))

        async def work() -> Any:
            return await use_case(self.office.desk.context, caller, *arguments, **more)

        return self.office.desk.portal.call(work)


@contextmanager
def open_room(browser: Browser, folder: Path, *, script: bool = True) -> Iterator[Room]:
    """An empty desk with everything switched on; Rita may open all of it, Sam decides, Olga does neither."""
    changes: dict[str, Any] = {
        "desk": DESK,
        "simulator": True,
        "notifications": NotificationSettings.model_validate({"channels": CHANNELS}),
    }
    with open_office(browser, folder, RULES, PEOPLE, script=script, **changes) as office:
        office.desk.context.database.write_now(_with_addresses)
        yield Room(office)


def furnish(room: Room) -> None:
    """Put into the room whatever a desk can have; it is two hours later then."""
    _settled_long_ago(room)
    _approved(room)
    _waiting(room)
    _around(room)
    room.office.desk.context.database.write_now(lambda session: _troubles(session, room))
    room.office.desk.portal.call(notary_of(room.office.desk.context).sign)


def _with_addresses(session: WriteSession) -> None:
    for person_id in ("rita", "grace"):
        session.get_one(Person, person_id).email = f"{person_id}@corp.example"


def _settled_long_ago(room: Room) -> None:
    office, ids = room.office, room.ids
    ids["expired"] = room.commit("Upgrade the parser")
    later(office, hours=25)
    ids["reviewed"] = office.ask("restart", {"emergency": True, **WHY}, service="ledger")
    approval = room.decide(ids["reviewed"], "approve").approval
    office.run(ids["reviewed"])
    room.do(close_review, approval.id, who="grace", outcome="justified", note="The ledger was down for everybody.")
    ids["emergency"] = office.ask("restart", {"emergency": True, **WHY}, service="payroll")
    room.decide(ids["emergency"], "approve", who="rita")
    office.run(ids["emergency"])
    later(office, hours=2)


def _approved(room: Room) -> None:
    office, ids = room.office, room.ids
    for name, message in (("used", "Release 2.1"), ("taken back", "Release 2.2"), ("approved", "Release 2.3")):
        ids[name] = room.commit(message)
        view = room.decide(ids[name], "approve", reason="Read and tested.")
        if name == "taken back":
            room.do(requests.revoke, view.approval.id, reason="Wrong branch.")
    office.run(ids["used"])
    for name, days, shop in (("rule", 7, "Paper Ltd"), ("proposed", 3, "Ink Ltd")):
        ids[name] = office.ask("pay", amount=12, to=shop)
        room.decide(ids[name], "approve", who="grace", reason="CHG-7 as every month")
        rule = room.do(propose_rule, ids[name].id, may_vary=[], days=days, who="grace")
        if name == "rule":
            room.do(confirm_rule, rule.id, scopes=(Scope.ADMIN,))
    ids["denied"] = office.ask("pay", amount=900, to="ACME")
    proposed = {"amount": 90, "to": "ACME"}
    room.decide(ids["denied"], "deny", reason="Too much for this month.", proposed_arguments=proposed)
    ids["withdrawn"] = room.commit("Try something")
    room.do(requests.cancel, ids["withdrawn"].id, None, who="ada")


def _waiting(room: Room) -> None:
    office, ids = room.office, room.ids
    ids["asked"], ids["answered"] = room.commit("Add an entry"), room.commit("Remove an entry")
    for name in ("asked", "answered"):
        room.do(requests.ask, ids[name].id, message="Which branch is it for?")
    room.do(answer_own, ids["answered"].id, who="ada", number=1, typed={"f0": "The release branch."})
    room.do(requests.comment, ids["answered"].id, text="I have looked at the branch.", who="sam")
    room.do(requests.claim, ids["answered"].id, who="sam")
    ids["contract"] = office.ask("sign", name="the lease")
    ids["hidden"] = office.ask("send_mail", to="press@paper.example", subject="Figures", body="Confidential")
    ids["long"] = room.commit("x" * 300 + " \u202egnp\u200b")
    ids["keys"] = office.ask("rotate_keys", service="ledger")
    ids["bill"] = office.ask("pay", amount=120, to="ACME", order={"number": "4711", "lines": ["paper", "ink"]})
    later(office, minutes=7)
    wire: dict[str, Any] = {"amount": 50_000, "currency": "EUR", "to": "acct-991", "token": "hunter2-hunter2"}
    ids["voted"] = office.ask("wire_transfer", **wire)
    room.decide(ids["voted"], "approve", reason="The invoice is paid by this.")
    ids["transfer"] = office.ask("wire_transfer", WHY, **(wire | {"to": "acct-100", "amount": 1_250}))
    later(office, minutes=4)
    ids["waiting"] = room.commit(wanted=WHY)
    ids["things"] = office.ask_for_things("folder", "Payroll 2025", "Payroll 2026", "Contracts")
    ids["form"] = office.denied("grant_role", role="reader")


def _around(room: Room) -> None:
    for absent, deputy in (("rita", "grace"), ("linus", "rita"), ("sam", "linus")):
        now = room.office.desk.clock.advance(1)
        wanted = Wanted(
            person_id=absent, deputy_id=deputy, starts_at=now, ends_at=now.replace(year=now.year + 1, month=1)
        )
        room.do(delegate, wanted, who=absent)


def _troubles(session: WriteSession, room: Room) -> None:
    now, task_id = room.office.desk.clock(), room.ids["approved"].id
    for status in ("dead", "pending", "disabled", "delivered"):
        session.add(
            Delivery(
                id=f"dlv-{status}", task_id=task_id, client_id="gate", endpoint=GATE, event="approved", status=status,
                attempts=3, created_at=now, next_at=now, finished_at=None if status == "pending" else now,
                last_error=None if status == "delivered" else "status_503", body_sealed=b"sealed",
            )
        )  # fmt: skip
    session.add(SilencedEndpoint(client_id="gate", endpoint=GATE, at=now))
    session.flush()
    session.add(DeliveryAttempt(delivery_id="dlv-dead", number=1, at=now, outcome="pending", error="status_503"))
    session.add(DeliveryAttempt(delivery_id="dlv-dead", number=2, at=now, outcome="dead", error="status_503"))
    session.add(
        Announcement(
            id="ann", key="k", kind="request_waiting", task_id=task_id, people=[], groups=[], at=now, settled_at=now
        )
    )
    session.flush()
    for status, who in (("dead", "rita"), ("pending", "grace"), ("sent", "linus")):
        session.add(
            Notice(
                id=f"ntc-{status}", announcement_id="ann", person_id=who, channel="mail", status=status, attempts=3,
                created_at=now, next_at=now, finished_at=None if status == "pending" else now,
                last_error=None if status == "sent" else "timeout",
            )
        )  # fmt: skip
