"""docs/operating.md: every command and file on it does what the page says, in its order."""

import json
import secrets
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arap_service.client import ClientCredentials, Resolver
from tests.crash.processes import lasting_port, until_now
from tests.docs.pages import DOCS, Guide
from tests.pdp import question

PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")


def _auth(service: str, folder: Path, client: str) -> ClientCredentials:
    known = json.loads((folder / "approvals" / "secrets.json").read_text(encoding="utf-8"))["clients"]
    return ClientCredentials(f"{service}/issuer/token", client_id=client, client_secret=known[client])


def approved(service: str, folder: Path) -> dict[str, Any]:
    """The question that a fresh approval permits."""
    with (
        httpx2.Client(base_url=service, auth=_auth(service, folder, "gate"), trust_env=False) as gate,
        Resolver(service, auth=_auth(service, folder, "resolver")) as resolver,
    ):
        denial = gate.post("/access/v1/evaluation", json=question()).json()["context"]
        offer = denial["access_request"]
        echo = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
        body = question() | {"denial": echo | {"evaluation_id": denial["evaluation_id"]}}
        submitted = gate.post("/access/v1/request", json=body, headers={"Idempotency-Key": secrets.token_hex(8)})
        task = submitted.json()["task"]
        (waiting,) = resolver.queue(status="pending")
        resolver.decide(waiting["id"], "approve", version=waiting["version"])
        approval = gate.get(task["status_endpoint"]).json()["result"]["approval"]
    return question() | {"context": question()["context"] | {"approval": approval}}


@pytest.mark.timeout(600)
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    guide = Guide(tmp_path, {8400: lasting_port(), 8500: lasting_port()})
    service = f"http://127.0.0.1:{guide.ports[8400]}"
    with_approval: dict[str, Any] = {}
    said = {}

    def answer(asked: dict[str, Any]) -> tuple[bool, str | None]:
        auth = _auth(service, tmp_path, "gate")
        found = httpx2.post(f"{service}/access/v1/evaluation", json=asked, auth=auth, trust_env=False).json()
        return found["decision"], found.get("context", {}).get("reason")

    for block, printed in guide.follow(PAGE):
        said[block.text.strip()] = printed
        if block.words == ("background",):
            with_approval = approved(service, tmp_path)
            assert answer(with_approval)[0] is True
        if "cp stop.rules.yaml" in block.text:
            until_now(lambda: answer(question()) == (False, "stopped"), "the rule is in force")
            assert answer(with_approval)[0] is False, "an approval overrules the rule"
        if "cp policy-before.yaml" in block.text:
            until_now(lambda: answer(question())[1] != "stopped", "the rules are back")
            assert answer(with_approval)[0] is False, "the approval lives on"

    printed_by = {command: text for command, text in said.items() if text}
    (watched,) = (text for command, text in printed_by.items() if "readyz" in command)
    assert '"migrations":{"state":"ok"' in watched
    assert "every step has enough people" in watched
    (audited,) = (text for command, text in printed_by.items() if "--witness" in command)
    assert "are whole" in audited
    (revoked,) = (text for command, text in printed_by.items() if "revoke_all" in command)
    assert revoked.startswith("revoked apr_"), revoked
    (imported,) = (text for command, text in printed_by.items() if "people import people.yaml" in command)
    assert "Account maria is ready" in imported
