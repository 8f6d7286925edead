"""Attaches a socket to a terminal: output to the client, keys and sizes from it. Both queues are bounded.

The client protocol encodes and decodes the frames (`terminals.api.TerminalCodec`).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from typing import Final

from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.web.requests import ServiceHandlers
from fairlead.model.web.sockets import SocketHandle
from fairlead.system.tasks import TaskSet
from fairlead.terminals import api

log = logging.getLogger("fairlead.terminals")

UNSENT_BYTES: Final = 128 * 1024
"""Output that may wait for the client; above the mark over which a connection reports that it has drained."""
UNTYPED_BYTES: Final = 64 * 1024
"""Keys that may wait for a program that does not read, before the socket is paused."""
DONE: Final = 1000
BROKEN: Final = 1011


@dataclass(eq=False, repr=False)
class TerminalAttachment:
    """One client attached to a terminal: the output goes to its socket, its keys and sizes to the terminal. `size` is
    the client's initial size."""

    _terminal: api.Terminal
    _encoder: api.TerminalEncoder
    _who: str
    _: KW_ONLY
    raw: bool = False
    read_only: bool = False
    size: api.Size | None = None
    left: Callable[[], None] = lambda: None
    """Called when the socket is detached."""
    _begun: bool = False
    _wire: SocketHandle | None = None
    _keys: bytearray = field(default_factory=bytearray)
    _drained: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: TaskSet = field(default_factory=TaskSet)
    _typing: bool = False
    _paused: bool = False

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire
        self._tasks.spawn(self._show(wire))

    def on_input(self, message: api.TypedKeys | api.Size | api.TerminalReply) -> None:
        match message:
            case api.TerminalReply(frames=frames):
                self._send(frames)
            case _ if self.read_only:
                pass
            case api.TypedKeys(data=keys):
                self._type(keys)
            case api.Size() if self._begun:
                self._terminal.resize(message, self._who)
            case api.Size():
                self.size = message

    def drained(self) -> None:
        self._drained.set()

    def detached(self, code: int, reason: str) -> None:
        """Stop using the socket. It may stay open, for another terminal."""
        if self._wire is not None and self._paused:
            self._wire.resume()
        self._wire = None
        self._tasks.cancel()
        self.left()

    def dismiss(self, reason: str) -> None:
        """Close the socket of a client that may no longer watch."""
        if self._wire is not None:
            self._wire.close(DONE, reason)

    def _send(self, frames: bytes) -> None:
        if self._wire is not None:
            self._wire.send(frames)

    async def _show(self, wire: SocketHandle) -> None:
        try:
            self._begun = True
            if self.size is not None:
                # Not earlier: the end of a watch removes the size that belongs to it.
                self._terminal.resize(self.size, self._who)
            async with contextlib.aclosing(self._terminal.watch(self._who, self._begins_raw())) as watching:
                async for output in watching:
                    if frames := self._encoder.output(output):
                        wire.send(frames)
                    while wire.backlog() > UNSENT_BYTES:
                        self._drained.clear()
                        await self._drained.wait()
            self._over(wire, await self._terminal.wait())
        except Exception:
            log.exception("sending a terminal's output to a client failed", extra={"terminal": self._terminal.name})
            wire.close(BROKEN, "the terminal cannot be shown")

    def _begins_raw(self) -> bool:
        return self.raw

    def _over(self, wire: SocketHandle, exit: Exit) -> None:
        wire.send(self._encoder.ended(exit))
        wire.close(DONE, "the program has ended")

    def _type(self, keys: bytes) -> None:
        self._keys += keys
        if self._wire is not None and len(self._keys) > UNTYPED_BYTES and not self._paused:
            self._paused = True
            self._wire.pause()
        if not self._typing and self._keys:
            self._typing = True
            self._tasks.spawn(self._pass_keys())

    async def _pass_keys(self) -> None:
        try:
            while self._keys:
                keys = bytes(self._keys)
                self._keys.clear()
                await self._terminal.write(keys)
                if self._wire is not None and self._paused and len(self._keys) <= UNTYPED_BYTES:
                    self._paused = False
                    self._wire.resume()
        except FairleadError as error:
            self._keys.clear()
            self._send(self._encoder.failed(error))
        finally:
            self._typing = False


@dataclass(eq=False, repr=False)
class SocketAttachment(TerminalAttachment):
    """Implements `model.web.sockets.SocketOwner`: one terminal for the lifetime of the socket."""

    _encoder: api.TerminalCodec

    def received(self, data: bytes, text: bool) -> None:
        try:
            self.on_input(self._encoder.read(data))
        except FairleadError as error:
            self._send(self._encoder.failed(error))


class TerminalActions:
    """Handlers of the service calls about terminals. Access is checked before."""

    def __init__(self, terminals: api.Terminals) -> None:
        self._terminals = terminals
        self._numbers = count(1)

    def handlers(self) -> ServiceHandlers:
        return {api.JoinTerminal: self.join, api.ShowTerminal: self.show}

    async def join(self, who: Identity, action: api.JoinTerminal) -> SocketAttachment:
        terminal = self._find(action.name)
        log.info("terminal joined", extra={"terminal": action.name, "who": who.name, "credential": who.credential})
        return SocketAttachment(terminal, action.codec, f"{who.credential}/{next(self._numbers)}")

    async def show(self, who: Identity, action: api.ShowTerminal) -> api.TerminalView:
        terminal = self._find(action.name)
        screen = terminal.screen
        return api.TerminalView(
            running=terminal.running,
            size=screen.size,
            lines=screen.lines,
            row=screen.row,
            column=screen.column,
            exit=terminal.exit,
        )

    def _find(self, name: str) -> api.Terminal:
        found = self._terminals.find(name)
        if found is None:
            raise NotFound("terminal", name)
        return found
