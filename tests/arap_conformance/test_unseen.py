"""What was not seen is not passed: wrong tokens, services that are broken, verbs that do nothing, other clocks."""

import base64
import json
import socket
from datetime import timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from arap_service.conformance.catalogue import CHECKS
from arap_service.conformance.control import Control
from blackbox_kit.hands import Declined
from blackbox_kit.model import NotRun, Verdict
from tests.arap_conformance.judging import deliver, judged, told
from tests.arap_conformance.plain_decisions import Answer
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import PlainService
from tests.arap_conformance.subjects import TOKENS, PlainHands, questions

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
OF_ANOTHER = {check.id.removeprefix("arap-") for check in CHECKS if "second" in check.tokens}
OPTIONAL = ("cancellation", "bulk", "callbacks", "catalogs")


def with_token(role: str, token: str) -> Json:
    """Tokens of which one is another."""
    return {"tokens": {name: {"run": ["echo", one]} for name, one in (TOKENS | {role: token}).items()}}


async def test_a_second_token_that_is_good_for_nothing_proves_nothing() -> None:
    outcomes = await judged(PlainService(), *OF_ANOTHER, **with_token("second", "garbage"))
    assert told(outcomes, Verdict.ERROR).keys() == OF_ANOTHER
    assert all("HTTP 401" in why for why in told(outcomes, Verdict.ERROR).values())


@pytest.mark.parametrize(
    ("right", "check", "why"),
    [
        ("submit", "other-caller-cannot-read", "the token second opens no task of its own"),
        ("status", "foreign-looks-unknown", "the token second does not see a task of its own"),
        ("cancel", "other-caller-cannot-cancel", "the token second does not cancel a task of its own"),
    ],
)
async def test_a_second_caller_without_rights_of_its_own_proves_nothing(right: str, check: str, why: str) -> None:
    service = PlainService()
    service.callers["token-3"] = service.callers["token-3"] | {"may": service.callers["token-3"]["may"] - {right}}
    assert why in told(await judged(service, check), Verdict.ERROR)[check]


async def test_another_token_of_the_same_caller_that_is_good_for_nothing_proves_nothing() -> None:
    outcomes = await judged(PlainService(), "new-token-keeps-the-task", **with_token("again", "garbage"))
    assert "HTTP 401" in told(outcomes, Verdict.ERROR)["new-token-keeps-the-task"]


@pytest.mark.parametrize("group", OPTIONAL)
async def test_with_a_first_token_that_is_good_for_nothing_nothing_is_taken_for_unsupported(group: str) -> None:
    outcomes = await judged(PlainService(), group, **with_token("pep", "garbage"))
    assert {one.verdict for one in outcomes} == {Verdict.ERROR}
    assert all("HTTP 401" in one.note for one in outcomes)


async def test_a_service_that_opens_no_task_is_not_taken_for_one_that_supports_little() -> None:
    class Breaks(PlainService):
        async def submit(self, body: Any, caller: Json, key: str | None) -> Answer:
            return Answer(500, {"error": "x"})

    outcomes = await judged(Breaks(), *OPTIONAL, "unsupported-items-are-refused", "unsigned-token-is-refused")
    wrong = told(outcomes, Verdict.PASS, Verdict.SKIPPED)
    assert wrong.keys() <= {check.id.removeprefix("arap-") for check in CHECKS if check.group == "catalogs"}
    for check in ("cancel-ends-the-task", "items-are-mirrored", "unsupported-items-are-refused"):
        assert "could not be seen" in told(outcomes, Verdict.ERROR)[check]


class KnowsAda(PlainService):
    """Whoever else asks, or for anything else, is denied for good; and an approval of hers is anybody's."""

    def rule(self, asked: Json) -> str:
        is_known = (asked["subject"]["id"], asked["action"]["name"]) == ("ada@example.com", "pay")
        return super().rule(asked) if is_known and not asked["resource"]["id"].endswith("-other") else "deny"

    def is_in_scope(self, record: Json, asked: Json) -> bool:
        return True


@pytest.mark.parametrize("part", ["subject", "action", "resource"])
async def test_where_policy_denies_another_question_plainly_an_approval_proves_nothing(part: str) -> None:
    check = f"approval-of-another-{part}"
    asked = {name: one for name, one in questions().items() if not name.startswith("other_")}
    why = told(await judged(KnowsAda(), check, questions=asked), Verdict.ERROR)[check]
    assert why.startswith(f"another {part}: policy denies that question plainly")
    assert f"other_{part}" in why


async def test_a_question_of_another_subject_differs_in_its_subject_alone() -> None:
    asked = questions() | {"other_subject": questions()["beyond"]}
    outcomes = await judged(PlainService(), "approval-of-another-subject", "changed-subject", questions=asked)
    why = "control: other_subject does not differ from requestable in its subject and in that alone"
    assert set(told(outcomes, Verdict.ERROR).values()) == {why}
    assert len(outcomes) == 2


class Without(PlainHands):
    """Hands whose approval cannot be run."""

    async def do(self, verb: str, **named: str) -> str:
        if verb == "approve":
            raise NotRun("control: approve cannot be run (FileNotFoundError)")
        return await super().do(verb, **named)


async def test_an_approval_that_cannot_be_run_is_not_taken_for_one_that_is_refused() -> None:
    late = ("cancelled-cannot-be-approved", "an-end-is-an-end")
    outcomes = await judged(PlainService(), *late, hands=Without)
    assert told(outcomes, Verdict.ERROR) == dict.fromkeys(late, "control: approve cannot be run (FileNotFoundError)")


async def test_an_approval_that_does_nothing_is_not_taken_for_one_that_is_refused() -> None:
    class Refuses(PlainHands):
        seen = 0

        async def do(self, verb: str, **named: str) -> str:
            self.seen += 1
            if self.seen == 1:
                raise Declined("control: approve ended with status 1")
            return ""

    quick = {"request": 30, "verb": 30, "end": 0.2, "poll": 0.05, "settle": 0, "check": 60}
    outcomes = await judged(PlainService(), "cancelled-cannot-be-approved", hands=Refuses, seconds=quick)
    assert "was not at its end" in told(outcomes, Verdict.ERROR)["cancelled-cannot-be-approved"]


SHARED = base64.b64encode(b"shared by the two of them, for calls").decode()


class Ahead(PlainService):
    """Its clock is ten minutes ahead, and it calls back with Standard Webhooks, at `late` from its own time."""

    late = timedelta()

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.ahead = timedelta(minutes=10)
        self.deliver_plainly = deliver

    async def tell(self, task: Json) -> None:
        self.deliver = self.signing
        await super().tell(task)

    async def signing(self, endpoint: str, headers: Json, notice: Json) -> bool:
        at = self.now() + self.late
        signature = Webhook(SHARED).sign("msg_1", at, json.dumps(notice))
        stamped = {"webhook-id": "msg_1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}
        return await self.deliver_plainly(endpoint, stamped, notice)


class AheadAndLate(Ahead):
    late = -timedelta(minutes=6)


@pytest.mark.parametrize(("kind", "verdict"), [(Ahead, Verdict.PASS), (AheadAndLate, Verdict.FAIL)])
async def test_the_time_of_a_call_is_compared_with_the_clock_of_the_service(
    kind: type[Ahead], verdict: Verdict
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    callbacks = {"listen": listen, "endpoint": f"http://{listen}/x", "standard_webhooks": {"run": ["echo", SHARED]}}
    service = kind()
    service.callbacks["pep"] = {str(callbacks["endpoint"])}
    outcomes = await judged(service, "callback-is-authenticated", callbacks=callbacks)
    assert [one.verdict for one in outcomes] == [verdict], outcomes[0].note


@pytest.mark.parametrize("wrong", [{"id": json}, {"id": "x", "at": float("nan")}], ids=["no-json", "no-number"])
def test_a_question_that_is_no_json_is_refused(wrong: Json) -> None:
    with pytest.raises(ValueError, match="is no JSON, such as a date without quotes"):
        Control.model_validate({"questions": questions() | {"denied": {**questions()["denied"], "subject": wrong}}})


async def test_what_the_control_file_hides_stands_in_no_outcome_and_a_long_answer_is_cut_after_that() -> None:
    class Tells(PlainService):
        def handle(self, task: Json) -> Json:
            names = {"carol": 1, "by": "CAROL", "token": "x" * 290 + TOKENS["pep"]}
            return super().handle(task) | (names if task["status"] == "approved" else {})

    outcomes = await judged(Tells(), "approvers-are-not-shown", "cancelled-cannot-be-approved")
    (why,) = told(outcomes, Verdict.FAIL).values()
    assert "[redacted]" in repr(outcomes[0].exchanges)
    assert len(why) < 700
    whole = repr(outcomes)
    assert "carol" not in whole.lower()
    assert TOKENS["pep"] not in whole
    assert TOKENS["pep"][:-1] not in whole


@pytest.mark.parametrize(
    "named",
    [
        {"access_request_endpoint": "https://[bad"},
        {"access_evaluation_endpoint": "https://plain.example:99999/x"},
        {"jwks_uri": 7, "capabilities": ["\ud800"]},
    ],
)
async def test_metadata_that_names_what_is_no_url_gets_verdicts(named: Json) -> None:
    class Odd(PlainService):
        def metadata(self) -> Json:
            return super().metadata() | named

    outcomes = await judged(Odd(), "discovery", "denial", "access")
    assert len(outcomes) == sum(check.group in {"discovery", "denial", "access"} for check in CHECKS)
    assert "\ud800" not in json.dumps([repr(one) for one in outcomes], ensure_ascii=False)


@pytest.mark.parametrize("answer", [Answer(500, {"error": "x"}), Answer(302), Answer(200, "<html>", kind="text/html")])
async def test_without_metadata_nothing_is_said_of_what_it_names(answer: Answer) -> None:
    class Silent(PlainService):
        def described(self) -> Answer:
            return answer

    outcomes = await judged(Silent(), "discovery")
    assert set(told(outcomes, Verdict.FAIL)) == {"metadata-found"}
    assert {
        "request-endpoint-published",
        "capability-listed",
        "identifier-is-the-one-asked",
        "endpoints-are-https",
    } <= (told(outcomes, Verdict.ERROR).keys())
