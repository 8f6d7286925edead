"""Responses on their way out: the headers that every one has, and the sending of bytes and of streams."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from email.utils import formatdate
from typing import BinaryIO, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead.auth.gate import AccessRefused
from fairlead.model.requests import Refused
from fairlead.model.routes import ChangeStream, FileStream, Response
from fairlead.server.static import PIECE
from fairlead.system.clock import Clock, within

Left = Callable[[int], None]

_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 16 << 20
"""Twice the largest body: a client that is a little over still gets its answer."""

_ALWAYS: Final = {
    # Nothing of the API is a page: whatever a browser makes of it may do nothing.
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def refusal(verdict: AccessRefused, worded: Refused | None = None) -> Response:
    """The connection ends with it: who is refused gets no second request for free. `worded`: in a protocol's form."""
    scheme = 'Basic realm="Fairlead", charset="UTF-8"' if verdict.basic else "Bearer"
    challenge = (("www-authenticate", scheme),) if verdict.status == 401 else ()
    wait = (("retry-after", str(verdict.wait)),) if verdict.wait else ()
    told = worded(verdict.status, verdict.code, verdict.message) if worded else Response(body=verdict.body())
    headers = (("connection", "close"), *challenge, *wait, *told.headers)
    return Response(status=verdict.status, body=told.body, content_type=told.content_type, headers=headers)


def headers_of(response: Response, now_ms: int) -> list[tuple[bytes, bytes]]:
    own = {"content-type": response.content_type, "content-length": str(len(response.body))}
    return _encoded({**_ALWAYS, "date": formatdate(now_ms / 1000, usegmt=True), **own, **dict(response.headers)})


async def send_response(
    send: Send, response: Response, now_ms: int, *, socket: bool = False, left: Left | None = None
) -> None:
    """`socket`: as the answer to a WebSocket handshake, in place of the upgrade. A large body goes in pieces, each when
    the client has taken those before; `left` is told what is still to go."""
    kind = "websocket.http.response" if socket else "http.response"
    await send({"type": f"{kind}.start", "status": response.status, "headers": headers_of(response, now_ms)})
    body = response.body
    for start in range(PIECE, len(body), PIECE):
        if left is not None:
            left(len(body) - start + PIECE)
        await send({"type": f"{kind}.body", "body": body[start - PIECE : start], "more_body": True})
    await send({"type": f"{kind}.body", "body": body[max(0, (len(body) - 1) // PIECE * PIECE) :]})


async def send_file(scope: Scope, receive: Receive, send: Send, answer: FileStream, now_ms: int, *, head: bool) -> None:
    """`head`: the client wants the headers alone. Ends when the client leaves."""
    headers = {"content-type": answer.content_type, "content-length": str(answer.size), **dict(answer.headers)}
    with contextlib.closing(_FileReader(answer.file)) as reader:
        await send_stream(scope, receive, send, reader.pieces(0 if head else answer.size), headers, now_ms)


class _FileReader:
    """Reads in a thread. Closing waits for a piece that is being read: its number could soon be another file's."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    async def pieces(self, left: int) -> AsyncIterator[bytes]:
        """Each is read when the client has taken those before."""
        while left:
            piece = await asyncio.to_thread(self._read, min(PIECE, left))
            if not piece:
                # It has become shorter: the client is to see that this is not all.
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
    """A response that ends the connection. What the client is still sending is taken for a moment and dropped:
    closing on unread bytes resets the connection, and the client would not see why."""
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
    scope: Scope, receive: Receive, send: Send, chunks: AsyncIterator[bytes], headers: Mapping[str, str], now_ms: int
) -> None:
    """Ends when the chunks do, or the client leaves."""
    date = formatdate(now_ms / 1000, usegmt=True)
    response = StreamingResponse(chunks, headers={**_ALWAYS, "date": date, **headers})
    await response(scope, receive, send)


async def news_chunks(answer: ChangeStream, clock: Clock) -> AsyncIterator[bytes]:
    """A beat at once, so that the client sees that it is connected."""
    yield answer.beat
    while True:
        try:
            heard = await within(clock, answer.every, answer.listener.hear())
        except TimeoutError:
            yield answer.beat
            continue
        if not heard:
            return
        yield b"".join(answer.encode(news) for news in heard)


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
