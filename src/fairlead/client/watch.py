"""The events of one session across reconnects.

After a reconnect the watch resumes from its cursor: every event arrives once, in order.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
import websockets.asyncio.client as websocket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from fairlead.client.connection import ErrorDetails, open_socket, response_error
from fairlead.client.endpoint import Locate
from fairlead.client.errors import Unreachable, from_code
from fairlead.model import events as ev


class EventLine(msgspec.Struct, frozen=True):
    """One event as received. `event` is None for a type that this version does not know."""

    seq: int
    log_id: str
    raw: bytes
    event: ev.Event | None


class Note(msgspec.Struct, frozen=True):
    """A change of the connection. `gap`: the log differs from the one read before; it is replayed from its start."""

    kind: str
    text: str


class ReconnectDelays(msgspec.Struct, frozen=True):
    """Delays between attempts to reconnect: about half a minute in all, a restart takes a few seconds."""

    tries: int = 12
    first: float = 0.2
    longest: float = 4.0

    def delay(self, attempt: int) -> float:
        return min(self.first * 2.0**attempt, self.longest)


DELAYS = ReconnectDelays()


class _Frame(msgspec.Struct):
    """Any frame of the gateway: an event has a sequence number in the log, other frames are known by their type.

    Only the fields that all frames share: another field may mean one thing in an event and another in other frames."""

    type: str = ""
    seq: int | None = None
    prev: int | None = None


class _Subscribed(msgspec.Struct):
    verdict: str
    log_id: str


def read_line(raw: bytes, log_id: str) -> EventLine:
    try:
        event = ev.decode(raw)
    except msgspec.ValidationError:
        event = None
    return EventLine(msgspec.json.decode(raw, type=_Frame).seq or 0, log_id, raw, event)


class SessionWatch:
    """Subscription to a session's events from a cursor on, for as long as they are read.

    It reconnects after every disconnect and reports each with a `Note`; no event is lost or repeated. Raises
    Unreachable when all attempts to reconnect have failed, and every other `ClientError` at once."""

    def __init__(
        self, locate: Locate, session: str, after: int, log_id: str = "", patience: ReconnectDelays = DELAYS
    ) -> None:
        self._locate = locate
        self._session = session
        self.seq = after
        self.log_id = log_id
        self._patience = patience

    async def items(self) -> AsyncGenerator[EventLine | Note, None]:
        """Yield events and notes. The reader must close the generator (`contextlib.aclosing`): it closes the socket."""
        attempt = 0
        lost = False
        while True:
            cause: Exception = EOFError("it closed the connection")
            try:
                connecting = open_socket(self._locate(), "/v1/ws", "fairlead.v1.json")
                async with connecting as socket, aclosing(self._subscribed(socket)) as events:
                    try:
                        async for item in events:
                            attempt = 0
                            if lost:
                                lost = False
                                yield Note("back", "The gateway is back.")
                            if item is not None:
                                yield item
                    finally:
                        # The reader is done, or was cancelled. Without this close, the connection would end with an
                        # error (1011).
                        await socket.close()
            except InvalidStatus as error:
                status = error.response.status_code
                if status < 500 and status != 429:
                    raise response_error(status, error.response.body, self._locate().url) from error
                cause = error
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError, EOFError) as error:
                cause = error
            except Unreachable as error:
                # A gateway that stops removes the file with its address.
                cause = error
            if not lost:
                lost = True
                yield Note("lost", "The gateway does not answer; waiting for it.")
            if attempt >= self._patience.tries:
                raise Unreachable(
                    f"The gateway did not come back ({cause}). Nothing is lost: start it with: fairlead serve\n"
                    f"then continue with: fairlead attach {self._session}"
                ) from cause
            await asyncio.sleep(self._patience.delay(attempt))
            attempt += 1

    async def _subscribed(self, socket: websocket.ClientConnection) -> AsyncGenerator[EventLine | Note | None, None]:
        """Subscribe and yield events and notes. Yields None once subscribed: the first event may take a long time."""
        wanted = {"type": "subscribe", "id": 1, "session": self._session, "after": self.seq, "log_id": self.log_id}
        await socket.send(msgspec.json.encode(wanted).decode())
        async for raw in socket:
            data = raw.encode() if isinstance(raw, str) else raw
            frame = msgspec.json.decode(data, type=_Frame)
            if frame.seq is not None and frame.prev is not None:
                if frame.seq > self.seq:
                    line = read_line(data, self.log_id)
                    self.seq = frame.seq
                    yield line
            elif frame.type == "subscribed":
                answer = msgspec.json.decode(data, type=_Subscribed)
                self.log_id = answer.log_id
                yield None
                if answer.verdict == "gap":
                    self.seq = 0
                    yield Note("gap", "The log was replaced; its events follow from the first one.")
            elif frame.type == "error":
                refused = msgspec.json.decode(data, type=ErrorDetails)
                raise from_code(refused.code, refused.message)
