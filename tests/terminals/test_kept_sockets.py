"""Clients of terminals on real sockets, whose gateway is killed: they connect again to the same running programs."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from clients.claudecodeui.shell_harness import ShellClient as ClaudeCodeUiClient
from clients.cognova.terminal_harness import ShellClient as CognovaClient
from faults.gateway_process import TOKEN, GatewayProcess
from terminals.streams import state

pytestmark = pytest.mark.process

PROMPT = "#" if os.geteuid() == 0 else "$"


class KilledGateway:
    """`fairlead serve`: it is started and killed as often as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.process = GatewayProcess(folder, shell="/bin/sh")
        self.root = self.process.cwd

    async def start(self) -> None:
        await self.process.start()

    async def kill(self) -> None:
        await self.process.kill()

    def _address(self, protocol: str) -> str:
        return self.process.url.replace("http", "ws", 1) + f"/{protocol}"

    @contextlib.asynccontextmanager
    async def cognova(self) -> AsyncIterator[CognovaClient]:
        headers = {"x-api-token": TOKEN}
        url = f"{self._address('cognova')}/terminal"
        async with connect(url, additional_headers=headers, compression=None, proxy=None, max_size=None) as socket:
            yield CognovaClient(socket)

    @contextlib.asynccontextmanager
    async def claudecodeui(self) -> AsyncIterator[ClaudeCodeUiClient]:
        url = f"{self._address('claudecodeui')}/shell?token={TOKEN}"
        async with connect(url, compression=None, proxy=None, max_size=None) as socket:
            client = ClaudeCodeUiClient(socket)
            await client.begin(self.root)
            yield client


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[KilledGateway]:
    made = KilledGateway(tmp_path)
    async with made.process:
        yield made


async def test_connected_clients_find_their_programs_again(gateway: KilledGateway) -> None:
    go = gateway.root / "go"
    async with gateway.cognova() as person, gateway.claudecodeui() as app:
        for client in (person, app):
            await client.wait_for_text(PROMPT)
            await client.type(f"echo before; while [ ! -e {go} ]; do sleep 0.01; done; echo aft''er $((40 + 2))\r")
            await client.wait_for_line("before")
        await gateway.kill()
        for client in (person, app):
            with pytest.raises(ConnectionClosed):
                await client.until(lambda: False)
    go.touch()
    await gateway.start()
    async with gateway.cognova() as person, gateway.claudecodeui() as app:
        for client in (person, app):
            await client.wait_for_line("before")
            await client.wait_for_line("after 42")
            await client.type("echo on $((1 + 1))\r")
            await client.wait_for_line("on 2")
        assert "Reconnected to existing session" in app.text


async def test_gateway_that_is_killed_over_and_over_loses_no_line(gateway: KilledGateway) -> None:
    async with gateway.cognova() as person:
        await person.wait_for_text(PROMPT)
        await person.type("i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo do''ne\r")
        await person.wait_for_text("line 5")
    for _ in range(3):
        await gateway.kill()
        await gateway.start()
    async with gateway.cognova() as person:
        await person.wait_for_line("done")
        seen = state(person.screen)
        printed = [line for line in (*seen.history, *seen.main.lines) if line.startswith(b"line ")]
        assert printed == [b"line %d" % number for number in range(1, 401)]
