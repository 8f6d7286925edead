"""Shells behind Cognova's terminal sockets: real programs on real PTYs, with a real server."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from fairlead.model.errors import OutsideRoots
from fairlead.system.clock import Clock, SystemClock
from fairlead.system.process import StopTimeouts
from fairlead.terminals.api import Terminal
from fairlead.terminals.registry import TerminalRegistry
from fairlead.terminals.shells import ShellSettings, UserShells, shell_environment
from fairlead_testing.cognova_terminal_client import CognovaTerminalClient
from server.fakes import Served, serving
from terminals.socket_client import OnSocket


class ShellClient(CognovaTerminalClient, OnSocket):
    """The reference client on a socket."""

    def __init__(self, socket: ClientConnection) -> None:
        super().__init__()
        self.socket = socket
        self.frames: list[dict[str, Any]] = []

    async def settled(self) -> None:
        """Wait for everything that was sent before the answer to a ping."""
        before = self.pongs
        await self.say(type="ping")
        await self.until(lambda: self.pongs > before)

    async def closed(self) -> int:
        try:
            while True:
                await self.next_frame()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd is not None else 0


class ShellHarness:
    def __init__(self, served: Served, terminals: TerminalRegistry, root: Path) -> None:
        self.served = served
        self.terminals = terminals
        self.root = root

    @contextlib.asynccontextmanager
    async def join(self, query: str = "", token: str = "", path: str = "/terminal") -> AsyncIterator[ShellClient]:
        headers = {"x-api-token": token or self.served.admin}
        url = f"{self.served.ws}{path}{query}"
        async with connect(url, additional_headers=headers, compression=None, proxy=None, max_size=None) as socket:
            yield ShellClient(socket)

    async def token_of(self, user: str) -> str:
        await self.served.credentials.users.ensure(user)
        return (await self.served.credentials.create("token", user, ("terminal",), user)).secret

    def shell(self, name: str = "default", user: str = "owner") -> Terminal:
        found = self.terminals.find(f"user/{user}/{name}")
        assert found is not None, self.terminals.names()
        return found


@contextlib.asynccontextmanager
async def open_shell(
    root: Path, clock: Clock | None = None, program: str = "/bin/sh", most: int = 4
) -> AsyncIterator[ShellHarness]:
    chosen = clock or SystemClock()
    host = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root)}
    secrets = {"FAIRLEAD_TOKEN": "fl_secret", "ANTHROPIC_API_KEY": "sk-secret", "LD_PRELOAD": ""}
    settings = ShellSettings(program=program, env=shell_environment(host | secrets) | {"PS1": "$ "})
    # A shell that is interrupted by its own hang-up may need longer on a busy machine; a kill follows anyway.
    terminals = TerminalRegistry(chosen, most, StopTimeouts(close=5, terminate=1))

    def folder(path: str) -> str:
        if path and not Path(path).resolve().is_relative_to(root):
            raise OutsideRoots(path, (str(root),))
        return path or str(root)

    shells = UserShells(terminals, chosen, settings, folder)
    async with serving(performers=shells.handlers()) as served:
        try:
            yield ShellHarness(served, terminals, root)
        finally:
            await shells.close()
            await terminals.close()
