"""Clients of terminals on real sockets, whose gateway is killed: they connect again to the same running programs."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from clients.claudecodeui.shell_harness import ShellClient as ClaudeCodeUiClient
from clients.cognova.terminal_harness import ShellClient as CognovaClient
from fairlead.keeper.client import connect as connect_keeper
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts
from patience import PATIENCE
from terminals.streams import state

pytestmark = pytest.mark.process

TESTS = Path(__file__).parent.parent


class KilledGateway:
    """The gateway's process: it is started and killed as often as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.data, self.root = folder / "data", folder / "root"
        self.data.mkdir()
        self.root.mkdir()

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(TESTS / "terminals" / "kept_server.py"),
            str(self.data),
            str(self.root),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
        )
        assert self._process.stdout is not None
        greeting = json.loads(await asyncio.wait_for(self._process.stdout.readline(), PATIENCE))
        self._address, self._token = greeting["address"], greeting["token"]

    async def kill(self) -> None:
        self._process.kill()
        await self._process.wait()

    @contextlib.asynccontextmanager
    async def cognova(self) -> AsyncIterator[CognovaClient]:
        headers = {"x-api-token": self._token}
        url = f"{self._address}/terminal"
        async with connect(url, additional_headers=headers, compression=None, proxy=None, max_size=None) as socket:
            yield CognovaClient(socket)

    @contextlib.asynccontextmanager
    async def claudecodeui(self) -> AsyncIterator[ClaudeCodeUiClient]:
        url = f"{self._address}/shell?token={self._token}"
        async with connect(url, compression=None, proxy=None, max_size=None) as socket:
            client = ClaudeCodeUiClient(socket)
            await client.begin(self.root)
            yield client


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[KilledGateway]:
    made = KilledGateway(tmp_path)
    await made.start()
    yield made
    await made.kill()
    keeper = await connect_keeper(made.data, SystemClock())
    for process in keeper.found:
        await process.end(StopTimeouts(close=1, terminate=1))
        process.forget()
    await keeper.close(quit=True)


async def test_connected_clients_find_their_programs_again(gateway: KilledGateway) -> None:
    go = gateway.root / "go"
    async with gateway.cognova() as person, gateway.claudecodeui() as app:
        for client in (person, app):
            await client.wait_for_text("$")
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
        await person.wait_for_text("$")
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
