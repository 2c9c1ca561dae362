"""Secrets in transit show up nowhere: what callers send must be in no log line, no figure and no error body.

Marked words stand in every place where a caller or an operator puts something confidential; everything that the service
logs at its most talkative level, and every error body, is searched for them.
"""

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from arap_service import logs
from arap_service.api.health import exposition
from tests.clock import FakeClock
from tests.peers import POLICY, REQUEST, RESOLVER, Peers, peers, question
from tests.service import service_context, settings_for

CANARY = "canary-7f3a"


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Everything that is logged, by whatever library, at debug level."""
    written = io.StringIO()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    monkeypatch.setattr("sys.stderr", written)
    for name in ("uvicorn", "uvicorn.error"):  # a server that another test ran in this process may have set them up
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "disabled", False)
    logs.configure("debug")
    yield written
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.anyio
@pytest.mark.requirement("ARS-05")
async def test_nothing_confidential_reaches_a_log_line_or_an_error_body(
    service_url: str, tmp_path: Path, clock: FakeClock, logged: io.StringIO
) -> None:
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock) as context:
        both = peers(context)
        errors = await faults(both)
        tokens = [client.headers["authorization"].split(" ")[1] for client in (both.gate, both.resolver)]
        figures = (await exposition(context)).decode()
        await both.aclose()
    text = logged.getvalue()
    assert "arap_http_requests_total" in figures
    assert "task_submitted" in text
    assert len(errors) > 10
    assert "alice" not in figures  # nor anything else of a person
    for place in (text, figures, *errors):
        assert CANARY not in place
        assert not any(token in place or token.rpartition(".")[2] in place for token in tokens)


async def faults(both: Peers) -> list[str]:
    """The bodies of many errors, and one request that goes well, all of them carrying canaries."""
    asked = question()
    asked["context"]["urn:x-arap:tool_call"]["title"] = CANARY
    asked["context"]["justification"] = CANARY
    body = await both.denied(asked) | {
        "requested_access": {"x.example/why": CANARY},
        "client": {"name": CANARY},
        "callback": {"endpoint": f"https://{CANARY}.example/?token={CANARY}", "state": CANARY},
    }
    bodies = [await both.gate.post(REQUEST, json=body)]
    good = {name: value for name, value in body.items() if name != "callback"}
    accepted = await both.gate.post(REQUEST, json=good, headers={"Idempotency-Key": CANARY})
    assert accepted.status_code == 202
    task = accepted.json()["task"]
    token = good["denial"]["binding_token"]
    bodies += [
        await both.gate.post(REQUEST, json=good | {"client": {"name": "x"}}, headers={"Idempotency-Key": CANARY}),
        await both.gate.post(REQUEST, json=good | {"denial": good["denial"] | {"binding_token": token + CANARY}}),
        await both.gate.post(REQUEST, json=good | {"subject": CANARY}),
        await both.gate.post(REQUEST, content=f'{{"{CANARY}": {CANARY}'.encode(), headers=JSON),
        await both.gate.post(REQUEST, json=good, headers={"Idempotency-Key": f'"{CANARY}'}),
        await both.gate.post("/access/v1/evaluation", json={"subject": CANARY}),
        await both.gate.post("/access/v1/evaluation", content=f"[{CANARY}".encode(), headers=JSON),
        await both.gate.get(f"{REQUEST}/{CANARY}", headers={"Authorization": f"Bearer {CANARY}"}),
        await both.gate.get(f"{REQUEST}/{CANARY}"),
        await both.gate.get(f"/{CANARY}", params={"access_token": CANARY}),
        await both.gate.post(f"{REQUEST}/{task['id']}/report", json={"disposition": CANARY}),
        await both.resolver.get(f"{RESOLVER}/requests", params={"cursor": CANARY}),
        await both.resolver.get(f"{RESOLVER}/requests", params={"status": CANARY}),
        await both.resolver.post(f"{RESOLVER}/requests/{task['id']}/decisions", json={"decision": CANARY}),
        await both.gate.post("/issuer/token", data={"grant_type": CANARY, "client_id": "a", "client_secret": CANARY}),
    ]
    await both.resolver.get(f"{RESOLVER}/requests", params={"q": CANARY})
    await both.decide(task["id"], "deny", reason=CANARY)
    assert [response.status_code for response in bodies if response.status_code < 400] == []
    return [response.text for response in bodies]


JSON = {"Content-Type": "application/json"}


def test_exception_is_logged_by_its_type_and_place_and_never_by_what_it_says(logged: io.StringIO) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError:
        structlog.get_logger("arap").exception("round_failed", loop="x")
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    text = logged.getvalue()
    assert text.count("ValueError") == 2
    assert "test_canaries.py" in text
    assert CANARY not in text
