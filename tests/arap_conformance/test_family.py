"""Every check finds the fault that it is there for, and no other check takes offence at it."""

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from typing import cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest

from arap_service.conformance.catalogue import CHECKS
from arap_service.conformance.running import Run
from blackbox_kit.model import Outcome, Verdict
from tests.arap_conformance.broken import Broken, LosesARace
from tests.arap_conformance.family import FAULTS
from tests.arap_conformance.memory import MemoryClient
from tests.arap_conformance.plain_decisions import EVERYTHING, Answer, Refusal
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import PlainService, problem
from tests.arap_conformance.subjects import PlainHands, control

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ONLY_WITHOUT_BULK = "unsupported-items-are-refused"


async def deliver(endpoint: str, headers: Json, notice: Json) -> bool:
    """Tell a callback on this machine; whether it was taken."""
    place = urlsplit(endpoint)
    if place.hostname != "127.0.0.1" or place.scheme != "http":
        return False

    def told() -> bool:
        with closing(HTTPConnection(place.hostname or "", place.port, timeout=5)) as way:
            way.request("POST", place.path, json.dumps(notice), {"Content-Type": "application/json", **headers})
            return way.getresponse().status < 300

    return await anyio.to_thread.run_sync(told)


async def judged(service: PlainService) -> tuple[Outcome, ...]:
    """What the whole suite says of a service."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    service.deliver = deliver
    service.callbacks["pep"] = {f"http://{listen}/callbacks/plain"}

    @asynccontextmanager
    async def http() -> AsyncIterator[httpx2.AsyncClient]:
        yield cast("httpx2.AsyncClient", MemoryClient(service))

    changes: Json = {} if "callbacks" in service.parts else {"callbacks": None}
    run = Run(PlainHands(service, control(service.base, listen=listen, **changes)), service.base, http=http)
    with anyio.fail_after(100):
        return await run.all(CHECKS, lambda _: None)


def told(outcomes: Sequence[Outcome], *verdicts: Verdict) -> dict[str, str]:
    """The checks with one of these verdicts, and why."""
    return {one.check.id.removeprefix("arap-"): one.note for one in outcomes if one.verdict in verdicts}


async def test_a_correct_service_of_another_make_passes_everything() -> None:
    outcomes = await judged(PlainService())
    assert told(outcomes, Verdict.FAIL, Verdict.ERROR) == {}
    assert told(outcomes, Verdict.SKIPPED).keys() == {ONLY_WITHOUT_BULK}
    assert len(outcomes) == len(CHECKS)


@pytest.mark.parametrize(
    "parts",
    [
        {"denial-by-id", "approval-by-id"},
        {"denial-by-token", "approval-by-state"},
        {"denial-by-id", "denial-by-token", "approval-by-id", "bulk", "cancel"},
        {"denial-by-id", "approval-by-state", "catalogs", "callbacks"},
    ],
    ids=lambda parts: " ".join(sorted(parts)),
)
async def test_a_service_that_supports_a_part_fails_nothing_and_is_asked_about_that_part(parts: set[str]) -> None:
    outcomes = await judged(PlainService(parts=frozenset(parts)))
    assert told(outcomes, Verdict.FAIL, Verdict.ERROR) == {}
    groups = {one.check.group for one in outcomes if one.verdict is Verdict.PASS}
    verdicts = {one.check.id: one.verdict for one in outcomes}
    optional = {"bulk": "bulk", "callbacks": "callbacks", "catalogs": "catalogs", "cancel": "cancellation"}
    for part, profile in {**optional, "denial-by-token": "token"}.items():
        of_part = {verdicts[check.id] for check in CHECKS if profile in check.profiles}
        assert (of_part == {Verdict.SKIPPED}) == (part not in parts), (part, of_part)
    assert {"discovery", "denial", "submission", "binding", "status", "access", "reevaluation"} <= groups


@pytest.mark.parametrize("broken", FAULTS, ids=lambda fault: str(fault.__name__))
async def test_one_fault_is_found_by_the_one_check_that_is_meant_for_it(broken: type[Broken]) -> None:
    outcomes = await judged(broken())
    assert set(told(outcomes, Verdict.FAIL)) == {broken.found_by} | broken.also, told(outcomes, Verdict.FAIL)
    assert set(told(outcomes, Verdict.ERROR)) == broken.hinders, told(outcomes, Verdict.ERROR)


class Breaks(PlainService):
    """Refuses by breaking down, which is no refusal."""

    def unknown(self, task: Json | None) -> Refusal:
        return problem("broken", 500)

    def allow(self, caller: Json, right: str) -> None:
        if right not in caller["may"]:
            raise problem("broken", 500)

    def required(self, given: Json) -> None:
        if "justification" not in given:
            raise problem("broken", 500)

    def catalog_value(self, given: Json) -> None:
        if "project" in given and given["project"] not in [item["value"] for item in self.projects()]:
            raise problem("broken", 500)

    def catalog(self, query: Json, caller: Json) -> Json:
        if query.get("q", "").startswith("p-"):
            raise problem("broken", 500)
        return super().catalog(query, caller)

    def compare(self, body: Json, part: Json, denial: Json, found: Json) -> None:
        try:
            super().compare(body, part, denial, found)
        except Refusal:
            raise problem("broken", 500) from None

    def spend(self, bindings: Sequence[Json]) -> None:
        try:
            super().spend(bindings)
        except Refusal:
            raise problem("broken", 500) from None

    def are_items(self, body: Json) -> bool:
        if "bulk" not in self.parts:
            raise problem("broken", 500)
        return super().are_items(body)


class BreaksInARace(LosesARace):
    def repeated(self, body: Json, caller: Json, key: str) -> Answer | None:
        if self.calling > 1:
            raise problem("broken", 500)
        return super().repeated(body, caller, key)


BROKEN_DOWN = {
    *("other-caller-cannot-read", "foreign-looks-unknown", "other-caller-cannot-cancel", "reader-cannot-cancel"),
    *("input-is-validated", "catalog-values-are-validated", "catalog-hides", "replayed-token"),
    "failure-spends-nothing",
}


async def test_a_service_that_breaks_is_not_taken_for_one_that_refuses() -> None:
    assert told(await judged(Breaks()), Verdict.ERROR).keys() >= BROKEN_DOWN
    without_bulk = await judged(Breaks(parts=EVERYTHING - {"bulk"}))
    assert ONLY_WITHOUT_BULK in told(without_bulk, Verdict.ERROR)
    assert "equal-submissions-race" in told(await judged(BreaksInARace()), Verdict.ERROR)


async def test_what_shows_nothing_of_a_rule_is_not_called_kept() -> None:
    class Short(PlainService):
        def projects(self) -> list[Json]:
            return super().projects()[:2]

        def jwks(self) -> Json:
            return {"keys": []}

    outcomes = await judged(Short())
    assert told(outcomes, Verdict.SKIPPED)["catalog-pages-go-on"] == "the catalog has one page only"
    assert {"keys-are-public", "keys-are-labelled"} <= told(outcomes, Verdict.ERROR).keys()


def test_there_is_a_fault_for_every_check() -> None:
    assert {fault.found_by for fault in FAULTS} == {check.id.removeprefix("arap-") for check in CHECKS}
