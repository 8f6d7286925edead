"""A reference client of a terminal on a real socket, for the tests of every protocol."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection

from fairlead.terminals.screen.emulator import Emulator
from patience import PATIENCE

NARROW = 70
"""Columns that every screen of a test has in addition to a prompt."""
CLEAN = "\x1b[?1049l"
"""The first bytes of a redraw."""


class OnSocket:
    """A mixin for a reference client, which has a screen and receives frames."""

    socket: ClientConnection
    screen: Emulator
    frames: list[dict[str, Any]]

    def receive(self, frame: dict[str, Any]) -> None:
        raise AssertionError("a reference client takes it")

    def resize(self, columns: int, rows: int) -> dict[str, Any]:
        raise AssertionError("a reference client makes it")

    async def say(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def type(self, keys: str) -> None:
        await self.say(type="input", data=keys)

    async def fit(self, columns: int, rows: int) -> None:
        await self.say(**self.resize(columns, rows))

    async def next_frame(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE))
        self.frames.append(frame)
        self.receive(frame)
        return frame

    async def until(self, holds: Callable[[], Any]) -> None:
        try:
            while not holds():
                await self.next_frame()
        except TimeoutError:
            shown = [line for line in self.screen.lines() if line]
            raise AssertionError(f"it did not come; there is {shown}, and {self.frames[-3:]}") from None

    async def wait_for_text(self, text: str) -> None:
        """Wait until the text is on the screen."""
        await self.until(lambda: any(text in line for line in self.screen.lines()))

    async def wait_for_line(self, line: str) -> None:
        """Wait for a whole line of the screen, alone or after a prompt; a line that is too wide wraps."""
        wide = len(line) > NARROW

        def shown() -> bool:
            lines = self.screen.lines()
            return bool({line, f"$ {line}"} & set(lines)) or (wide and line in "".join(lines))

        await self.until(shown)
