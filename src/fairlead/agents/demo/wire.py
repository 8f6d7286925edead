"""The demo agent's two pipes: lines in from the host, lines out to it, and requests that wait for an answer.

Without a host, writing does nothing and reading ends: the agent finishes its turn alone, as the real CLI does.
"""

import asyncio
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.agents.claude.wire.control import cancel_line, request_line
from fairlead.agents.claude.wire.framing import LineSplitter, encode_line
from fairlead.agents.claude.wire.records import ControlResponse
from fairlead.agents.demo.messages import Record

# A pipe holds 64 KiB: a larger write would only block.
_FLUSH_AT = 64 * 1024


class HostFailed(Exception):
    """The host answered a request with an error, or closed stdin (HostGone) before it answered."""


class HostGone(HostFailed):
    """No answer can arrive any more."""

    def __init__(self) -> None:
        super().__init__("the host closed the stream before it answered")


class Wire:
    """Reads stdin on a thread, writes stdout in batches from the event loop."""

    def __init__(self, on_record: Callable[[Record], None], on_end: Callable[[], None]) -> None:
        self._on_record = on_record
        self._on_end = on_end
        self._out: list[bytes] = []
        self._size = 0
        self._broken = False
        self._ended = False
        self._waiting: dict[str, asyncio.Future[Record]] = {}
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        # A thread, because stdin may be a pipe, a file or /dev/null, and an event loop supports only some of these.
        threading.Thread(target=self._read, daemon=True).start()

    def emit(self, record: Record) -> None:
        self.write(encode_line(record))

    def write(self, line: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(line)
        self._size += len(line)
        if self._size >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write everything to the pipe; block while the host is slow, which slows the agent too."""
        data, self._out, self._size = memoryview(b"".join(self._out)), [], 0
        while data and not self._broken:
            try:
                data = data[os.write(1, data) :]
            except OSError:
                self._broken = True

    async def ask(self, subtype: str, **fields: Any) -> Record:
        """The host's answer to a control request. Raises HostFailed. Cancelling it notifies the host."""
        if self._ended:
            raise HostGone
        request_id = str(uuid.uuid4())
        answer: asyncio.Future[Record] = self._loop.create_future()
        self._waiting[request_id] = answer
        self.write(request_line(request_id, subtype, fields))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():  # a request that was answered needs no cancelling
                self.write(cancel_line(request_id))
            raise
        finally:
            del self._waiting[request_id]

    def settle(self, record: Record) -> None:
        """Take a `control_response`; one without a waiting request is ignored."""
        try:
            answer = msgspec.convert(record, ControlResponse).response
        except msgspec.ValidationError:
            return
        waiting = self._waiting.get(answer.request_id)
        if waiting is None or waiting.done():
            return
        if answer.subtype == "error":
            waiting.set_exception(HostFailed(answer.error or ""))
        else:
            waiting.set_result(answer.response if isinstance(answer.response, dict) else {})

    def _read(self) -> None:
        splitter = LineSplitter()
        data = b"\n"
        while data:
            try:
                data = os.read(0, 1 << 16)
            except OSError:
                data = b""
            for line in splitter.feed(data) if data else splitter.end():
                if isinstance(line, bytes):
                    self._loop.call_soon_threadsafe(self._take, line)
        self._loop.call_soon_threadsafe(self._end)

    def _take(self, line: bytes) -> None:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if isinstance(record, dict):
            self._on_record(record)

    def _end(self) -> None:
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HostGone())
        self._on_end()
