"""The pipe of `fairlead mcp`: lines in, answers out, whatever the client or the gateway does."""

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.mcp_pipe import MOST_REQUESTS, McpPipe, headers_of, lines_of
from fairlead.cli.session_process import session_endpoint
from fairlead.client.errors import Unreachable
from fairlead.clients.mcp import rpc
from fairlead.clients.mcp.endpoint import BODY_LIMIT
from patience import PATIENCE


class FakeEndpoint:
    """Answers each message with its method; `hold` keeps the answers back."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes | None = None
        self.down = False
        self.most = 0
        self.open = 0
        self.headers: list[Mapping[str, str]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def post(self, message: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        self.headers.append(headers)
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await self.go.wait()
        finally:
            self.open -= 1
        if self.down:
            raise Unreachable("No gateway answers.")
        given = json.loads(message)
        if "id" not in given:
            return 202, b""
        if self.body is not None:
            return self.status, self.body
        return self.status, json.dumps({"jsonrpc": "2.0", "id": given["id"], "result": given["method"]}).encode()


async def run(endpoint: FakeEndpoint, *lines: Any, denied: str = "") -> list[Any]:
    written: list[bytes] = []
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    pipe = McpPipe(endpoint.post, written.append, denied)
    await asyncio.wait_for(pipe.run(lines_of(io.BytesIO(b"".join(raw)))), PATIENCE)
    assert not any(b"\n" in line for line in written)
    return [json.loads(line) for line in written]


def request(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def test_each_request_is_answered_and_a_notification_is_not() -> None:
    answers = await run(
        FakeEndpoint(), request("a"), {"jsonrpc": "2.0", "method": "notifications/x"}, request("b", "2")
    )
    assert sorted((answer["result"], answer["id"]) for answer in answers) == [("a", 1), ("b", "2")]


async def test_lines_that_are_no_messages_are_answered_with_errors_and_the_pipe_goes_on() -> None:
    long = json.dumps(request("x" * (BODY_LIMIT + 10))).encode() + b"\n"
    answers = await run(FakeEndpoint(), b"{\n", b"\n", b"[]\n", b"\xff\xfe\n", request("a"))
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32700, -32600, -32700, None]
    assert (await run(FakeEndpoint(), long, request("a")))[-1]["result"] == "a"


async def test_without_a_gateway_each_request_gets_an_error_with_its_id() -> None:
    endpoint = FakeEndpoint()
    endpoint.down = True
    answers = await run(endpoint, request("a", 7), {"jsonrpc": "2.0", "method": "notifications/x"})
    assert [(answer["id"], answer["error"]["message"]) for answer in answers] == [(7, "No gateway answers.")]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": {"code": "x"}}'])
async def test_an_answer_that_is_not_json_rpc_becomes_an_error(body: bytes) -> None:
    endpoint = FakeEndpoint()
    endpoint.status, endpoint.body = 502, body
    assert (await run(endpoint, request("a")))[0]["error"]["message"] == "The gateway answered 502."


async def test_a_refusal_of_the_gate_gets_the_id_and_the_advice() -> None:
    endpoint = FakeEndpoint()
    endpoint.status = 403
    endpoint.body = rpc.error_response(rpc.McpError(rpc.INVALID_REQUEST, "This needs the scope view.")).body
    (answer,) = await run(endpoint, request("a", 3))
    assert answer["id"] == 3 and answer["error"]["message"] == "This needs the scope view."
    assert (await run(endpoint, request("a"), denied="Set it."))[0]["error"]["message"] == "Set it."


async def test_the_number_of_requests_in_flight_is_bounded() -> None:
    endpoint = FakeEndpoint()
    endpoint.go.clear()
    running = asyncio.ensure_future(run(endpoint, *(request("a", number) for number in range(3 * MOST_REQUESTS))))
    while endpoint.open < MOST_REQUESTS:
        await asyncio.sleep(0.001)
    endpoint.go.set()
    assert len(await running) == 3 * MOST_REQUESTS and endpoint.most == MOST_REQUESTS


async def test_a_cancelled_request_is_not_answered() -> None:
    endpoint = FakeEndpoint()
    endpoint.go.clear()
    written: list[bytes] = []
    pipe = McpPipe(endpoint.post, written.append)
    waiting: asyncio.Queue[bytes] = asyncio.Queue()

    async def lines() -> AsyncIterator[bytes]:
        while line := await waiting.get():
            yield line

    running = asyncio.ensure_future(pipe.run(lines()))
    waiting.put_nowait(json.dumps(request("slow", 5)).encode())
    while not endpoint.open:
        await asyncio.sleep(0.001)
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    for line in (json.dumps(cancelled).encode(), json.dumps(request("next", 6)).encode(), b""):
        waiting.put_nowait(line)
    while len(endpoint.headers) < 3:
        await asyncio.sleep(0.001)
    endpoint.go.set()
    await asyncio.wait_for(running, PATIENCE)
    assert [json.loads(line)["id"] for line in written] == [6]


def test_the_headers_repeat_the_fields_of_a_modern_request() -> None:
    meta = {rpc.VERSION_FIELD: "2026-07-28"}
    assert headers_of(request("tools/list")) == {}
    assert headers_of(request("tools/list", _meta=meta)) == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
    }
    assert headers_of(request("tools/call", name="ä", _meta=meta))["mcp-name"] == "=?base64?w6Q=?="
    assert "mcp-method" not in headers_of(request("a\r\nx: y", _meta=meta))
    assert headers_of({"method": "x", "params": []}) == {}


def test_inside_a_session_the_sessions_own_token_is_used() -> None:
    env = {"FAIRLEAD_SESSION_URL": "http://127.0.0.1:1/", "FAIRLEAD_SESSION_TOKEN": "own", "FAIRLEAD_TOKEN": "admins"}
    found = session_endpoint(env)
    assert found is not None and (found.url, found.token) == ("http://127.0.0.1:1", "own")
    assert session_endpoint({"FAIRLEAD_TOKEN": "admins"}, Path("/nowhere")) is None


def test_an_agent_that_hides_its_variables_from_its_servers_is_found_by_its_processes(tmp_path: Path) -> None:
    """The process above this one has no variables, the one above it belongs to another user, the next has them."""

    def process(number: int, parent: int, environ: bytes | None) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "stat").write_text(f"{number} (a (b) c) S {parent} 1 1")
        if environ is not None:
            (folder / "environ").write_bytes(environ)

    process(os.getppid(), 10_000_002, b"PATH=/bin\0odd\0\xff=\xff\0")
    process(10_000_002, 10_000_003, None)
    assert session_endpoint({}, tmp_path) is None
    process(10_000_003, 1, b"A=b\0FAIRLEAD_SESSION_URL=http://127.0.0.1:1\0FAIRLEAD_SESSION_TOKEN=own\0")
    found = session_endpoint({"FAIRLEAD_TOKEN": "admins"}, tmp_path)
    assert found is not None and found.token == "own"
    (tmp_path / "10000003" / "environ").write_bytes(b"FAIRLEAD_SESSION_TOKEN=own\0")
    (tmp_path / "10000003" / "stat").write_text("10000003 (x) S 10000003 1 1")
    assert session_endpoint({}, tmp_path) is None, "it ends, whatever the table says"
