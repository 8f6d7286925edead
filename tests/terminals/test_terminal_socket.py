"""A terminal on the native socket, over the real server and with real programs."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from fairlead.clients.native.terminal import MESSAGE_LIMIT, NativeTerminalCodec, TerminalConversation
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import AttachOwner, CloseSocket, Handshake, RunFlow, Write
from fairlead.server.sockets import REVOKED
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.terminals.api import FoundUrl, Program, Size, Terminal, TerminalOutput, session_terminal
from fairlead.terminals.attachment import UNSENT_BYTES, UNTYPED_BYTES, SocketAttachment, TerminalActions
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.screen.emulator import Emulator
from patience import PATIENCE
from server.fakes import OTHER, SESSION, Served, serving, until

pytestmark = pytest.mark.process

ENV = {"PATH": os.environ.get("PATH", os.defpath), "PS1": "$ "}


class TerminalHarness:
    def __init__(self, served: Served, terminals: TerminalRegistry) -> None:
        self.served = served
        self.terminals = terminals

    async def open(self, script: str = "", session: SessionId = SESSION) -> Terminal:
        argv = ["/bin/sh", *(["-c", script] if script else ["-i"])]
        return await self.terminals.open(
            session_terminal(session), Program(argv=argv, env=ENV, cwd="/", size=Size(40, 5))
        )

    @contextlib.asynccontextmanager
    async def join(self, token: str = "", session: str = SESSION) -> AsyncIterator["Client"]:
        url = f"{self.served.ws}/v1/sessions/{session}/terminal"
        headers = {"authorization": f"Bearer {token or self.served.admin}"}
        async with connect(url, additional_headers=headers, compression=None, proxy=None, max_size=None) as socket:
            yield Client(socket)


class Client:
    """Collects text frames in order, and shows binary frames on a screen."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.messages: list[dict[str, Any]] = []
        self.screen = Emulator(40, 5)

    async def say(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def receive(self) -> dict[str, Any] | None:
        """The next frame if it is a text frame; None for a binary one."""
        frame = await asyncio.wait_for(self.socket.recv(), PATIENCE)
        if isinstance(frame, bytes):
            self.screen.feed(frame)
            return None
        self.messages.append(json.loads(frame))
        if self.messages[-1]["type"] == "size":
            self.screen.resize(self.messages[-1]["cols"], self.messages[-1]["rows"])
        return self.messages[-1]

    async def wait_for(self, kind: str) -> dict[str, Any]:
        while (frame := await self.receive()) is None or frame["type"] != kind:
            pass
        return frame

    async def closed(self) -> int:
        """The code that the server closes with."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else 0

    async def wait_for_text(self, text: str) -> None:
        while not any(text in line for line in self.screen.lines()):
            await self.receive()


@pytest.fixture
async def harness() -> AsyncIterator[TerminalHarness]:
    terminals = TerminalRegistry(SystemClock(), 4, StopTimeouts(close=1, terminate=1))
    async with serving(performers=TerminalActions(terminals).handlers()) as served:
        yield TerminalHarness(served, terminals)
        await terminals.close()


async def test_user_watches_and_types(harness: TerminalHarness) -> None:
    await harness.open()
    async with harness.join() as client:
        await client.wait_for_text("$")
        assert client.messages == [{"type": "size", "cols": 40, "rows": 5}]
        await client.say(type="input", data="echo $((6 * 7)) é\r")
        await client.wait_for_text("42 é")
        await client.say(type="ping")
        await client.wait_for("pong")


async def test_size_is_sent_and_the_screen_is_redrawn_for_it(harness: TerminalHarness) -> None:
    await harness.open("echo hello; read x; stty size; read x")
    async with harness.join() as client, harness.join() as other:
        await client.wait_for_text("hello")
        await other.wait_for_text("hello")
        await client.say(type="resize", cols=30, rows=4)
        assert (await other.wait_for("size")) == {"type": "size", "cols": 30, "rows": 4}
        assert (await other.receive()) == {"type": "redraw"}
        assert (await other.receive()) is None
        await client.say(type="input", data="\r")
        await other.wait_for_text("4 30")


async def test_exit_is_sent(harness: TerminalHarness) -> None:
    await harness.open("read x; exit 3")
    async with harness.join() as client:
        await client.receive()
        await client.say(type="input", data="\r")
        assert await client.wait_for("exit") == {"type": "exit", "code": 3, "signal": None}
        assert await client.closed() == 1000
    async with harness.join() as late:
        assert await late.wait_for("exit") == {"type": "exit", "code": 3, "signal": None}


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("what?", "bad_frame"),
        (b"\xff\xfe", "bad_frame"),
        ("[1]", "bad_frame"),
        ("{}", "bad_frame"),
        ('{"type":"paste"}', "unknown_type"),
        ('{"type":"input"}', "bad_request"),
        ('{"type":"input","data":7}', "bad_request"),
        ('{"type":"input","data":"x","to":"you"}', "unknown_field"),
        ('{"type":"resize","cols":0,"rows":5}', "bad_request"),
        ('{"type":"resize","cols":"9","rows":5}', "bad_request"),
        ('{"type":"resize","cols":100000,"rows":5}', "bad_request"),
    ],
)
async def test_a_bad_frame_is_answered_and_ends_nothing(
    harness: TerminalHarness, frame: str | bytes, code: str
) -> None:
    await harness.open()
    async with harness.join() as client:
        await client.socket.send(frame)
        assert (await client.wait_for("error"))["code"] == code
        await client.say(type="input", data="echo on\r")
        await client.wait_for_text("on")


async def test_a_session_without_a_terminal_is_refused_before_the_upgrade(harness: TerminalHarness) -> None:
    await harness.open()
    for session, status in ((OTHER, 404), ("not-an-id", 400)):
        with pytest.raises(InvalidStatus) as refused:
            async with harness.join(session=session):
                pass
        assert refused.value.response.status_code == status


async def test_scope_terminal_is_required(harness: TerminalHarness) -> None:
    await harness.open()
    chatting = await harness.served.token("view", "chat", "approve", name="chatting")
    with pytest.raises(InvalidStatus) as refused:
        async with harness.join(chatting):
            pass
    assert refused.value.response.status_code == 403
    async with harness.served.client(chatting) as http:
        assert (await http.get(f"/v1/sessions/{SESSION}/terminal")).status_code == 403
    typing = await harness.served.token("terminal", name="typing")
    async with harness.join(typing) as client:
        await client.wait_for_text("$")


async def test_socket_of_a_revoked_credential_is_closed(harness: TerminalHarness) -> None:
    terminal = await harness.open()
    token = await harness.served.token("terminal", name="typing")
    async with harness.join(token) as client:
        await client.wait_for_text("$")
        await client.say(type="resize", cols=20, rows=4)
        await client.wait_for("size")
        await harness.served.credentials.revoke("token", harness.served.tokens["typing"])
        assert await client.closed() == REVOKED
    await until(lambda: terminal.screen.size == Size(40, 5))


async def test_message_size_is_limited(harness: TerminalHarness) -> None:
    await harness.open()
    async with harness.join() as client:
        await client.wait_for_text("$")
        await client.socket.send(json.dumps({"type": "input", "data": "x" * MESSAGE_LIMIT}))
        assert await client.closed() == 1009


async def test_screen_can_be_read_by_scripts(harness: TerminalHarness) -> None:
    terminal = await harness.open("printf 'hello\\r\\n$ '; read x; exit 2")
    while "hello" not in terminal.screen.lines:
        await terminal.changed(terminal.screen.version)
    path = f"/v1/sessions/{SESSION}/terminal"
    async with harness.served.client() as http:
        shown = (await http.get(path)).json()
        while shown["row"] == 0 or shown["column"] < 2:
            shown = (await http.get(path)).json()
        assert shown == {
            "running": True,
            "size": {"columns": 40, "rows": 5},
            "lines": ["hello", "$", "", "", ""],
            "row": 1,
            "column": 2,
            "exit": None,
        }
        await terminal.write(b"\r")
        await terminal.wait()
        shown = (await http.get(path)).json()
        assert shown["running"] is False and shown["exit"]["code"] == 2
        missing = await http.get(f"/v1/sessions/{OTHER}/terminal")
        assert missing.status_code == 404
        assert missing.json()["error"]["message"] == f"There is no terminal of session {OTHER}."


# --- the socket owner, with a fake socket handle


class HeldWire:
    """Implements `model.web.sockets.SocketHandle`; sent frames wait until the test releases them."""

    def __init__(self) -> None:
        self.sent = b""
        self.waiting = 0
        self.paused = False
        self.closed: int | None = None

    def send(self, frames: bytes) -> None:
        self.sent += frames
        self.waiting += len(frames)

    def backlog(self) -> int:
        return self.waiting

    def probe(self, answered: Any) -> None:
        answered()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self, code: int, reason: str) -> None:
        self.closed = code


async def test_nothing_more_is_sent_to_a_client_that_does_not_read(harness: TerminalHarness) -> None:
    terminal = await harness.open("read x; seq 100000; echo done; read x")
    wire, holder = HeldWire(), SocketAttachment(terminal, NativeTerminalCodec(), "slow")
    holder.attached(wire)
    await terminal.write(b"\r")
    while not any("done" in line for line in terminal.screen.lines):
        await terminal.changed(terminal.screen.version)
    # The limit is checked per piece, and a piece may be as large as the buffer of a watcher.
    assert wire.waiting < 4 * UNSENT_BYTES
    wire.waiting, before = 0, len(wire.sent)
    holder.drained()
    await until(lambda: b'{"type":"redraw"}' in wire.sent[before:] and b"done" in wire.sent[before:])
    holder.detached(1000, "")


async def test_program_that_does_not_read_pauses_the_client(harness: TerminalHarness) -> None:
    terminal = await harness.open("stty raw -echo; echo ready; read x </dev/null; sleep 600")
    wire, holder = HeldWire(), SocketAttachment(terminal, NativeTerminalCodec(), "eager")
    holder.attached(wire)
    while "ready" not in terminal.screen.lines:
        await terminal.changed(terminal.screen.version)
    keys = json.dumps({"type": "input", "data": "k" * (UNTYPED_BYTES // 2)}).encode()
    for _ in range(100):
        if wire.paused:
            break
        holder.received(keys, False)
        await asyncio.sleep(0)
    assert wire.paused
    await terminal.stop()
    await until(lambda: b"agent_gone" in wire.sent and wire.closed == 1000)
    holder.detached(1000, "")


async def test_socket_is_closed_when_encoding_its_output_fails(
    harness: TerminalHarness, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(NativeTerminalCodec):
        def output(self, output: TerminalOutput) -> bytes:
            raise RuntimeError("not today")

    terminal = await harness.open()
    wire, holder = HeldWire(), SocketAttachment(terminal, Broken(), "unlucky")
    holder.attached(wire)
    await until(lambda: wire.closed == 1011)
    assert "not today" in caplog.text
    holder.detached(1011, "")


def opening() -> Handshake:
    who = Identity("c", "u", "n", frozenset({"terminal"}))
    head = Head(method="GET", path="/")
    return Handshake(head=head, who=who, version="1", fresh=lambda: "f", params={"session": SESSION})


async def test_input_sent_before_the_terminal_is_found_is_not_lost(harness: TerminalHarness) -> None:
    terminal = await harness.open()
    async with asyncio.timeout(PATIENCE):
        await _early(terminal)


async def _early(terminal: Terminal) -> None:
    conversation = TerminalConversation(opening())
    (run,) = conversation.opened()
    assert isinstance(run, RunFlow)
    next(run.flow)
    assert conversation.received(b'{"type":"input","data":"echo early\\r"}', True) == ()
    holder = SocketAttachment(terminal, NativeTerminalCodec(), "me")
    attach = run.flow.send(holder)
    assert isinstance(attach, AttachOwner)
    holder.attached(HeldWire())
    for data, text in attach.early:
        holder.received(data, text)
    # The input was typed before the shell started, so its output may follow the prompt.
    while not {"early", "$ early"} & set(terminal.screen.lines):
        await terminal.changed(terminal.screen.version)
    holder.detached(1000, "")


def test_terminal_that_ended_in_the_meantime_is_not_found() -> None:
    conversation = TerminalConversation(opening())
    write, hang_up = conversation.failed(NotFound("terminal", "x"))
    assert isinstance(write, Write) and b"not_found" in write.frames
    assert isinstance(hang_up, CloseSocket) and hang_up.code == 4404
    (reply,) = conversation.throttled(b"", True, NotFound("terminal", "x"))
    assert isinstance(reply, Write)


def test_output_with_only_a_url_is_not_sent() -> None:
    """This protocol has no frame for URLs: the client sees the URL in the output."""
    assert NativeTerminalCodec().output(TerminalOutput(b"", urls=(FoundUrl("https://a.example/"),))) == b""


def test_encoded_frames() -> None:
    codec = NativeTerminalCodec()
    first = codec.output(TerminalOutput(b"all", redraw=True, size=Size(4, 2)))
    assert first == b'\x81\x21{"type":"size","cols":4,"rows":2}\x82\x03all'
    assert codec.output(TerminalOutput(b"more")) == b"\x82\x04more"
    again = codec.output(TerminalOutput(b"all", redraw=True, size=Size(4, 2)))
    assert again == b'\x81\x11{"type":"redraw"}\x82\x03all'
    assert codec.ended(Exit(signal=9))[2:] == b'{"type":"exit","code":null,"signal":9}'
