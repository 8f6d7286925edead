"""A whole gateway and a scripted CLI that dials in over a real socket: cuts, repeats, posts, TLS, wrong tokens."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from e2e.gateway_harness import GatewayHarness, Line, open_gateway, settings
from fairlead.wiring import running
from local_http import local_client

pytestmark = pytest.mark.process

TLS = Path(__file__).parents[2] / "server" / "tls"
VERSION = "2.1.120"


@pytest.fixture
def options() -> Line:
    """Settings of the gateway; a test sets its own by parametrizing this fixture."""
    return {}


@pytest.fixture
async def harness(tmp_path: Path, options: Line) -> AsyncIterator[GatewayHarness]:
    """Run a gateway whose CLI program only prints a version: the test plays the CLI."""
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho '{VERSION} (Claude Code)'\n")
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(program), **options)
    async with open_gateway(config, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, work) as opened:
        yield opened


class Cli:
    """The CLI's side: connect with its token, answer `initialize`, send numbered messages."""

    def __init__(self, url: str, token: str, context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.token = token
        self.got: list[Line] = []
        self.sent: list[Line] = []
        self._context = context
        self._socket: ClientConnection | None = None

    @property
    def socket(self) -> ClientConnection:
        assert self._socket is not None
        return self._socket

    async def come(self, last: str = "", **headers: str) -> "Cli":
        request_headers = (
            {"Authorization": f"Bearer {self.token}"} | ({"X-Last-Request-Id": last} if last else {}) | headers
        )
        self._socket = await connect(self.url, additional_headers=request_headers, ssl=self._context)
        return self

    async def drop(self) -> None:
        self.socket.transport.abort()
        with contextlib.suppress(ConnectionClosed):
            await self.socket.wait_closed()

    async def receive(self) -> Line:
        """Return the next line of the gateway. Frames end with exactly one newline."""
        frame = str(await self.socket.recv())
        assert frame.endswith("\n") and frame.count("\n") == 1
        self.got.append(json.loads(frame))
        return self.got[-1]

    async def say(self, *messages: Line) -> None:
        self.sent.extend(messages)
        await self.socket.send("".join(json.dumps(message) + "\n" for message in messages))

    async def start(self) -> None:
        asked = await self.receive()
        assert asked["request"]["subtype"] == "initialize"
        await self.say(
            {"type": "control_response", "response": {"subtype": "success", "request_id": asked["request_id"]}}
        )

    async def replay(self) -> None:
        """Send all messages with an id again, as 2.1.120 does at every reconnect."""
        await self.socket.send("".join(json.dumps(m) + "\n" for m in self.sent if m.get("uuid")))


async def invited(harness: GatewayHarness, context: ssl.SSLContext | None = None) -> Cli:
    await harness.open()
    invitation: Line = (await harness.http.post(f"/v1/sessions/{harness.session}/dial-in")).json()
    return Cli(invitation["url"], invitation["token"], context)


def message(name: str, session: str, words: str = "") -> Line:
    body = {"id": f"m-{name}", "role": "assistant", "content": [{"type": "text", "text": words or name}]}
    return {"type": "assistant", "uuid": name, "session_id": session, "parent_tool_use_id": None, "message": body}


def init(session: str) -> Line:
    fields = {"model": "opus", "permissionMode": "default", "cwd": "/", "tools": [], "claude_code_version": VERSION}
    return {"type": "system", "subtype": "init", "uuid": "u-init", "session_id": session, **fields}


def result(session: str) -> Line:
    ended = {"subtype": "success", "is_error": False, "num_turns": 1, "result": "done", "total_cost_usd": 0.1}
    return {"type": "result", "uuid": "u-result", "session_id": session, **ended}


def turn(harness: GatewayHarness, count: int) -> list[Line]:
    messages = [message(f"u-{number}", harness.session) for number in range(count)]
    return [init(harness.session), *messages, result(harness.session)]


async def prompted(harness: GatewayHarness, cli: Cli) -> str:
    await cli.start()
    name = await harness.send("go")
    assert (await cli.receive())["uuid"] == name
    return name


@pytest.mark.rules("S004-278", "S004-279")
@pytest.mark.parametrize("cut", range(7))
async def test_a_cut_after_any_message_loses_and_repeats_nothing(harness: GatewayHarness, cut: int) -> None:
    cli = await (await invited(harness)).come()
    name = await prompted(harness, cli)
    story = turn(harness, 4)
    await cli.say(*story[:cut])
    await cli.drop()
    cli.sent = list(story)
    await cli.come(story[-1]["uuid"])
    await cli.replay()
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert harness.texts() == [f"u-{number}" for number in range(4)]
    assert [line["message"] for line in harness.all("user.message")] == [name]
    assert len(harness.all("turn.ended")) == len(harness.all("agent.ready")) == len(harness.all("agent.started")) == 1
    await harness.raw()


@pytest.mark.rules("S004-278", "S004-306")
async def test_only_a_prompt_that_was_lost_in_the_drop_is_sent_again(
    harness: GatewayHarness,
) -> None:
    cli = await (await invited(harness)).come()
    await prompted(harness, cli)
    await cli.say(init(harness.session), result(harness.session))
    await harness.until("turn.ended")
    await cli.drop()
    second = await harness.send("two")
    await cli.come("u-result")
    # The first prompt was followed by a ping, and its answer came before the CLI's later messages.
    assert (await cli.receive())["uuid"] == second


@pytest.mark.rules("S004-290")
async def test_a_repeated_post_takes_effect_once(harness: GatewayHarness) -> None:
    cli = await (await invited(harness)).come()
    await prompted(harness, cli)
    url = f"{harness.gateway.url}/v1/cli/session/{harness.session}/events"
    asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "rm x"}, "tool_use_id": "t1"}
    request = {"type": "control_request", "request_id": "r1", "request": asked}
    async with local_client(headers={"Authorization": f"Bearer {cli.token}"}) as poster:
        for events in ([init(harness.session), message("u-0", harness.session)], [request], [result(harness.session)]):
            for _ in range(3):
                answer = await poster.post(url, content=json.dumps({"events": events}, indent=1))
                assert (answer.status_code, answer.json()) == (200, {})
        for bad in (b"", b"{", b'{"events":1}'):
            assert (await poster.post(url, content=bad)).status_code == 400
    await harness.until("turn.ended")
    assert (harness.texts(), len(harness.all("permission.asked")), len(harness.all("turn.ended"))) == (["u-0"], 1, 1)
    await harness.raw()


@pytest.mark.rules("S004-005")
@pytest.mark.parametrize("options", [{"tls_cert": str(TLS / "cert.pem"), "tls_key": str(TLS / "key.pem")}])
async def test_the_cli_dials_in_over_tls(tmp_path: Path, options: Line) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\necho '{VERSION} (Claude Code)'\n")
    program.chmod(0o755)
    trusting = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
    trusting.check_hostname = False
    config = settings(tmp_path / "data", tmp_path, agent="claude", claude=str(program), **options)
    async with running(config, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}) as gateway:
        headers = {"Authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, verify=trusting) as http:
            session = (await http.post("/v1/sessions", json={"cwd": str(tmp_path)})).json()["session"]
            invitation = (await http.post(f"/v1/sessions/{session}/dial-in")).json()
            assert invitation["url"].startswith("wss://127.0.0.1:")
            cli = await Cli(invitation["url"], invitation["token"], trusting).come()
            await cli.start()
            await http.post(f"/v1/sessions/{session}/messages", json={"text": "go"})
            assert (await cli.receive())["type"] == "user"


async def test_the_token_is_valid_only_for_this_door_and_until_the_agent_ends(harness: GatewayHarness) -> None:
    cli = await invited(harness)
    for wrong in ("", "Bearer", "Bearer wrong", f"Bearer {harness.gateway.token}"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(cli.url, additional_headers={"Authorization": wrong} if wrong else {})
        assert refused.value.response.status_code == (403 if harness.gateway.token in wrong else 401)
    async with local_client(headers={"Authorization": f"Bearer {cli.token}"}) as thief:
        assert (await thief.get(f"{harness.gateway.url}/v1/sessions")).status_code == 401
    await cli.come()
    await cli.start()
    await harness.until("agent.started")
    await harness.do("close")
    await harness.until("agent.exited")
    with pytest.raises(ConnectionClosed) as closed:
        await cli.receive()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4001
    with pytest.raises(InvalidStatus) as refused:
        await cli.come()
    assert refused.value.response.status_code == 401


async def test_a_foreign_origin_is_refused_even_with_the_token(harness: GatewayHarness) -> None:
    cli = await invited(harness)
    with pytest.raises(InvalidStatus) as refused:
        await cli.come(Origin="http://evil.example")
    assert refused.value.response.status_code == 403


async def test_invalid_data_on_the_socket_is_stored_and_harmless(harness: GatewayHarness) -> None:
    cli = await (await invited(harness)).come()
    await prompted(harness, cli)
    await cli.socket.send('\n\nnot json\n{"type":"of tomorrow","uuid":"u-t"}\n')
    await cli.socket.send(b"\x00\xff\n")
    await cli.socket.send("")
    await cli.say(*turn(harness, 1))
    assert (await harness.until("turn.ended"))["status"] == "completed"
    assert harness.texts() == ["u-0"]
    kept: list[Any] = [line.get("record") for line in harness.all("record") if line.get("known") is False]
    assert kept == ["garbage", "of tomorrow", "garbage"]
