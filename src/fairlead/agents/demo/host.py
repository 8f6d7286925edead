"""The demo agent's two pipes: lines in from the gateway, lines out to it, and requests that wait for an answer.

Every event but the deltas is also written to the session's file. Without a gateway, writing to the pipe does nothing
and reading ends: the agent finishes its turn alone, and the next gateway reads the file.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.agents.demo.history import is_seen
from fairlead.agents.demo.wire import DemoMessage, decode, encode, numbered
from fairlead.model.events.base import DeltaEvent

# A pipe holds 64 KiB: a larger write would only block.
_FLUSH_AT = 64 * 1024
_LONGEST_LINE = 64 << 20


class HostFailed(Exception):
    """The gateway answered a request with an error, or is gone."""


class Host:
    """Writes stdout in batches from the event loop. `listen` reads stdin to its end."""

    def __init__(self, on_message: Callable[[DemoMessage], None]) -> None:
        self._on_message = on_message
        self._out: list[bytes] = []
        self._size = 0
        self._broken = False
        self._ended = False
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._process = str(uuid.uuid4())
        self._count = 0
        self._file: int | None = None
        self.seen = 0
        """How many messages the model sees."""

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        async for line in reader:
            message = decode(line)
            if isinstance(message, DemoMessage):
                self._on_message(message)
        self._ended = True
        for name in list(self._waiting):
            self.settle(name, None, "the gateway is gone")

    def keep(self, path: Path, seen: int) -> None:
        """Write events to this file from now on; the model sees so many messages in it.

        A session whose file cannot be written works without one."""
        self.seen = seen
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            print(f"demo agent: the conversation is not kept: {error}", file=sys.stderr, flush=True)

    def emit(self, kind: type[Any], /, **fields: Any) -> None:
        """Send an event."""
        self._count += 1
        name = numbered(self._process, self._count, str(kind.__struct_config__.tag))
        event = kind(id=name, **fields)
        self.seen += is_seen(event)
        line = encode(event)
        self.write(line)
        if self._file is not None and not issubclass(kind, DeltaEvent):
            os.write(self._file, line + b"\n")  # one write, so that a reader never sees half of a line

    def send(self, message: DemoMessage) -> None:
        self.write(encode(message))

    def write(self, line: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self.flush)
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

    async def ask(self, do: str, data: Any) -> Any:
        """The gateway's answer to a request. Raises HostFailed."""
        name = str(uuid.uuid4())
        return await self.answer_to(name, lambda: self.send(DemoMessage(do, name, data)))

    async def answer_to(self, name: str, send: Callable[[], None]) -> Any:
        if self._ended:
            raise HostFailed("the gateway is gone")
        self._waiting[name] = asyncio.get_running_loop().create_future()
        send()
        try:
            return await self._waiting[name]
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
