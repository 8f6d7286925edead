"""The demo agent's two pipes: lines in from the gateway, lines out to it, and requests that wait for an answer.

Every event but the deltas is also written to the session's file. Without a gateway, writing to the pipe does nothing
and reading ends: the agent finishes its turn alone, and the next gateway reads the file.
"""

import asyncio
import os
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fairlead.agents.demo import wire
from fairlead.agents.links.framing import LineSplitter
from fairlead.model.events.base import DeltaEvent

# A pipe holds 64 KiB: a larger write would only block.
_FLUSH_AT = 64 * 1024


class HostFailed(Exception):
    """The gateway answered a request with an error, or closed the pipe (HostGone) before it answered."""


class HostGone(HostFailed):
    """No answer can arrive any more."""

    def __init__(self) -> None:
        super().__init__("the gateway closed the pipe before it answered")


class Host:
    """Reads stdin on a thread, writes stdout in batches from the event loop."""

    def __init__(self, on_message: Callable[[wire.FromGateway], None], on_end: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._out: list[bytes] = []
        self._size = 0
        self._broken = False
        self._ended = False
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._process = str(uuid.uuid4())
        self._count = 0
        self._file: int | None = None

    def start(self) -> None:
        # A thread, because stdin may be a pipe, a file or /dev/null, and an event loop supports only some of these.
        threading.Thread(target=self._read, daemon=True).start()

    def keep(self, path: Path) -> None:
        """Write events to this file from now on. A session whose file cannot be written works without one."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            print(f"demo agent: the conversation is not kept: {error}", file=sys.stderr, flush=True)

    # --- out

    def emit(self, kind: type[Any], /, **fields: Any) -> None:
        self._count += 1
        name = wire.numbered(self._process, self._count, str(kind.__struct_config__.tag))
        line = msgspec.json.encode(kind(id=name, **fields))
        self.write(line)
        if self._file is not None and not issubclass(kind, DeltaEvent):
            os.write(self._file, line + b"\n")  # one write, so that a reader never sees half of a line

    def send(self, message: wire.DemoMessage) -> None:
        self.write(wire.encode(message))

    def write(self, line: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(line + b"\n")
        self._size += len(line)
        if self._size >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write everything to the pipe; block while the gateway is slow, which slows the agent too."""
        data, self._out, self._size = memoryview(b"".join(self._out)), [], 0
        while data and not self._broken:
            try:
                data = data[os.write(1, data) :]
            except OSError:
                self._broken = True

    # --- requests

    async def ask(self, kind: type[wire.CheckCall] | type[wire.McpCall], **fields: Any) -> Any:
        name = str(uuid.uuid4())
        return await self.answer_to(name, lambda: self.send(kind(id=name, **fields)))

    async def answer_to(self, name: str, send: Callable[[], None]) -> Any:
        """Send a request and return its answer. Raises HostFailed."""
        if self._ended:
            raise HostGone
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[name] = answer
        send()
        try:
            return await answer
        finally:
            del self._waiting[name]

    def settle(self, name: str, result: Any, error: str = "") -> None:
        """Take an answer; one without a waiting request is ignored."""
        waiting = self._waiting.get(name)
        if waiting is None or waiting.done():
            return
        if error:
            waiting.set_exception(HostFailed(error))
        else:
            waiting.set_result(result)

    # --- in

    def _read(self) -> None:
        splitter = LineSplitter()
        data = b"\n"
        while data:
            try:
                data = os.read(0, 1 << 16)
            except OSError:
                data = b""
            for line in splitter.feed(data) if data else splitter.end():
                message = wire.decode_ours(line) if isinstance(line, bytes) else None
                if message is not None:
                    self._loop.call_soon_threadsafe(self._on_message, message)
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HostGone())
        self._on_end()
