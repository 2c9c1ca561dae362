"""Evaluations per second, permit and deny: beside Cerbos without tokens, beside an empty endpoint with tokens."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.bench.cerbos import VERSION, PeerMissing, cerbos
from tests.bench.figures import Figure, Load, in_turns, rate, summary
from tests.bench.load import LoadFailed, Post, repeater
from tests.bench.servers import free_port, python, running
from tests.bench.service import EVALUATION, as_json, service
from tests.bench.size import Size

CONNECTIONS: Final = 16
RULES: Final = "evaluation_rules.yaml"
AMOUNTS: Final = {"permit": 12_000, "deny": 50_000}


def question(amount: int) -> bytes:
    """One evaluation request that both decision points understand; Cerbos reads the roles, we do not."""
    asked: dict[str, Any] = {
        "subject": {
            "type": "user",
            "id": "priya@treasury.example",
            "properties": {"department": "treasury", "roles": ["clerk"], "cerbos.roles": ["clerk"]},
        },
        "resource": {"type": "account", "id": "4711", "properties": {"amount": amount, "currency": "USD"}},
        "action": {"name": "transfer"},
        "context": {"channel": "agent"},
    }
    return as_json(asked)


def beside_cerbos(folder: Path, size: Size) -> Iterator[Figure]:
    """Both decision points without authentication."""
    with ExitStack() as stack:
        ours = stack.enter_context(service(folder / "ours", rules=RULES, authenticated=False)).url
        bases = {"ours": ours + EVALUATION}
        missing = None
        try:
            bases["peer"] = stack.enter_context(cerbos(folder, install=size.install)) + EVALUATION
        except PeerMissing as error:
            missing = str(error)
            print(missing, file=sys.stderr)
        for kind, amount in AMOUNTS.items():
            posts = {name: Post(url, question(amount)) for name, url in bases.items()}
            for post in posts.values():
                require(post, decision=kind == "permit")
            generator, found = _measured(posts, size)
            peer = f"Cerbos {VERSION}" if missing is None else f"missing: {missing}"
            yield _beside_cerbos(kind, found, peer_name=peer, generator=generator)


def _beside_cerbos(kind: str, found: dict[str, list[Load]], *, peer_name: str, generator: str) -> Figure:
    ours, ours_rate = summary(found["ours"]), rate(found["ours"])
    peer, peer_rate, reached = None, None, None
    if "peer" in found:
        peer, peer_rate = summary(found["peer"]), rate(found["peer"])
        reached = ours_rate >= peer_rate and ours.p99_ms <= peer.p99_ms
    return Figure(
        name=f"evaluation_{kind}",
        unit="evaluations/s",
        ours=ours_rate,
        beside="peer",
        other=peer_rate,
        goal="ratio >= 1.0 and p99_ms <= peer_p99_ms",
        reached=reached,
        details={
            "p50_ms": ours.p50_ms,
            "p99_ms": ours.p99_ms,
            "peer_p50_ms": None if peer is None else peer.p50_ms,
            "peer_p99_ms": None if peer is None else peer.p99_ms,
            "peer_name": peer_name,
            "authentication": "none",
            "connections": CONNECTIONS,
            "generator": generator,
        },
    )


def beside_empty(folder: Path, size: Size) -> Iterator[Figure]:
    """Evaluations with bearer tokens beside an endpoint of FastAPI that does nothing, served the same way."""
    port = free_port()
    floor = f"http://127.0.0.1:{port}/"
    command = python("-m", "tests.bench.serve", "empty", str(port))
    with (
        service(folder / "bearer", rules=RULES) as ours,
        running(command, ready=floor, log=folder / "empty.log"),
    ):
        for kind, amount in AMOUNTS.items():
            posts = {
                "ours": Post(ours.url + EVALUATION, question(amount), ours.bearer()),
                "floor": Post(floor, question(amount)),
            }
            require(posts["ours"], decision=kind == "permit")
            generator, found = _measured(posts, size)
            load, empty = summary(found["ours"]), summary(found["floor"])
            yield Figure(
                name=f"evaluation_{kind}_bearer",
                unit="evaluations/s",
                ours=rate(found["ours"]),
                beside="floor",
                other=rate(found["floor"]),
                goal="ratio >= 0.7",
                reached=rate(found["ours"]) >= 0.7 * rate(found["floor"]),
                details={
                    "p50_ms": load.p50_ms,
                    "p99_ms": load.p99_ms,
                    "floor_p50_ms": empty.p50_ms,
                    "floor_p99_ms": empty.p99_ms,
                    "floor_name": "an empty FastAPI endpoint",
                    "authentication": "bearer",
                    "connections": CONNECTIONS,
                    "generator": generator,
                },
            )


def _measured(posts: dict[str, Post], size: Size) -> tuple[str, dict[str, list[Load]]]:
    generator, repeat = repeater(CONNECTIONS)
    for post in posts.values():
        repeat(post, size.warm_seconds)
    return generator, in_turns(tuple(posts), size.rounds, lambda name: repeat(posts[name], size.seconds))


def require(post: Post, *, decision: bool) -> None:
    """Refuse to measure a decision point that does not decide as it should.

    Raises:
        LoadFailed: It decided otherwise, or not at all.
    """
    headers = {"Content-Type": "application/json", **post.headers}
    answer = httpx2.post(post.url, content=post.body, headers=headers, trust_env=False)
    if answer.status_code != 200 or answer.json().get("decision") is not decision:
        raise LoadFailed(f"{post.url} answered {answer.status_code} and did not decide {decision}")
