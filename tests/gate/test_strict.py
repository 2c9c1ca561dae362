"""Messages that two parsers could read differently are refused at the front (RFC 7493; design section 2)."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.streams.text import TextReceiveStream

from mcp_gate.strict import refusal
from tests.gate.gateways import ROOT, HttpGateway, http_gateway, stdio_upstream
from tests.gate.world import META, VERSION, World

pytestmark = pytest.mark.anyio

ENVELOPE = json.dumps(
    {
        META + "protocolVersion": VERSION,
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "raw", "version": "1"},
    }
)


def calling(arguments: str, *, more: str = "") -> str:
    """A `tools/call` of `read` as text, so that it can say a thing twice."""
    params = f'{{"name": "read", "arguments": {arguments}, "_meta": {ENVELOPE}}}'
    return f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}{more}}}'


AMBIGUOUS = {
    "an argument twice": calling('{"account": "a1", "account": "canary"}'),
    "an argument twice, deep inside": calling('{"account": "a1", "x": [{"y": {"z": 1, "z": "canary"}}]}'),
    "the parameters twice": calling("{}", more=', "params": {"name": "wire"}'),
    "no number": calling('{"account": NaN}'),
    "a number that overflows": calling('{"account": 1e999}'),
    "half a surrogate pair": calling('{"account": "\\ud800"}'),
    "too deep": calling('{"account": ' + "[" * 130 + "]" * 130 + "}"),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
async def gateway(world: World) -> AsyncIterator[HttpGateway]:
    async with http_gateway(world) as served:
        yield served


async def post(gateway: HttpGateway, body: bytes, *, token: str | None, chunks: int = 1) -> httpx2.Response:
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "read",
        **({} if token is None else {"authorization": f"Bearer {token}"}),
    }
    size = -(-len(body) // chunks)

    async def content() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async with httpx2.AsyncClient(timeout=20) as http:
        return await http.post(gateway.url, content=content(), headers=headers)


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_an_ambiguous_message_over_http_is_refused_and_nobody_is_asked(
    gateway: HttpGateway, world: World, name: str
) -> None:
    answer = await post(gateway, AMBIGUOUS[name].encode(), token=gateway.issuer.token(), chunks=3)
    assert answer.status_code == 400
    shown = answer.json()
    assert (shown["jsonrpc"], shown["id"], shown["error"]["code"]) == ("2.0", 7, -32600)
    assert "canary" not in answer.text
    assert world.service.received == []


async def test_what_is_unambiguous_passes_whole(gateway: HttpGateway) -> None:
    answer = await post(
        gateway, calling('{"account": "é\\ud83d\\ude00"}').encode(), token=gateway.issuer.token(), chunks=5
    )
    assert answer.json()["result"]["structuredContent"]["account"] == "é\U0001f600"


@pytest.mark.requirement("PEP-16")
async def test_a_caller_without_a_token_learns_nothing_about_its_message(gateway: HttpGateway) -> None:
    assert (await post(gateway, AMBIGUOUS["an argument twice"].encode(), token=None)).status_code == 401


async def test_a_body_beyond_the_limit_is_too_large_before_it_is_ambiguous(world: World) -> None:
    async with http_gateway(world, limits={"argument_bytes": 1000}) as gateway:
        body = calling('{"account": "%s"}' % ("x" * 70_000)).encode()
        answer = await post(gateway, body, token=gateway.issuer.token(), chunks=4)
    assert answer.status_code == 413


@pytest.mark.parametrize("text", ["{", "[]", '"text"', "\xff", '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'])
def test_what_is_no_json_or_nothing_special_is_left_to_the_sdk(text: str) -> None:
    assert refusal(text.encode("latin-1")) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"id": "a", "method": "m", "x": 1, "x": 2}', "a"),
        ('{"id": true, "method": "m", "x": 1, "x": 2}', None),
        ('{"id": 7, "result": {"x": 1, "x": 2}}', None),
        ('[{"id": 7, "id": 8, "method": "m"}]', None),
    ],
)
def test_a_refusal_names_the_request_where_there_is_one(text: str, named: Any) -> None:
    refused = refusal(text)
    assert refused is not None
    assert refused.id == named


async def test_over_stdio_the_refused_caller_is_told_and_the_next_message_is_served(tmp_path: Path) -> None:
    config = tmp_path / "gate.yaml"
    document = {
        "server_name": "treasury",
        "backend": {"identifier": "https://127.0.0.1:9", "idempotency_retention_seconds": 86_400},
        "upstream": stdio_upstream(tmp_path),
        "front": {"stdio": True},
        "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
        "database": f"sqlite:///{tmp_path}/gate.sqlite",
        "key_file": str(tmp_path / "keys.yaml"),
    }
    config.write_text(json.dumps(document))
    listing = f'{{"jsonrpc": "2.0", "id": 8, "method": "tools/list", "params": {{"_meta": {ENVELOPE}}}}}'
    with anyio.fail_after(60):
        async with await anyio.open_process(
            [sys.executable, "-m", "mcp_gate", "proxy", "--config", str(config)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send(f"{AMBIGUOUS['an argument twice']}\n{listing}\n".encode())
            told = ""
            async for text in TextReceiveStream(process.stdout):
                told += text
                if told.count("\n") >= 2:
                    break
            await process.stdin.aclose()
            assert await process.wait() == 0
    answers = {answer["id"]: answer for answer in map(json.loads, told.splitlines())}
    assert answers[7]["error"]["code"] == -32600
    assert {tool["name"] for tool in answers[8]["result"]["tools"]} >= {"wire", "read"}
    assert "canary" not in told
