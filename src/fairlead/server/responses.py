"""Sends responses, as bytes and as streams, with the headers that every response has."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from email.utils import formatdate
from typing import BinaryIO, Final

from fairlead.auth.gate import AccessRefused
from fairlead.model.web.requests import Refused, Response
from fairlead.model.web.routes import ChangeStream, FileStream, json_response
from fairlead.server.asgi import Receive, Send
from fairlead.server.requests import wait_disconnected
from fairlead.server.static import PIECE
from fairlead.system.clock import Clock, within
from fairlead.system.tasks import run_until

Left = Callable[[int], None]

_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 16 << 20
"""Twice the largest body: a client that is a little over the limit still gets its answer."""

_ALWAYS: Final = {
    # No API response is a page: if a browser renders one, it may do nothing.
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def refusal(verdict: AccessRefused, worded: Refused | None = None) -> Response:
    """Build the response to a rejected request. `worded` formats it for a protocol.

    It closes the connection: a rejected client gets no second request for free.
    """
    scheme = 'Basic realm="Fairlead", charset="UTF-8"' if verdict.basic else "Bearer"
    challenge = (("www-authenticate", scheme),) if verdict.status == 401 else ()
    wait = (("retry-after", str(verdict.wait)),) if verdict.wait else ()
    plain = {"error": {"code": verdict.code, "message": verdict.message}}
    answer = worded(verdict.status, verdict.code, verdict.message) if worded else json_response(plain)
    headers = (("connection", "close"), *challenge, *wait, *answer.headers)
    return Response(status=verdict.status, body=answer.body, content_type=answer.content_type, headers=headers)


def headers_of(response: Response, now_ms: int) -> list[tuple[bytes, bytes]]:
    own = {"content-type": response.content_type, "content-length": str(len(response.body))}
    return _encoded({**_ALWAYS, "date": formatdate(now_ms / 1000, usegmt=True), **own, **dict(response.headers)})


async def send_response(
    send: Send, response: Response, now_ms: int, *, socket: bool = False, left: Left | None = None
) -> None:
    """Send a response. `socket`: as the answer to a WebSocket handshake, in place of the upgrade.

    A large body is sent in pieces, each after the client has read the earlier ones; `left` is called with the number
    of bytes still to send.
    """
    kind = "websocket.http.response" if socket else "http.response"
    await send({"type": f"{kind}.start", "status": response.status, "headers": headers_of(response, now_ms)})
    body = response.body
    for start in range(PIECE, len(body), PIECE):
        if left is not None:
            left(len(body) - start + PIECE)
        await send({"type": f"{kind}.body", "body": body[start - PIECE : start], "more_body": True})
    await send({"type": f"{kind}.body", "body": body[max(0, (len(body) - 1) // PIECE * PIECE) :]})


async def send_file(receive: Receive, send: Send, answer: FileStream, now_ms: int, *, head: bool) -> None:
    """Stream a file until the client disconnects. `head`: send only the headers."""
    headers = {"content-type": answer.content_type, "content-length": str(answer.size), **dict(answer.headers)}
    with contextlib.closing(_FileReader(answer.file)) as reader:
        await send_stream(receive, send, reader.pieces(0 if head else answer.size), headers, now_ms)


class _FileReader:
    """Reads a file in a thread. Closing waits for a read in progress: the descriptor could soon be another file's."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    async def pieces(self, left: int) -> AsyncGenerator[bytes]:
        """Yield the file in pieces; each is read after the client has taken the earlier ones."""
        while left:
            piece = await asyncio.to_thread(self._read, min(PIECE, left))
            if not piece:
                # The file has become shorter: the client must see that the response is incomplete.
                raise ConnectionAbortedError("the file was cut while it was sent")
            left -= len(piece)
            yield piece

    def _read(self, size: int) -> bytes:
        with self._lock:
            return b"" if self._file.closed else self._file.read(size)

    def close(self) -> None:
        with self._lock:
            self._file.close()


async def send_and_close(send: Send, receive: Receive, response: Response, clock: Clock) -> None:
    """Send a response that ends the connection. For a moment, bytes that the client still sends are read and dropped:
    closing with unread bytes resets the connection, and the client would not see the response."""
    headers = headers_of(response, clock.now_ms())
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        await within(clock, _LINGER_S, _take_in(receive))
    await send({"type": "http.response.body", "body": b""})


async def _take_in(receive: Receive) -> None:
    taken = 0
    while taken < _LINGER_BYTES:
        message = await receive()
        taken += len(message.get("body", b""))
        if not message.get("more_body"):
            return


async def send_stream(
    receive: Receive, send: Send, chunks: AsyncGenerator[bytes], headers: Mapping[str, str], now_ms: int
) -> None:
    """Send chunks until they end or the client disconnects."""
    fields = _encoded({**_ALWAYS, "date": formatdate(now_ms / 1000, usegmt=True), **headers})
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    sending = await run_until(_send_chunks(send, chunks), wait_disconnected(receive))
    if not sending.cancelled():
        sending.result()


async def _send_chunks(send: Send, chunks: AsyncGenerator[bytes]) -> None:
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def prepend(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async with contextlib.aclosing(rest):
        async for chunk in rest:
            yield chunk


async def change_chunks(answer: ChangeStream, clock: Clock) -> AsyncGenerator[bytes]:
    """Yield encoded changes, and beats in between. The first beat comes at once, so that the client sees that it is
    connected."""
    yield answer.beat
    while True:
        try:
            changes = await within(clock, answer.every, answer.listener.next_notices())
        except TimeoutError:
            yield answer.beat
            continue
        if not changes:
            return
        yield b"".join(answer.encode(change) for change in changes)


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
