"""The feed: changes and notices in one order, stored before they are sent, encoded once for all subscribers.

Rule: nothing here waits for a subscriber. A subscriber that does not read keeps its position and continues from the
store when it reads again; its backlog in memory is bounded.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.web.sockets import SocketHandle
from fairlead.notifications.api import feed as api
from fairlead.notifications.api.resources import ResourceStore, RowAsRead, StoredResource
from fairlead.system.clock import Clock

UNSENT_BYTES: Final = 128 * 1024
"""Maximum backlog of one subscriber; above the mark at which a connection reports that it has drained."""
PAGE: Final = 200
LOST: Final = (1013, "too far behind: connect again")
UNREADABLE: Final = (1011, "the feed cannot be read: connect again")


class ChangeFeed:
    """Call `start` before anything else."""

    def __init__(self, store: ResourceStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.subscribers: set[FeedSubscriber] = set()
        self.listeners: list[Callable[[], None]] = []
        """Called after every entry, for readers that continue from the store."""
        self.id = ""
        self.head = 0

    async def start(self) -> None:
        page = await self._store.feed(0, 1)
        self.id, self.head = page.feed, page.head
        self._store.listen(self._on_entries)

    async def write(
        self,
        *items: api.FeedItem,
        puts: Sequence[StoredResource] = (),
        removes: Sequence[tuple[str, str]] = (),
        most: Mapping[str, int] | None = None,
        expected: Sequence[RowAsRead] = (),
    ) -> tuple[api.FeedEntry, ...]:
        """Store changed rows together with their feed entries, which are then published."""
        return await self._store.write(self._clock.now_ms(), puts, removes, items, most, expected)

    async def forget(self, user: str) -> None:
        await self._store.forget(user)

    async def read(self, after: int, limit: int) -> api.FeedPage:
        return await self._store.feed(after, limit)

    def join(self, who: Identity, codec: api.FeedCodec) -> "FeedSubscriber":
        return FeedSubscriber(self, who, codec, self._clock)

    def _on_entries(self, entries: Sequence[api.FeedEntry]) -> None:
        for entry in entries:
            self._publish(entry)

    def _publish(self, entry: api.FeedEntry) -> None:
        self.head = entry.seq
        encoded: dict[tuple[str, bool], bytes] = {}
        # A copy: a subscriber whose socket fails leaves during the send.
        for peer in tuple(self.subscribers):
            frames = b""
            if peer.wants(entry):
                key = peer.encoding_key
                frames = encoded.get(key) or encoded.setdefault(key, peer.encode(entry))
            peer.send_entry(entry, frames)
        for listener in self.listeners:
            listener()


class FeedSubscriber:
    """One socket of the feed. Implements `model.web.sockets.SocketOwner`."""

    def __init__(self, feed: ChangeFeed, who: Identity, codec: api.FeedCodec, clock: Clock) -> None:
        self._feed = feed
        self._who = who
        self._codec = codec
        self._clock = clock
        self._wire: SocketHandle | None = None
        self._ask: api.FeedRequest | None = None
        self._seq = 0
        self._behind = False
        self._room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    # --- SocketOwner

    def attached(self, wire: SocketHandle) -> None:
        self._wire = wire
        self._seq = self._feed.head
        # Registered first: a change after `connected` is never missed.
        self._feed.subscribers.add(self)
        wire.send(self._codec.opened(self._clock.now_ms()))

    def received(self, data: bytes, text: bool) -> None:
        wire, now = self._wire, self._clock.now_ms()
        assert wire is not None, "messages come only while the socket is attached"
        try:
            message = self._codec.read(data)
        except FairleadError as error:
            wire.send(self._codec.failed(error, now))
        else:
            if isinstance(message, api.FeedPing):
                wire.send(self._codec.pong(now))
            elif isinstance(message, api.FeedRequest):
                self._subscribe(wire, message, now)
        if wire.backlog() > UNSENT_BYTES:
            # Do not read from a client that does not read its answers.
            wire.pause()

    def drained(self) -> None:
        self._room.set()
        if self._wire is not None:
            self._wire.resume()
        self._read_on()

    def detached(self, code: int, reason: str) -> None:
        self._wire = None
        self._feed.subscribers.discard(self)
        if self._reading is not None:
            self._reading.cancel()

    # --- called by the feed

    @property
    def encoding_key(self) -> tuple[str, bool]:
        return self._codec.key, self._ask is not None

    def wants(self, entry: api.FeedEntry) -> bool:
        item = entry.item
        asked = isinstance(item, api.Change) or (self._ask is not None and item.topic in self._ask.topics)
        return asked and api.is_visible_to(self._who, item)

    def encode(self, entry: api.FeedEntry) -> bytes:
        return self._codec.entry(entry, api.cursor_text(self._feed.id, entry.seq) if self._ask is not None else None)

    def send_entry(self, entry: api.FeedEntry, frames: bytes) -> None:
        """Send an entry's frames. Empty frames: the entry is not for this subscriber, but its position advances."""
        wire = self._wire
        if wire is None or self._behind:
            return
        if entry.prev != self._seq or wire.backlog() > UNSENT_BYTES:
            # An entry was missed, or the client does not read: continue from the store, which has everything.
            self._behind = True
            if wire.backlog() <= UNSENT_BYTES:
                self._read_on()
            return
        self._seq = entry.seq
        if frames:
            wire.send(frames)

    def _subscribe(self, wire: SocketHandle, ask: api.FeedRequest, now: int) -> None:
        # One at a time: each may read the store.
        wire.pause()
        self._ask = ask
        feed, seq = self._feed.id, self._seq
        if ask.cursor is not None:
            feed, seq = api.read_cursor(ask.cursor) or ("", 0)
        known = feed == self._feed.id and seq <= self._feed.head
        if self._reading is not None:
            self._reading.cancel()
        self._reading = asyncio.create_task(self._resume(wire, ask, known, seq, now))
        self._behind = True

    async def _resume(self, wire: SocketHandle, ask: api.FeedRequest, known: bool, seq: int, now: int) -> None:
        """Send the verdict first, which may need a check of the oldest stored entry; then the missed entries."""
        if known and seq < self._feed.head:
            try:
                known = seq + 1 >= (await self._feed.read(seq, 1)).first
            except FairleadError:
                wire.close(*UNREADABLE)
                return
        if not known:
            seq = self._feed.head
        self._seq = seq
        cursor = api.cursor_text(self._feed.id, seq)
        wire.send(self._codec.subscribed(ask, "ok" if known else "gap", cursor, now))
        wire.resume()
        await self._catch_up(wire)

    def _read_on(self) -> None:
        wire = self._wire
        if self._behind and wire is not None and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._catch_up(wire))

    async def _catch_up(self, wire: SocketHandle) -> None:
        while self._seq < self._feed.head:
            try:
                page = await self._feed.read(self._seq, PAGE)
            except FairleadError:
                wire.close(*UNREADABLE)
                return
            if self._seq + 1 < page.first or not page.entries:
                wire.close(*LOST)
                return
            for entry in page.entries:
                while wire.backlog() > UNSENT_BYTES:
                    self._room.clear()
                    await self._room.wait()
                if self.wants(entry):
                    wire.send(self.encode(entry))
                self._seq = entry.seq
        # Nothing was awaited since the comparison: later entries are sent live.
        self._behind = False
