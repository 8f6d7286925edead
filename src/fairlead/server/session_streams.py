"""Streaming responses that are made from a subscription: the sink of its frames, and the chunks of the response."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from itertools import count
from typing import Final

from fairlead.auth.credentials import Credentials
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, NotAllowed
from fairlead.model.formats.bounded_tables import drop_oldest
from fairlead.model.gateway import Gateway, SubscriptionHandle
from fairlead.model.ids import SessionId
from fairlead.model.web.routes import SendToStreams, SessionStream
from fairlead.server.asgi import Receive, Send
from fairlead.server.responses import send_stream
from fairlead.system.clock import Clock, within

KEPT_S: Final = 60.0
KEPT_FRAMES: Final = 64
KEPT_INBOXES: Final = 1000
"""Limits of the frames that are sent again to a stream that is opened after them."""

Inbox = tuple[str, SessionId, str]
"""Where frames outside the log are sent: a credential, a session and the name of a stream."""


class StreamSink:
    """Holds frames until the response takes them. Implements `model.gateway.Sink`."""

    def __init__(self) -> None:
        self.error: FairleadError | None = None
        self._frames: list[bytes] = []
        self._size = 0
        self._ready = asyncio.Event()

    def send(self, data: bytes) -> None:
        self._frames.append(data)
        self._size += len(data)
        self._ready.set()

    def backlog(self) -> int:
        return self._size

    def fail(self, error: FairleadError) -> None:
        self.error = error
        self._ready.set()

    def revoke(self) -> None:
        self.fail(NotAllowed("The credential was revoked, or allows less than before."))

    async def wait(self) -> None:
        """Wait until there are frames or an error."""
        await self._ready.wait()

    def take(self) -> bytes:
        data, self._frames, self._size = b"".join(self._frames), [], 0
        if self.error is None:
            self._ready.clear()
        return data


class SessionStreams:
    """The open responses of a server."""

    def __init__(self, gateway: Gateway, credentials: Credentials, clock: Clock) -> None:
        self._gateway = gateway
        self._credentials = credentials
        self._clock = clock
        self._open: dict[StreamSink, Inbox] = {}
        self._kept: dict[Inbox, dict[int, bytes]] = {}
        self._numbers = count()

    async def send_to_streams(self, who: Identity, call: SendToStreams) -> None:
        """Send a frame to open streams, and keep it: a connection may be dead before anybody notices it."""
        inbox, number = (who.credential, call.session, call.name), next(self._numbers)
        kept = self._kept.setdefault(inbox, {})
        kept[number] = call.frame
        drop_oldest(kept, KEPT_FRAMES)
        drop_oldest(self._kept, KEPT_INBOXES, keep=inbox)
        self._clock.call_later(KEPT_S, partial(self._forget, inbox, number))
        for sink, receives in self._open.items():
            if receives == inbox:
                sink.send(call.frame)

    def _forget(self, inbox: Inbox, number: int) -> None:
        kept = self._kept.get(inbox, {})
        kept.pop(number, None)
        if not kept:
            self._kept.pop(inbox, None)

    async def send(self, receive: Receive, send: Send, who: Identity, answer: SessionStream) -> None:
        """Send a response until its end, until the client disconnects or its credential is revoked. Raises an error of
        the subscription before anything is sent."""
        sink = StreamSink()
        detach = self._credentials.attach(who, sink.revoke, sink.revoke)
        inbox = (who.credential, answer.session, answer.name)
        self._open[sink] = inbox
        for frame in self._kept.get(inbox, {}).values():
            sink.send(frame)
        try:
            handle = await self._gateway.watch(who, answer.session, answer.cursor, answer.encoder, sink)
            # At once: a hub without subscriptions may be dropped. The sink holds what comes before the first frames.
            handle.start()
            try:
                headers = {"content-type": answer.content_type}
                chunks = session_chunks(answer, handle, sink, self._clock)
                await send_stream(receive, send, chunks, headers, self._clock.now_ms())
            finally:
                handle.close()
        finally:
            del self._open[sink]
            detach()

    def stop(self, error: FairleadError) -> None:
        """End all responses."""
        for sink in tuple(self._open):
            sink.fail(error)


async def session_chunks(
    answer: SessionStream, handle: SubscriptionHandle, sink: StreamSink, clock: Clock
) -> AsyncGenerator[bytes]:
    """Yield the first frames, then those of the subscription."""
    encoder = answer.encoder
    yield answer.gap + answer.first if handle.verdict == "gap" else answer.first
    while True:
        settling = encoder.settling(handle.cursor.context)
        try:
            await within(clock, answer.settle if settling else answer.every, sink.wait())
        except TimeoutError:
            if not settling:
                yield answer.beat
            elif handle.position >= handle.head:
                yield encoder.settled(handle.cursor.context)
                return
            # Else history is still being read: later entries may settle what its end leaves open.
            continue
        frames = sink.take()
        handle.drained()
        if frames:
            yield frames
        if encoder.finished(handle.cursor.context) and not sink.backlog():
            return
        if sink.error is not None:
            yield encoder.failed(handle.cursor.context, sink.error)
            return
