"""The pipe of `fairlead mcp`: each line of stdin is an MCP message for the gateway, each answer a line of stdout.

It keeps no state but the requests in flight.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, BinaryIO, Final

import msgspec

from fairlead.client.errors import ClientError
from fairlead.clients.mcp import rpc
from fairlead.clients.mcp.endpoint import BODY_LIMIT

MOST_REQUESTS: Final = 16
"""Maximum number of requests in flight; further lines wait."""

Post = Callable[[bytes, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""Sends a message with additional headers; returns the status and the body. Raises ClientError."""


class McpPipe:
    """`denied`: what to do when the credential lacks the scope, for the person who reads it."""

    def __init__(self, post: Post, write: Callable[[bytes], None], denied: str = "") -> None:
        self._post = post
        self._write = write
        self._denied = denied
        self._room = asyncio.Semaphore(MOST_REQUESTS)
        self._running: dict[rpc.Id | object, asyncio.Task[None]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Answer every line, and return when the last answer is written."""
        async for line in lines:
            if not line.strip():
                continue
            await self._room.acquire()
            self._accept(line)
        while self._running:
            await asyncio.wait(set(self._running.values()))

    def _accept(self, line: bytes) -> None:
        try:
            if len(line) > BODY_LIMIT:
                raise rpc.McpError(rpc.INVALID_REQUEST, f"A message has at most {BODY_LIMIT} bytes.")
            id, message = rpc.read_message(line)
        except rpc.McpError as error:
            self._room.release()
            self._write(rpc.error_response(error).body)
            return
        if message.get("method") == "notifications/cancelled":
            self._cancel(message)
        key: rpc.Id | object = object() if id is None or id in self._running else id
        task = self._running[key] = asyncio.get_running_loop().create_task(self._forward(line, id, message))
        task.add_done_callback(lambda _: self._ended(key))

    def _ended(self, key: rpc.Id | object) -> None:
        del self._running[key]
        self._room.release()

    def _cancel(self, message: dict[str, Any]) -> None:
        """Stop waiting for an answer that the client no longer wants."""
        params = message.get("params")
        wanted = params.get("requestId") if isinstance(params, dict) else None
        task = self._running.get(wanted) if isinstance(wanted, str | int) else None
        if task is not None:
            task.cancel()

    async def _forward(self, line: bytes, id: rpc.Id | None, message: dict[str, Any]) -> None:
        try:
            status, body = await self._post(line, headers_of(message))
        except ClientError as error:
            answer = rpc.error_response(rpc.McpError(rpc.INTERNAL_ERROR, error.message), id).body
        else:
            answer = self._answer(status, body, id)
        if "id" in message and answer:
            self._write(answer)

    def _answer(self, status: int, body: bytes, id: rpc.Id | None) -> bytes:
        """The gateway's answer as one line, with the id of the request, which a rejection by the gate lacks."""
        if status == 202:
            return b""
        try:
            decoded = msgspec.json.decode(body)
        except msgspec.DecodeError:
            decoded = None
        if not isinstance(decoded, dict) or "jsonrpc" not in decoded:
            error = rpc.McpError(rpc.INTERNAL_ERROR, f"The gateway answered {status}.")
            return rpc.error_response(error, id).body
        if status == 403 and self._denied:
            return rpc.error_response(rpc.McpError(rpc.INVALID_REQUEST, self._denied), id).body
        if id is not None:
            decoded.setdefault("id", id)
        return msgspec.json.encode(decoded)


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """The HTTP headers that repeat fields of a message. A message without a version in `_meta` has none: its version
    was agreed upon before, and the gateway treats all of that kind alike."""
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    version = meta.get(rpc.VERSION_FIELD) if isinstance(meta, dict) else None
    if not isinstance(version, str) or not isinstance(method, str):
        return {}
    headers = {rpc.VERSION_HEADER: version, "mcp-method": method}
    if isinstance(params.get("name"), str):
        headers["mcp-name"] = rpc.encoded_name(params["name"])
    return {name: value for name, value in headers.items() if value.isascii() and value.isprintable()}


async def lines_of(stream: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the lines of a blocking stream. A longer line than the gateway accepts comes in parts, each of them too
    long; the thread does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[bytes] = asyncio.Queue(1)

    def read() -> None:
        while True:
            line = stream.readline(BODY_LIMIT + 2)
            try:
                asyncio.run_coroutine_threadsafe(ready.put(line), loop).result()
            except RuntimeError:
                return  # the loop is closed
            if not line:
                return

    threading.Thread(target=read, daemon=True).start()
    while line := await ready.get():
        yield line
