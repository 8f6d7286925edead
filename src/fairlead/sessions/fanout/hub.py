"""Fan-out: one hub per session (and one per projection in use), each with any number of subscriptions. The writer
never waits for a reader.

A subscription is a cursor plus the unsent bytes of its sink. While that backlog is small, the subscription is live: it
receives bytes that were encoded once for all subscriptions with an equal encoder. When it lags, nothing is buffered for
it: it reads the log from its cursor, a page at a time, as its sink drains, and is live again when it reaches the head.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import CatchUpEncoder, Contextual, Cursor, FrameEncoder, ResumableEncoder, Sink
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page

BUFFER = 1 << 20
"""Bytes that may wait in a subscription's sink (design: buffer per watcher)."""
PAGE_ENTRIES = 500
PAGE_BYTES = 256 << 10

MAX_CONCURRENT_PAGES = 16
"""Pages read at the same time, over all subscriptions: each stays in memory until it has been sent."""

log = logging.getLogger("fairlead.watch")

_reading: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


def _turns() -> asyncio.Semaphore:
    return _reading.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_CONCURRENT_PAGES))


class EntrySource(Protocol):
    """Source for lagging subscriptions: a log, or a projection's rows as entries whose seq is the ordinal."""

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> Page: ...


Follower = Callable[[Sequence[Entry]], None]


def encode_entries(
    variant: FrameEncoder | CatchUpEncoder, context: Any, session: SessionId, entries: Sequence[Entry]
) -> tuple[Any, bytes]:
    """Encode the entries; return the context after them and the joined frames."""
    if not isinstance(variant, Contextual):
        return None, b"".join([variant.encode(session, entry) for entry in entries])
    frames = []
    for entry in entries:
        context, data = variant.step(context, session, entry)
        frames.append(data)
    return context, b"".join(frames)


class Hub:
    """The subscriptions of one session, grouped by encoder so that each entry is encoded once per group.

    `of`: for a projection's hub, the hub of its session. A subscriber to a projection counts as present in the session
    and receives the session's signals."""

    def __init__(self, session: SessionId, store: EntrySource, of: "Hub | None" = None) -> None:
        self.session = session
        self.store = store
        self.head = 0
        self.failed: FairleadError | None = None
        self.encoded = 0
        """Number of encodings for live subscriptions: one per entry and encoder, however many subscriptions."""
        self._of = of
        self.busy = False
        """The reducer is ahead of the published rows: a subscription that became live now would get rows twice."""
        self.on_live: Callable[[bool], Sequence[Entry]] | None = None
        """Returns the transient entries that a subscription needs when it becomes live. Argument: whether it becomes
        live for the first time."""
        self.joining: list[Subscription] = []
        self._followers: dict[Hub, Follower] = {}
        """The projections' hubs, each with the function that receives the published entries."""
        self._groups: dict[FrameEncoder, set[Subscription]] = {}
        self._present: Counter[str] = Counter()

    def finish_batch(self) -> None:
        """End a batch: its rows are published, so subscriptions that caught up meanwhile can become live."""
        self.busy = False
        joining, self.joining = self.joining, []
        for watcher in joining:
            watcher.join()

    def follow(self, view: "Hub", follower: Follower) -> Callable[[], object]:
        """Call `follower` with all published entries and forward signals to `view`; the returned function ends both."""
        self._followers[view] = follower
        return lambda: self._followers.pop(view, None)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Send stored entries to all live subscriptions. Called right after the append, in order."""
        first, last = entries[0].seq, entries[-1].seq
        self.head = last
        for variant, watchers in self._groups.items():
            live = [watcher for watcher in watchers if watcher.live]
            level = [watcher for watcher in live if watcher.position < first]
            if level:
                # Subscriptions at the same position have the same context.
                context, data = encode_entries(variant, level[0].context, self.session, entries)
                self.encoded += len(entries)
            for watcher in live:
                if watcher.position < first:
                    watcher.push(data, last, context)
                else:
                    watcher.push_rest(entries)
        for follower in tuple(self._followers.values()):
            follower(entries)

    def publish_read(self, entries: Sequence[Entry]) -> None:
        """Publish entries of another node, read from the log. Live subscriptions rely on having received every delta:
        if some are gone from the log already, they read on from their position instead."""
        if entries[0].seq == self.head + 1 and entries[-1].seq == self.head + len(entries):
            self.publish(entries)
            return
        self.head = entries[-1].seq
        self.resync()
        for follower in tuple(self._followers.values()):
            follower(entries)

    def publish_transient(self, entry: Entry) -> None:
        """Send a transient entry to the live subscriptions that have received nothing later than it."""
        for variant, watchers in self._groups.items():
            live = [watcher for watcher in watchers if watcher.live and watcher.position <= entry.seq]
            if not live:
                continue
            _, data = encode_entries(variant, live[0].context, self.session, (entry,))
            self.encoded += 1
            for watcher in live:
                watcher.send_transient(data)

    def resync(self) -> None:
        """Make every subscription read on from its position: another writer stored rows, unpublished here."""
        for watcher in self._watchers():
            watcher.catch_up()

    def fail(self, error: FairleadError) -> None:
        """Fail all present and future subscriptions: nothing more will be published."""
        self.failed = error
        for watcher in self._watchers():
            watcher.fail(error)

    def _watchers(self) -> "tuple[Subscription, ...]":
        return tuple(watcher for watchers in self._groups.values() for watcher in watchers)

    def signal(self, kind: str, name: str, data: Any, *, but: Identity | None = None) -> None:
        """Send a transient signal to all subscriptions, except those of the credential of `but`."""
        for variant, watchers in self._groups.items():
            frame = variant.signal(self.session, kind, name, data)
            if not frame:
                continue
            for watcher in watchers:
                if but is None or watcher.who.credential != but.credential:
                    watcher.send_signal(frame)
        for view in self._followers:
            view.signal(kind, name, data, but=but)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the subscribers to the session or a projection of it, each once."""
        return tuple(sorted(self._present))

    @property
    def identities(self) -> frozenset[Identity]:
        """Identities with a subscription to the session or to a projection of it."""
        return frozenset(watcher.who for hub in (self, *self._followers) for watcher in hub._watchers())

    @property
    def live_identities(self) -> frozenset[Identity]:
        """Identities with a live subscription to the session or to a projection of it."""
        hubs = (self, *self._followers)
        return frozenset(watcher.who for hub in hubs for watcher in hub._watchers() if watcher.live)

    @property
    def empty(self) -> bool:
        return not self._groups and not self._followers

    def add(self, watcher: "Subscription") -> None:
        (self._of or self)._count_present(watcher.who.name, 1)
        self._groups.setdefault(watcher.variant, set()).add(watcher)

    def remove(self, watcher: "Subscription") -> None:
        watchers = self._groups.get(watcher.variant, set())
        if watcher not in watchers:
            return
        watchers.discard(watcher)
        if not watchers:
            del self._groups[watcher.variant]
        (self._of or self)._count_present(watcher.who.name, -1)

    def _count_present(self, name: str, change: int) -> None:
        before = self.names
        self._present[name] += change
        self._present = +self._present  # without the names that have no subscription any more
        if self.names != before:
            self.signal("presence", name, self.names)


@dataclass(eq=False, repr=False)
class Subscription:
    """One subscription; implements `model.gateway.SubscriptionHandle`. Its place is `position` and `context`.

    `on_leave` is called on close if the subscription was live: its client had been sent everything."""

    feed: Hub
    who: Identity
    variant: FrameEncoder
    sink: Sink
    since: Cursor
    head: int
    log_id: str
    verdict: Literal["ok", "gap"]
    buffer: int = BUFFER
    on_close: Callable[[], None] = lambda: None
    on_leave: Callable[[], None] = lambda: None
    live: bool = False
    _task: asyncio.Task[None] | None = None
    _closed: bool = False
    _met: bool = False
    _read_entries: int = 0
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.position, self.context, self._frame = self.since.seq, self.since.context, self.since.frame

    def start(self) -> None:
        if self.feed.failed is not None:
            self.fail(self.feed.failed)
            return
        self.feed.head = max(self.feed.head, self.head)
        self.feed.add(self)
        self.catch_up()

    def close(self) -> None:
        if self.live:
            self.on_leave()
        self.live = False
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self.feed.remove(self)
        self.on_close()

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.position, self.log_id, self._frame, self.context)

    def drained(self) -> None:
        self._room.set()

    def push(self, data: bytes, last: int, context: Any) -> None:
        if self.sink.backlog() + len(data) > self.buffer and self.sink.backlog() > 0:
            log.info("slow reader", extra={"session": self.feed.session, "seq": self.position, "who": self.who.name})
            self.catch_up()
            return
        self.position, self.context = last, context
        if data:
            self.sink.send(data)
            log.debug("new sent", extra={"session": self.feed.session, "who": self.who.name, "up_to": last})

    def send_transient(self, data: bytes) -> None:
        """Send a transient frame. It is not queued for a slow reader: that one catches up when its sink has room, and
        then receives the accumulated state."""
        if not data:
            return
        if self.sink.backlog() + len(data) > self.buffer:
            self.catch_up()
        else:
            self.sink.send(data)

    def send_signal(self, frame: bytes) -> None:
        """Send a signal. It has no position among the entries, so a subscription that reads history gets it too; it is
        dropped for a slow one."""
        if self.sink.backlog() <= self.buffer:
            self.sink.send(frame)

    def fail(self, error: FairleadError) -> None:
        self.live = False
        self.close()
        self.sink.fail(error)

    def push_rest(self, entries: Sequence[Entry]) -> None:
        """Send the entries after `position`: the earlier ones were already read from the log."""
        for entry in entries:
            if entry.seq > self.position and self.live:
                context, data = encode_entries(self.variant, self.context, self.feed.session, (entry,))
                self.push(data, entry.seq, context)

    def join(self) -> None:
        """Become live after waiting for the end of a batch, or catch up with the rows of that batch first."""
        if self._closed:
            return
        if self.position < self.feed.head:
            self.catch_up()
        else:
            self._go_live()

    def _go_live(self) -> None:
        self.live = True
        first_time, self._met = not self._met, True
        if first_time:
            named = {"session": self.feed.session, "who": self.who.name, "entries": self._read_entries}
            log.info("history sent", extra={**named, "up_to": self.position})
        if self.feed.on_live is not None:
            _, frames = encode_entries(self.variant, self.context, self.feed.session, self.feed.on_live(first_time))
            if frames:
                self.sink.send(frames)

    def catch_up(self) -> None:
        self.live = False
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            variant = self.variant
            reading: CatchUpEncoder = variant
            if isinstance(variant, ResumableEncoder):
                reading = variant.catch_up(self.position, self._frame)
            while not await self._read_page(reading):
                pass
        except FairleadError as error:
            log.warning("cannot read for a subscription", extra={"session": self.feed.session, "error": error.message})
            self.fail(error)

    async def _read_page(self, reading: CatchUpEncoder) -> bool:
        """Send one page from the log; true when the head is reached and the subscription is live or about to be."""
        self._room.clear()
        if self.sink.backlog() > self.buffer // 2:
            await self._room.wait()
        async with _turns():
            page = await self.feed.store.read(self.feed.session, self.position, PAGE_ENTRIES, PAGE_BYTES)
            if page.entries:
                self.context, frames = encode_entries(reading, self.context, self.feed.session, page.entries)
                self.position = page.entries[-1].seq
                self._read_entries += len(page.entries)
                if frames:
                    self.sink.send(frames)
                return False
        if self.feed.head <= page.head:
            # Nothing was published since the page was read. The entry at the head may be gone: it counts as sent.
            self.position = max(self.position, self.feed.head)
            if self.feed.busy:
                self.feed.joining.append(self)
            else:
                self._go_live()
            return True
        return False
