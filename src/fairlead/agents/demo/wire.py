"""The demo agent's two pipes: lines in from the host, lines out to it, and requests that wait for an answer.

Rule: bytes and request ids only; the agent interprets the records. Without a host, writing does nothing and reading
ends: the agent finishes its turn alone, as the real CLI does.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.agents.claude.wire.framing import LineSplitter, encode_line
from fairlead.agents.demo.ids import new_uuid
from fairlead.agents.demo.records import Record

# A pipe holds 64 KiB: a larger write would only block.
_FLUSH_AT = 64 * 1024


class HostGone(Exception):
    """The host closed stdin: no answer can arrive any more."""


class HostRefused(Exception):
    """The host answered a request with an error. Carries its message."""


class Wire:
    """Reads stdin on a thread, writes stdout in batches from the event loop."""

    def __init__(self, on_record: Callable[[Record], None], on_end: Callable[[str | None], None]) -> None:
        self._on_record = on_record
        self._on_end = on_end
        self._out: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._broken = False
        self._ended = False
        self._waiting: dict[str, asyncio.Future[Record]] = {}
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        # A thread, because stdin may be a pipe, a file or /dev/null, and an event loop supports only some of these.
        threading.Thread(target=self._read, daemon=True).start()

    # -- out

    def emit(self, record: Record) -> None:
        self.emit_bytes(encode_line(record))

    def emit_bytes(self, line: bytes) -> None:
        """Emit one encoded line; for callers that emit many equal lines."""
        self._out.append(line)
        self._size += len(line)
        if self._size >= _FLUSH_AT:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write everything to the pipe; block while the host is slow, which slows the agent too."""
        self._scheduled = False
        data, self._out, self._size = memoryview(b"".join(self._out)), [], 0
        while data and not self._broken:
            try:
                data = data[os.write(1, data) :]
            except OSError:
                self._broken = True

    # -- requests to the host

    async def ask(self, request: Record) -> Record:
        """The host's answer to a control request. Raises HostGone or HostRefused. Cancelling it notifies the host."""
        request_id = new_uuid()
        if self._ended:
            raise HostGone
        answer: asyncio.Future[Record] = self._loop.create_future()
        self._waiting[request_id] = answer
        self.emit({"type": "control_request", "request_id": request_id, "request": request})
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():  # a request that was answered needs no cancelling
                self.emit({"type": "control_cancel_request", "request_id": request_id})
            raise
        finally:
            del self._waiting[request_id]

    def answered(self, record: Record) -> None:
        """Take a `control_response`; one without a waiting request is ignored."""
        response = record.get("response")
        if not isinstance(response, dict):
            return
        waiting = self._waiting.get(str(response.get("request_id")))
        if waiting is None or waiting.done():
            return
        if response.get("subtype") == "error":
            waiting.set_exception(HostRefused(str(response.get("error", ""))))
        else:
            answer = response.get("response")
            waiting.set_result(answer if isinstance(answer, dict) else {})

    def reply(self, request_id: str, response: Record | None) -> None:
        body = {} if response is None else {"response": response}
        self._respond("success", request_id, body)

    def refuse(self, request_id: str, error: str, **fields: Any) -> None:
        self._respond("error", request_id, {"error": error, **fields})

    def _respond(self, subtype: str, request_id: str, body: Record) -> None:
        self.emit({"type": "control_response", "response": {"subtype": subtype, "request_id": request_id, **body}})

    # -- in

    def _read(self) -> None:
        splitter = LineSplitter()
        while True:
            try:
                data = os.read(0, 1 << 16)
            except OSError:
                data = b""
            for line in splitter.feed(data) if data else splitter.end():
                self._loop.call_soon_threadsafe(self._take, line if isinstance(line, bytes) else line.head)
            if not data:
                break
        self._loop.call_soon_threadsafe(self._end, None)

    def _take(self, line: bytes) -> None:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._end(f"Error parsing streaming input line: {line[:200].decode('utf-8', 'replace')}")
            return
        if isinstance(record, dict):
            self._on_record(record)

    def _end(self, error: str | None) -> None:
        if self._ended:
            return
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HostGone())
        self._on_end(error)
