"""The CLI over a dial-in link: what it says twice is heard once, and what was lost is looked up in its transcript.

Measured: when its socket drops, 2.1.37 loses what it says until it is back; 2.1.120 says its last 1000 messages again
at every return. Both name the last message that they wrote in `X-Last-Request-Id`: one that never came is a gap. A
permission that is asked while the socket is down is lost in both.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agents.claude.transcripts.recovery import BLOCK, place_after, whole_rows
from fairlead.agents.claude.versions import Version, abilities
from fairlead.agents.claude.wire.decode import decode
from fairlead.agents.claude.wire.encode import keep_alive_line
from fairlead.agents.claude.wire.framing import LineSplitter
from fairlead.agents.claude.wire.markers import ConnectionMarker, link_marker
from fairlead.agents.claude.wire.records import UserRecord
from fairlead.agents.links.dialin import DialInConnection, DialInLink
from fairlead.model.agents import Exit, Record
from fairlead.model.ids import MessageId
from fairlead.system.clock import Clock, Timer
from fairlead.system.pipes import Take

logger = logging.getLogger("fairlead.agents.claude")

REMEMBERED: Final = 4096
"""Messages known again: several times the 1000 that the CLI keeps to say again."""
SETTLING_SECONDS: Final = 3.0
"""After its return the CLI says again at once what it will say again. Later, what is missing is missing."""

KEEP_ALIVE_SECONDS: Final = 300.0
"""As often as 2.1.120 says it to us. Neither side draws anything from its absence."""
HYBRID_SECONDS: Final = 0.25
"""Measured: 2.1.37 knows of its own request only when the answer to its post has come, and an answer to the request
that is there before is lost, and the turn with it. Posts follow each other every 50 ms."""

Tell = Callable[[list[Record]], Awaitable[None]]


class _Name(msgspec.Struct):
    """What names a message."""

    type: str = ""
    uuid: str | None = None
    request_id: str | None = None


_names: Final = msgspec.json.Decoder(_Name)


class Deduplicator:
    """Lets every message through once. Pure."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()

    def name(self, line: bytes) -> str:
        """Its uuid; for a request its id; empty for what has no name and is always new."""
        try:
            found = _names.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""  # a piece of a line, or no JSON: the driver will see
        if found.uuid:
            return found.uuid
        # Only the request itself: an answer and a withdrawal carry the same id.
        return f"request {found.request_id}" if found.type == "control_request" and found.request_id else ""

    def knows(self, name: str) -> bool:
        return name in self._seen

    def first(self, name: str) -> bool:
        """Whether it is new; from now on it is not."""
        if name in self._seen:
            return False
        self._seen[name] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return True


class ClaudeDialIn:
    """Implements `Link` around a dial-in link. `tell` hands records of ours to the core, in order with the CLI's."""

    def __init__(self, link: DialInLink, version: Version, clock: Clock, transcript: Path) -> None:
        self.link = link
        self.tell: Tell
        self.asked: Callable[[], tuple[str, ...]]
        self._replays = abilities(version).replays
        self._clock = clock
        self._transcript = transcript
        self._sieve = Deduplicator()
        self._prompt: MessageId | None = None
        self._missing = ""
        self._heard = 0
        self._settling: asyncio.Task[None] | None = None
        self._keeping: Timer | None = None

    @property
    def pid(self) -> int:
        return self.link.pid

    @property
    def started(self) -> str:
        return "" if self.link.child is None else self.link.child.started

    @property
    def group(self) -> int:
        return 0 if self.link.child is None else self.link.child.group

    @property
    def running(self) -> bool:
        return self.link.running

    async def send(self, data: bytes) -> None:
        if b'"user"' in data and isinstance(message := decode(data), UserRecord) and message.uuid:
            self._prompt = MessageId(message.uuid)
        if self.link.posts and b'"control_response"' in data:
            await self._clock.sleep(HYBRID_SECONDS)
        await self.link.send(data)

    async def stop(self) -> Exit:
        return await self.link.stop()

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
        self.link.pass_by(keep_alive_line())
        self._keeping = self._clock.call_later(KEEP_ALIVE_SECONDS, self._keep_alive)

    # --- what comes twice

    async def _sift(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        kept: list[bytes] = []
        for line in lines:
            name = self._sieve.name(line) if line else ""
            if name and self._missing:
                await self._replayed(name)
            if not name or self._sieve.first(name):
                kept.append(line)
        fresh = data if len(kept) == len(lines) else b"\n".join(kept)
        self._heard += fresh.strip() != b""
        return fresh

    async def _replayed(self, first: str) -> None:
        """The first message after a return: if it is known, the CLI says again all that was lost."""
        missing, self._missing = self._missing, ""
        if not self._sieve.knows(first):
            await self._fill(missing)

    # --- what is missing

    async def _arrived(self, arrival: DialInConnection) -> None:
        await self._calm()
        if not arrival.again:
            self._keeping = self._clock.call_later(KEEP_ALIVE_SECONDS, self._keep_alive)
            return
        self._missing = "" if not arrival.last or self._sieve.knows(arrival.last) else arrival.last
        lost = ""
        if self._missing and not self._replays:
            lost, self._missing = self._missing, ""
        over = bool(lost) and not await self._fill(lost)
        self._heard = 0
        self._settling = asyncio.create_task(self._settle(over))

    async def _settle(self, over: bool) -> None:
        """Some time after its return: what did not come by itself is looked up, and a person is told what may hang.

        `over`: the last that it wrote is not in the transcript, so it is a result, or a piece of a message; if it
        has said nothing since, it was a result."""
        await self._clock.sleep(SETTLING_SECONDS)
        if self._missing:
            missing, self._missing = self._missing, ""
            over = not await self._fill(missing)
        marker = ConnectionMarker(
            cause=str(uuid.uuid4()), over=over and self._heard == 0, back=True, asked=self.asked()
        )
        await self._tell(marker)

    async def _calm(self) -> None:
        task, self._settling = self._settling, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def _fill(self, missing: str) -> bool:
        """Give the rows since the last prompt; those that are known already mean nothing new. True if the missing
        message is one of them."""
        await self._tell(ConnectionMarker(cause=str(uuid.uuid4()), gap=True))
        found, count = False, 0
        async for batch in self._rows():
            found = found or any(missing.encode() in record.raw for record in batch)
            count += len(batch)
            await self.tell(batch)
        logger.info("a gap was filled from the transcript", extra={"pid": self.pid, "rows": count})
        return found

    async def _rows(self) -> AsyncIterator[list[Record]]:
        splitter = LineSplitter()
        offset = await asyncio.to_thread(place_after, self._transcript, self._prompt)
        while data := await asyncio.to_thread(_read, self._transcript, offset):
            offset += len(data)
            batch = whole_rows(splitter.feed(data))
            if batch:
                yield batch

    async def _tell(self, marker: ConnectionMarker) -> None:
        await self.tell([Record(link_marker(marker), "gateway")])


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(BLOCK)
    except OSError:
        return b""
