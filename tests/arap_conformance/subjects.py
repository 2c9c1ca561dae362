"""The control file of the hand-written service, and its verbs carried out in memory."""

from pathlib import Path
from typing import Any, Final

from arap_service.conformance.control import Control, Hands
from blackbox_kit.hands import Declined
from tests.arap_conformance.signatures import Json
from tests.arap_conformance.subject import CALLBACK_TOKEN, VERBS, PlainService

ADA: Final[Json] = {"type": "user", "id": "ada@example.com"}
PAY: Final[Json] = {"name": "pay"}
TOKENS: Final = {"pep": "token-1", "again": "token-2", "second": "token-3", "reader": "token-4"}
QUICK: Final[Json] = {"request": 30, "verb": 30, "end": 10, "poll": 0.05, "settle": 0.05, "check": 60}


def question(resource: str, *, kind: str = "ledger", **more: Any) -> Json:
    """A question about a resource that is new each time."""
    return {"subject": ADA, "action": PAY, "resource": {"type": kind, "id": f"{resource}-{{marker}}"}, **more}


def questions() -> Json:
    """One of each kind."""
    numbered = question("gated")
    numbered["resource"]["properties"] = {"amount": 1}
    return {
        "requestable": question("gated"),
        "permitted": question("open"),
        "denied": question("closed"),
        "automatic": question("auto"),
        "with_context": question("gated", context={"project": "north"}),
        "with_number": numbered,
        "form": question("form", input={"requested_access": {"justification": "Needed for the audit."}}),
        "catalog": question(
            "catalog", input={"requested_access": {"justification": "Needed for the audit.", "project": "p-1"}}
        ),
        "other_subject": question("gated") | {"subject": {"type": "user", "id": "bob@example.com"}},
        "other_action": question("gated") | {"action": {"name": "read"}},
        "within": question("gated-too"),
        "beyond": question("gated", kind="vault"),
    }


def control(base: str, *, listen: str, **changes: Any) -> Control:
    """The control file of the service at `base`, called back at `listen`."""
    document: Json = {
        "questions": questions(),
        "verbs": {verb: {"post": f"{base}/control/{verb}?task={{task}}&item={{item}}"} for verb in VERBS},
        "tokens": {role: {"run": ["echo", token]} for role, token in TOKENS.items()},
        "callbacks": {
            "listen": listen,
            "endpoint": f"http://{listen}/callbacks/plain",
            "bearer": {"run": ["echo", CALLBACK_TOKEN]},
        },
        "hidden": {"people": ["Carol"], "catalog": ["p-9", "Project 9"]},
        "seconds": QUICK,
    }
    return Control.model_validate(document | changes)


class PlainHands(Hands):
    """Does to the service what its control endpoints would do."""

    def __init__(self, service: PlainService, given: Control) -> None:
        super().__init__(given, Path())
        self._service = service

    async def do(self, verb: str, **named: str) -> str:
        answer = await self._service.control(verb, named)
        if answer.status >= 400:
            raise Declined(f"control: {verb} was answered with HTTP {answer.status}")
        return ""
