"""Every check finds the fault that it is there for, and no other check takes offence at it."""

from collections.abc import Sequence

import pytest

from arap_service.conformance.catalogue import CHECKS
from blackbox_kit.model import Verdict
from tests.arap_conformance.broken import Broken, LosesARace
from tests.arap_conformance.family import FAULTS
from tests.arap_conformance.judging import judged, told
from tests.arap_conformance.plain_decisions import EVERYTHING, Answer, Refusal
from tests.arap_conformance.right import RIGHT, ProtectsItsExpOnly
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import PlainService, problem

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
ONLY_WITHOUT_BULK = "unsupported-items-are-refused"


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


@pytest.mark.parametrize("right", RIGHT, ids=lambda kind: str(kind.__name__))
async def test_what_the_draft_leaves_to_a_service_is_no_fault(right: type[PlainService]) -> None:
    outcomes = await judged(right())
    assert told(outcomes, Verdict.FAIL, Verdict.ERROR) == {}
    later = {"later-end-is-refused"} if right is ProtectsItsExpOnly else set()
    assert told(outcomes, Verdict.SKIPPED).keys() == {ONLY_WITHOUT_BULK} | later


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
