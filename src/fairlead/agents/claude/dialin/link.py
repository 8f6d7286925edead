"""The CLI over a dial-in link: drops repeated messages and reads lost ones from the CLI's transcript.

Measured: when its socket drops, 2.1.37 loses its output until it has reconnected; 2.1.120 resends its last 1000
messages at every reconnect. Both send the id of the last message that they wrote in `X-Last-Request-Id`: if that
message never arrived here, there is a gap. A permission request made while the socket is down is lost in both.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agents.claude.interpreter.state import SeenSet
from fairlead.agents.claude.transcripts.recovery import rows_after
from fairlead.agents.claude.versions import Abilities, Version
from fairlead.agents.claude.wire.control import keep_alive_line
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.markers import ConnectionMarker, encode_marker
from fairlead.agents.claude.wire.records import UserRecord
from fairlead.agents.driver import Deliver
from fairlead.agents.links.dialin import DialInConnection, DialInLink
from fairlead.model.agents import Record
from fairlead.model.formats.frames import decode_or_none
from fairlead.model.ids import MessageId
from fairlead.system.clock import Clock, Timer
from fairlead.system.pipes import Take

logger = logging.getLogger("fairlead.agents.claude")

REMEMBERED: Final = 4096
"""How many message ids are remembered at least: several times the 1000 messages that the CLI buffers for resending."""
SETTLING_SECONDS: Final = 3.0
"""After a reconnect the CLI resends its buffered messages at once. A message still missing after this time is lost."""

KEEP_ALIVE_SECONDS: Final = 300.0
"""The interval at which 2.1.120 sends keep-alives to us. Neither side concludes anything from a missing one."""
HYBRID_SECONDS: Final = 0.25
"""Measured: 2.1.37 registers its own control request only when the HTTP response to its post has arrived. An answer to
the request that arrives earlier is lost, and the turn with it. Posts follow each other every 50 ms."""


class _Name(msgspec.Struct):
    """The fields that identify a message."""

    type: str = ""
    uuid: str | None = None
    request_id: str | None = None


_names: Final = msgspec.json.Decoder(_Name)


def message_name(line: bytes) -> str:
    """Return the message's uuid, or the id of a control request; empty for a message without an id: always new."""
    # The driver handles a part of a line, and a line that is not JSON.
    found = decode_or_none(_names.decode, line) or _Name()
    if found.uuid:
        return found.uuid
    # Only the request itself: its answer and its cancellation carry the same id.
    return f"request {found.request_id}" if found.type == "control_request" and found.request_id else ""


class ClaudeDialIn:
    """Implements `Link` around a dial-in link. `deliver` sends records from other sources to the core, in order with
    the CLI's records; `open_calls` returns the calls with an undecided permission request."""

    output = None

    def __init__(self, link: DialInLink, version: Version, clock: Clock, transcript: Path) -> None:
        self.link = link
        self.pid = link.pid
        self.started = "" if link.child is None else link.child.started
        self.group = 0 if link.child is None else link.child.group
        self.stop = link.stop
        self.deliver: Deliver
        self.open_calls: Callable[[], tuple[str, ...]]
        self._replays = Abilities(version).replays
        self._clock = clock
        self._transcript = transcript
        self._seen = SeenSet()
        self._prompt: MessageId | None = None
        self._missing = ""
        self._received = 0
        self._settling: asyncio.Task[None] | None = None
        self._keeping: Timer | None = None

    @property
    def running(self) -> bool:
        return self.link.running

    async def send(self, data: bytes, key: str = "") -> None:
        if b'"user"' in data and isinstance(message := decode(data), UserRecord) and message.uuid:
            self._prompt = MessageId(message.uuid)
        if self.link.posts and b'"control_response"' in data:
            await self._clock.sleep(HYBRID_SECONDS)
        await self.link.send(data)

    async def receive(self, take: Take) -> None:
        async def sifted(data: bytes) -> None:
            fresh = await self._sift(data)
            if fresh:
                await take(fresh)

        try:
            await self.link.receive(sifted, self._arrived)
        finally:
            await self._calm()
            if self._keeping is not None:
                self._keeping.cancel()

    def _keep_alive(self) -> None:
        self.link.send_if_connected(keep_alive_line())
        self._keeping = self._clock.call_later(KEEP_ALIVE_SECONDS, self._keep_alive)

    # --- repeated messages

    async def _sift(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        kept: list[bytes] = []
        for line in lines:
            name = message_name(line) if line else ""
            known = name in self._seen
            if name and self._missing:
                # The first message after a reconnect: if it is known, the CLI resends everything that was lost.
                if known:
                    self._missing = ""
                else:
                    await self._fill_missing()
            if name and not known:
                self._seen.add(name, REMEMBERED)
            if not known:
                kept.append(line)
        fresh = data if len(kept) == len(lines) else b"\n".join(kept)
        self._received += fresh.strip() != b""
        return fresh

    # --- lost messages

    async def _arrived(self, arrival: DialInConnection) -> None:
        await self._calm()
        if not arrival.again:
            self._keeping = self._clock.call_later(KEEP_ALIVE_SECONDS, self._keep_alive)
            return
        self._missing = "" if arrival.last in self._seen else arrival.last
        over = False
        if self._missing and not self._replays:
            over = not await self._fill_missing()
        self._received = 0
        self._settling = asyncio.create_task(self._settle(over))

    async def _settle(self, over: bool) -> None:
        """Some time after a reconnect, read still missing messages from the transcript and emit the marker from which
        the interpreter warns about calls that may hang.

        `over`: the last message that the CLI wrote is not in the transcript, so it is a result or a part of a
        message; if the CLI has sent nothing since, it was a result."""
        await self._clock.sleep(SETTLING_SECONDS)
        if self._missing:
            over = not await self._fill_missing()
        await self._emit(ConnectionMarker(over=over and self._received == 0, back=True, asked=self.open_calls()))

    async def _calm(self) -> None:
        task, self._settling = self._settling, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def _fill_missing(self) -> bool:
        """Send the transcript's rows since the last prompt to the core; rows that are known already have no effect.

        Return whether the missing message is among them."""
        missing, self._missing = self._missing.encode(), ""
        await self._emit(ConnectionMarker(gap=True))
        found, count = False, 0
        rows = rows_after(self._transcript, self._prompt)
        while batch := await asyncio.to_thread(next, rows, None):
            found = found or any(missing in record.raw for record in batch)
            count += len(batch)
            await self.deliver(batch)
        logger.info("a gap was filled from the transcript", extra={"pid": self.pid, "rows": count})
        return found

    async def _emit(self, marker: ConnectionMarker) -> None:
        named = msgspec.structs.replace(marker, cause=str(uuid.uuid4()))
        await self.deliver([Record(encode_marker(named), "gateway")])
