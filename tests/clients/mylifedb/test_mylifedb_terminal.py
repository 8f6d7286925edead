"""The raw terminal of MyLifeDB over the real server: bytes both ways, and a plain close if there is no terminal."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from clients.mylifedb.harness import MyLifeDbGateway, open_gateway
from fairlead.clients.mylifedb.terminal import EARLY_BYTES, RawTerminal
from fairlead.model.auth import Identity
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import AttachOwner, Handshake
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.terminals.api import Program, Size, session_terminal
from fairlead.terminals.attachment import TerminalActions
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.screen.emulator import Emulator
from flows import drive
from patience import PATIENCE
from sessions.harness import SESSION

OTHER = "22222222-2222-4222-8222-222222222222"
ENV = {"PATH": os.environ.get("PATH", os.defpath), "PS1": "$ "}


@pytest.fixture
async def terminals() -> AsyncIterator[TerminalRegistry]:
    made = TerminalRegistry(SystemClock(), 4, StopTimeouts(close=1, terminate=1))
    yield made
    await made.close()


@pytest.fixture
async def gateway(tmp_path: Path, terminals: TerminalRegistry) -> AsyncIterator[MyLifeDbGateway]:
    async with open_gateway(tmp_path, performers=TerminalActions(terminals).handlers()) as made:
        await made.core.open()
        yield made


def joining(gateway: MyLifeDbGateway, token: str = "", session: str = SESSION) -> connect:
    headers = {"authorization": f"Bearer {token or gateway.admin}"}
    return connect(
        gateway.address(session=session, path="ws"), additional_headers=headers, compression=None, proxy=None
    )


async def seen(socket: ClientConnection, text: str) -> None:
    screen = Emulator(40, 5)
    async with asyncio.timeout(PATIENCE):
        while not any(text in line for line in screen.lines()):
            data = await socket.recv()
            assert isinstance(data, bytes), "nothing but bytes"
            screen.feed(data)


@pytest.mark.process
async def test_bytes_go_both_ways_and_a_second_client_sees_the_same_screen(
    gateway: MyLifeDbGateway, terminals: TerminalRegistry
) -> None:
    program = Program(argv=["/bin/sh", "-i"], env=ENV, cwd="/", size=Size(40, 5))
    await terminals.open(session_terminal(SESSION), program)
    async with joining(gateway) as socket:
        await seen(socket, "$")
        await socket.send("echo $((6 * 7)) é\r".encode())
        await seen(socket, "42 é")
        async with joining(gateway) as other:
            await seen(other, "42 é")


async def test_a_session_without_a_terminal_is_closed_and_an_unknown_one_refused(gateway: MyLifeDbGateway) -> None:
    async with joining(gateway) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), PATIENCE)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1011, "Failed to activate session")
    with pytest.raises(InvalidStatus) as refused:
        async with joining(gateway, session=OTHER):
            pass
    assert refused.value.response.status_code == 404


async def test_it_needs_the_scope_for_terminals(gateway: MyLifeDbGateway) -> None:
    token = await gateway.token("view", "chat", "approve")
    with pytest.raises(InvalidStatus) as refused:
        async with joining(gateway, token):
            pass
    assert refused.value.response.status_code == 403


def test_input_before_the_terminal_is_attached_is_bounded() -> None:
    who = Identity("c", "u", "n", frozenset({"terminal"}))
    head = Head(method="GET", path="/")
    conversation = RawTerminal(
        Handshake(head=head, who=who, version="1", fresh=lambda: "f", params={"session": SESSION})
    )
    for _ in range(10):
        assert conversation.received(b"x" * (EARLY_BYTES // 4), False) == ()
    (attach,) = drive(conversation, conversation.opened(), lambda step, lane: None)
    assert isinstance(attach, AttachOwner) and len(attach.early) == 4
