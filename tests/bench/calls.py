"""Tool calls that are permitted: what one costs beside the SDK's bare call, and beside another gateway."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.bench.figures import Figure, in_turns, quantile
from tests.bench.gates import RULES, gate, gateway, nobody, over_stdio, timed, tools_server
from tests.bench.peers import AUDIENCE, HANGAR_NAME, PeerMissing, caller, hangar
from tests.bench.service import service
from tests.bench.size import Size

ECHO: Final = ("echo", {"text": "hello"})
PERMITTED_MS: Final = {"embedded": 1.5, "gateway": 3.0}
Times = Mapping[str, Sequence[float]]


def permitted_calls(folder: Path, size: Size) -> Iterator[Figure]:
    """The same tool bare, behind the embedded gate, and behind a gateway over HTTP and over stdio; and mcp-hangar."""
    client, peer_name = caller(), f"{HANGAR_NAME}, its stores in memory, before the same server"
    with ExitStack() as stack:
        ours = stack.enter_context(service(folder / "service", rules=RULES, clients=[client]))
        bare = tools_server(stack, folder, "bare")
        signer = {"issuer": f"{ours.url}/issuer", "jwks_uri": f"{ours.url}/issuer/jwks.json"}
        identified = {"issuers": [signer], "resource": AUDIENCE}
        urls = {
            "bare": bare,
            "embedded": tools_server(stack, folder, "embedded", gate(folder / "embedded", ours, **nobody(ours))),
            "gateway-http": gateway(stack, folder / "gateway-http", ours, {"url": bare}, **nobody(ours)),
            "gateway-stdio": gateway(stack, folder / "gateway-stdio", ours, over_stdio(), **nobody(ours)),
            "gateway-bearer": gateway(stack, folder / "gateway-bearer", ours, {"url": bare}, **identified),
        }
        try:
            urls["hangar"] = hangar(stack, folder / "hangar", ours, bare)
        except PeerMissing as error:
            peer_name = str(error)
        token = ours.of(client).bearer()
        found = in_turns(
            tuple(urls), size.rounds, lambda name: asyncio.run(timed(urls[name], size.calls, [ECHO], token))
        )
    times = {name: [spent for spents in rounds for spent in spents] for name, rounds in found.items()}
    for name in ("embedded", "gateway-http", "gateway-stdio"):
        yield _beside_bare(name, times)
    yield _beside_hangar(times, peer_name)


def _beside_bare(name: str, times: Times) -> Figure:
    floor = quantile(times["bare"], 0.50)
    added = quantile(times[name], 0.50) - floor
    most = PERMITTED_MS[name.partition("-")[0]]
    return Figure(
        name=f"permitted_call_{name.replace('-', '_')}",
        unit="ms at p50",
        ours=quantile(times[name], 0.50),
        beside="floor",
        other=floor,
        goal=f"added_ms <= {most}",
        reached=added <= most,
        details={
            "added_ms": added,
            "p50_ms": quantile(times[name], 0.50),
            "p99_ms": quantile(times[name], 0.99),
            "floor_p99_ms": quantile(times["bare"], 0.99),
            "floor_name": "the SDK's call over HTTP, with nothing of ours",
            "connections": 1,
            "generator": "the SDK's client",
        },
    )


def _beside_hangar(times: Times, peer_name: str) -> Figure:
    """What two gateways add to a call of one server, for a caller with a token that both verify."""
    ours, floor, peer = times["gateway-bearer"], quantile(times["bare"], 0.50), times.get("hangar")
    added = {share: quantile(ours, share) - quantile(times["bare"], share) for share in (0.50, 0.95)}
    others = {
        share: None if peer is None else quantile(peer, share) - quantile(times["bare"], share) for share in added
    }
    return Figure(
        name="permitted_call_beside_hangar",
        unit="ms at p50",
        ours=quantile(ours, 0.50),
        beside="peer",
        other=None if peer is None else quantile(peer, 0.50),
        goal=f"added_ms <= peer_added_ms and added_ms <= {PERMITTED_MS['gateway']}",
        reached=None if others[0.50] is None else added[0.50] <= min(others[0.50], PERMITTED_MS["gateway"]),
        details={
            "added_ms": added[0.50],
            "added_p95_ms": added[0.95],
            "p50_ms": quantile(ours, 0.50),
            "p99_ms": quantile(ours, 0.99),
            "peer_added_ms": others[0.50],
            "peer_added_p95_ms": others[0.95],
            "peer_p99_ms": None if peer is None else quantile(peer, 0.99),
            "peer_name": peer_name,
            "floor_p50_ms": floor,
            "authentication": "bearer, a JWT of one issuer, verified by both",
            "decided_by": "ours asks a decision point of its own process over HTTP; the peer by roles in its memory",
            "connections": 1,
            "generator": "the SDK's client",
        },
    )
