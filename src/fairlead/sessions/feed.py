"""Fan-out: one feed a session, any number of watchers. The writer never waits for a reader.

A watcher is a cursor plus what its sink has not sent yet. While that is small it is live: it gets the bytes
that were made once for all watchers of its variant. When it lags, nothing is kept for it: it reads the log
from its cursor, a page at a time, as its sink drains, and is live again when it has reached the head.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import Sink, Variant
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Store

BUFFER = 1 << 20
"""Bytes that may wait in a watcher's sink (design: buffer per watcher)."""
PAGE_ENTRIES = 500
PAGE_BYTES = 256 << 10

log = logging.getLogger("fairlead.watch")


class Feed:
    """The watchers of one session, grouped by variant so that each entry is encoded once a group."""

    def __init__(self, session: SessionId, store: Store) -> None:
        self.session = session
        self.store = store
        self.head = 0
        self._groups: dict[str, tuple[Variant, set[Watcher]]] = {}
        self._present: Counter[str] = Counter()

    def publish(self, entries: Sequence[Entry]) -> None:
        """Hand stored entries to everybody who is live. Called right after the append, in order."""
        first, last = entries[0].seq, entries[-1].seq
        self.head = last
        for variant, watchers in self._groups.values():
            live = [watcher for watcher in watchers if watcher.live]
            if not live:
                continue
            data = b"".join(variant.encode(self.session, entry) for entry in entries)
            for watcher in live:
                if watcher.position < first:
                    watcher.push(data, last)
                else:
                    watcher.push_rest(entries)

    def signal(self, kind: str, name: str, data: Any, *, but: Identity | None = None) -> None:
        """A passing matter to all watchers (but one's own sockets)."""
        for variant, watchers in self._groups.values():
            frame = variant.signal(self.session, kind, name, data)
            if not frame:
                continue
            for watcher in watchers:
                if watcher.live and (but is None or watcher.who.credential != but.credential):
                    watcher.sink.send(frame)

    @property
    def names(self) -> tuple[str, ...]:
        """Who watches, each name once."""
        return tuple(sorted(self._present))

    @property
    def empty(self) -> bool:
        return not self._groups

    def join(self, watcher: "Watcher") -> None:
        _, watchers = self._groups.setdefault(watcher.variant.key, (watcher.variant, set()))
        watchers.add(watcher)
        self._present[watcher.who.name] += 1
        if self._present[watcher.who.name] == 1:
            self.signal("presence", watcher.who.name, self.names)

    def leave(self, watcher: "Watcher") -> None:
        variant, watchers = self._groups.get(watcher.variant.key, (None, set()))
        if variant is None or watcher not in watchers:
            return
        watchers.discard(watcher)
        if not watchers:
            del self._groups[watcher.variant.key]
        self._present[watcher.who.name] -= 1
        if not self._present[watcher.who.name]:
            del self._present[watcher.who.name]
            self.signal("presence", watcher.who.name, self.names)


class Watcher:
    """One subscription; implements `model.gateway.Watch`."""

    def __init__(
        self,
        feed: Feed,
        who: Identity,
        variant: Variant,
        sink: Sink,
        *,
        position: int,
        head: int,
        log_id: str,
        verdict: Literal["ok", "gap"],
        buffer: int = BUFFER,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.feed = feed
        self.who = who
        self.variant = variant
        self.sink = sink
        self.position = position
        self.head = head
        self.log_id = log_id
        self.verdict = verdict
        self.live = False
        self._buffer = buffer
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._on_close = on_close

    def start(self) -> None:
        self.feed.head = max(self.feed.head, self.head)
        self.feed.join(self)
        self._catch_up()

    def close(self) -> None:
        self.live = False
        if self._task is not None:
            self._task.cancel()
        self.feed.leave(self)
        self._on_close()

    def drained(self) -> None:
        self._room.set()

    def push(self, data: bytes, last: int) -> None:
        if self.sink.backlog() + len(data) > self._buffer and self.sink.backlog() > 0:
            log.info("slow reader", extra={"session": self.feed.session, "seq": self.position, "who": self.who.name})
            self._catch_up()
            return
        self.position = last
        if data:
            self.sink.send(data)

    def push_rest(self, entries: Sequence[Entry]) -> None:
        """It has read some of these from the log already."""
        for entry in entries:
            if entry.seq > self.position and self.live:
                self.push(self.variant.encode(self.feed.session, entry), entry.seq)

    def _catch_up(self) -> None:
        self.live = False
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            while not await self._read_page():
                pass
        except FairleadError as error:
            log.warning("reading for a watcher failed", extra={"session": self.feed.session, "error": error.message})
            self.close()

    async def _read_page(self) -> bool:
        """Send one page from the log; true when the head is reached and the watcher is live."""
        self._room.clear()
        if self.sink.backlog() > self._buffer // 2:
            await self._room.wait()
        page = await self.feed.store.read(self.feed.session, self.position, PAGE_ENTRIES, PAGE_BYTES)
        if page.entries:
            frames = b"".join(self.variant.encode(self.feed.session, entry) for entry in page.entries)
            self.position = page.entries[-1].seq
            if frames:
                self.sink.send(frames)
        elif self.feed.head <= page.head:
            # Nothing was published since the page was read; a head whose entry is gone counts as seen.
            self.position = max(self.position, self.feed.head)
            self.live = True
            return True
        return False
