"""The stand-in's two pipes: lines in from the host, lines out to it, and requests that wait for an answer.

Without a host, writing does nothing and reading ends: the agent finishes its turn alone, as the real CLI does.
"""

import asyncio
import os
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead.agents.claude.wire.control import cancel_line, request_line
from fairlead.agents.claude.wire.decode import decode_object
from fairlead.agents.claude.wire.records import ControlResponse
from fairlead.agents.links.framing import LineSplitter, encode_line
from fairlead_testing.model_messages import Record, new_id
from fairlead_testing.standin_cli.flags import VERSION

# A pipe holds 64 KiB: a larger write would only block.
_FLUSH_AT = 64 * 1024
_CLIENT = {"name": "fairlead-standin", "version": VERSION}
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}


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
        self._on_record(decode_object(line))

    def _end(self) -> None:
        self._ended = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(HostGone())
        self._on_end()


@dataclass(slots=True)
class McpServers:
    """MCP servers inside the host, reached by `mcp_message`: those that answered the handshake, and their tools."""

    wire: Wire
    _tools: dict[str, list[str]] = field(default_factory=dict)
    _joining: asyncio.Task[None] | None = None

    def join(self, names: list[str]) -> None:
        """Start the handshake with each server; `wait_ready` waits for it."""
        if names:
            self._joining = asyncio.create_task(self._join(names))

    async def wait_ready(self) -> None:
        if self._joining is not None:
            await asyncio.wait([self._joining])

    async def _join(self, names: list[str]) -> None:
        for name in names:
            try:
                await self._call(name, "initialize", _HELLO)
                await self._send(name, {"jsonrpc": "2.0", "method": "notifications/initialized"})
                listing = await self._call(name, "tools/list", {})
            except HostFailed:
                continue
            self._tools[name] = [str(tool.get("name")) for tool in listing.get("tools") or [] if isinstance(tool, dict)]

    async def call(self, tool: str, arguments: Record) -> Record:
        """The result of `mcp__<server>__<tool>`, one of `tools`. Raises HostFailed."""
        _, server, name = tool.split("__", 2)
        return await self._call(server, "tools/call", {"name": name, "arguments": arguments})

    def tools(self) -> list[str]:
        return [f"mcp__{server}__{name}" for server, names in self._tools.items() for name in names]

    def listing(self) -> list[Record]:
        return [
            {"name": server, "status": "connected", "source": "sdk", "tools": [{"name": name} for name in names]}
            for server, names in self._tools.items()
        ]

    async def _call(self, server: str, method: str, params: Record) -> Record:
        request = {"jsonrpc": "2.0", "id": new_id(""), "method": method, "params": params}
        answer = await self._send(server, request)
        result = (answer.get("mcp_response") or {}).get("result")
        return result if isinstance(result, dict) else {}

    async def _send(self, server: str, message: dict[str, Any]) -> Record:
        return await self.wire.ask("mcp_message", server_name=server, message=message)
