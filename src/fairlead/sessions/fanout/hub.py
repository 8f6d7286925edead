"""Fan-out: one feed a session (and one for each view of it that is watched), any number of watchers. The writer never
waits for a reader.

A watcher is a cursor plus what its sink has not sent yet. While that is small it is live: it gets the bytes
that were made once for all watchers of its variant. When it lags, nothing is kept for it: it reads the log
from its cursor, a page at a time, as its sink drains, and is live again when it has reached the head.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import CatchUpEncoder, Contextual, Cursor, FrameEncoder, ResumableEncoder, Sink
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page

BUFFER = 1 << 20
"""Bytes that may wait in a watcher's sink (design: buffer per watcher)."""
PAGE_ENTRIES = 500
PAGE_BYTES = 256 << 10

READING = 16
"""Pages that are read at the same time, for all watchers: each is in memory until it was sent."""

log = logging.getLogger("fairlead.watch")

_reading: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = WeakKeyDictionary()


def _turns() -> asyncio.Semaphore:
    return _reading.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(READING))


class EntrySource(Protocol):
    """Where those who are behind read: a log, or the rows of a view as entries whose seq is the ordinal."""

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 4 << 20) -> Page: ...


Follower = Callable[[Sequence[Entry]], None]


def encoded(
    variant: FrameEncoder | CatchUpEncoder, context: Any, session: SessionId, entries: Sequence[Entry]
) -> tuple[Any, bytes]:
    """The frames of these entries, and the context after them."""
    if not isinstance(variant, Contextual):
        return None, b"".join([variant.encode(session, entry) for entry in entries])
    frames = []
    for entry in entries:
        context, data = variant.step(context, session, entry)
        frames.append(data)
    return context, b"".join(frames)


class Hub:
    """The watchers of one session, grouped by variant so that each entry is encoded once a group.

    `of`: the session's own feed, of the feed of a view; who watches a view is present in the session, and hears what
    passes there."""

    def __init__(self, session: SessionId, store: EntrySource, of: "Hub | None" = None) -> None:
        self.session = session
        self.store = store
        self.head = 0
        self.failed: FairleadError | None = None
        self.encoded = 0
        """How often an entry was encoded for those who are live: once for each variant, whatever their number."""
        self._of = of
        self.busy = False
        """A view's fold is ahead of what was told: nobody can join who would be told it twice."""
        self.welcome: Callable[[bool], Sequence[Entry]] | None = None
        """What a watcher that becomes live needs to know of what passed before; its argument: it is new."""
        self._joining: list[Subscription] = []
        self._views: set[Hub] = set()
        self._followers: set[Follower] = set()
        self._groups: dict[FrameEncoder, set[Subscription]] = {}
        self._present: Counter[str] = Counter()

    def settle(self) -> None:
        """What was folded has been told: whoever came level meanwhile can join."""
        self.busy = False
        joining, self._joining = self._joining, []
        for watcher in joining:
            watcher.join()

    def wait_for(self, watcher: "Subscription") -> None:
        self._joining.append(watcher)

    def follow(self, follower: Follower, view: "Hub") -> Callable[[], None]:
        """Call `follower` with all that is published, and let `view` hear the signals; the answer ends it."""
        self._followers.add(follower)
        self._views.add(view)

        def leave() -> None:
            self._followers.discard(follower)
            self._views.discard(view)

        return leave

    def publish(self, entries: Sequence[Entry]) -> None:
        """Hand stored entries to everybody who is live. Called right after the append, in order."""
        first, last = entries[0].seq, entries[-1].seq
        self.head = last
        for variant, watchers in self._groups.items():
            live = [watcher for watcher in watchers if watcher.live]
            level = [watcher for watcher in live if watcher.position < first]
            if level:
                # Those who are level have the same context.
                context, data = encoded(variant, level[0].context, self.session, entries)
                self.encoded += len(entries)
            for watcher in live:
                if watcher.position < first:
                    watcher.push(data, last, context)
                else:
                    watcher.push_rest(entries)
        for follower in tuple(self._followers):
            follower(entries)

    def pass_on(self, entry: Entry) -> None:
        """Hand on what is not kept, to those who are live and have nothing that came after it."""
        for variant, watchers in self._groups.items():
            live = [watcher for watcher in watchers if watcher.live and watcher.position <= entry.seq]
            if not live:
                continue
            _, data = encoded(variant, live[0].context, self.session, (entry,))
            self.encoded += 1
            for watcher in live:
                watcher.pass_on(data)

    def read_again(self) -> None:
        """Somebody else has written what these watchers were not handed: each reads on from its place."""
        for watcher in self._watchers():
            watcher.read_on()

    def fail(self, error: FairleadError) -> None:
        """Nothing will come any more; every watcher is told so, and whoever joins."""
        self.failed = error
        for watcher in self._watchers():
            watcher.fail(error)

    def _watchers(self) -> "tuple[Subscription, ...]":
        return tuple(watcher for watchers in self._groups.values() for watcher in watchers)

    def signal(self, kind: str, name: str, data: Any, *, but: Identity | None = None) -> None:
        """A passing matter to all watchers (but one's own sockets)."""
        for variant, watchers in self._groups.items():
            frame = variant.signal(self.session, kind, name, data)
            if not frame:
                continue
            for watcher in watchers:
                if but is None or watcher.who.credential != but.credential:
                    watcher.tell(frame)
        for view in self._views:
            view.signal(kind, name, data, but=but)

    @property
    def names(self) -> tuple[str, ...]:
        """Who watches the session or a view of it, each name once."""
        return tuple(sorted(self._present))

    @property
    def level(self) -> frozenset[Identity]:
        """Who is shown what happens as it happens, in the session or in a view of it."""
        feeds = (self, *self._views)
        return frozenset(watcher.who for feed in feeds for watcher in feed._watchers() if watcher.live)

    @property
    def empty(self) -> bool:
        return not self._groups and not self._followers

    def join(self, watcher: "Subscription") -> None:
        (self._of or self)._arrive(watcher.who.name)
        self._groups.setdefault(watcher.variant, set()).add(watcher)

    def leave(self, watcher: "Subscription") -> None:
        watchers = self._groups.get(watcher.variant, set())
        if watcher not in watchers:
            return
        watchers.discard(watcher)
        if not watchers:
            del self._groups[watcher.variant]
        (self._of or self)._depart(watcher.who.name)

    def _arrive(self, name: str) -> None:
        self._present[name] += 1
        if self._present[name] == 1:
            self.signal("presence", name, self.names)

    def _depart(self, name: str) -> None:
        self._present[name] -= 1
        if not self._present[name]:
            del self._present[name]
            self.signal("presence", name, self.names)


class Subscription:
    """One subscription; implements `model.gateway.Watch`. Its place is `position` and `context`."""

    def __init__(
        self,
        feed: Hub,
        who: Identity,
        variant: FrameEncoder,
        sink: Sink,
        *,
        cursor: Cursor,
        head: int,
        log_id: str,
        verdict: Literal["ok", "gap"],
        buffer: int = BUFFER,
        on_close: Callable[[], None] = lambda: None,
        on_leave: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_leave` is called before the end of one that had been sent all there was."""
        self.feed = feed
        self.who = who
        self.variant = variant
        self.sink = sink
        self.position = cursor.seq
        self.context = cursor.context
        self.head = head
        self.log_id = log_id
        self.verdict = verdict
        self.live = False
        self._frame = cursor.frame
        self._buffer = buffer
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._on_close = on_close
        self._on_leave = on_leave
        self._closed = False
        self._met = False
        self._read_entries = 0

    def start(self) -> None:
        if self.feed.failed is not None:
            self.fail(self.feed.failed)
            return
        self.feed.head = max(self.feed.head, self.head)
        self.feed.join(self)
        self._catch_up()

    def close(self) -> None:
        if self.live:
            self._on_leave()
        self.live = False
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self.feed.leave(self)
        self._on_close()

    @property
    def place(self) -> Cursor:
        return Cursor(self.position, self.log_id, self._frame, self.context)

    def drained(self) -> None:
        self._room.set()

    def push(self, data: bytes, last: int, context: Any) -> None:
        if self.sink.backlog() + len(data) > self._buffer and self.sink.backlog() > 0:
            log.info("slow reader", extra={"session": self.feed.session, "seq": self.position, "who": self.who.name})
            self._catch_up()
            return
        self.position, self.context = last, context
        if data:
            self.sink.send(data)
            log.debug("new sent", extra={"session": self.feed.session, "who": self.who.name, "up_to": last})

    def pass_on(self, data: bytes) -> None:
        """Of what is not kept nothing waits for a slow reader: it joins again when it has room, and is told the sum."""
        if not data:
            return
        if self.sink.backlog() + len(data) > self._buffer:
            self._catch_up()
        else:
            self.sink.send(data)

    def tell(self, frame: bytes) -> None:
        """A passing matter, which has no place among the entries: also to one that reads history, not to a slow one."""
        if self.sink.backlog() <= self._buffer:
            self.sink.send(frame)

    def read_on(self) -> None:
        self._catch_up()

    def fail(self, error: FairleadError) -> None:
        self.live = False
        self.close()
        self.sink.fail(error)

    def push_rest(self, entries: Sequence[Entry]) -> None:
        """It has read some of these from the log already."""
        for entry in entries:
            if entry.seq > self.position and self.live:
                context, data = encoded(self.variant, self.context, self.feed.session, (entry,))
                self.push(data, entry.seq, context)

    def join(self) -> None:
        """It was level with the feed a moment ago."""
        if self._closed:
            return
        if self.position < self.feed.head:
            self._catch_up()
        else:
            self._go_live()

    def _go_live(self) -> None:
        self.live = True
        anew, self._met = not self._met, True
        if anew:
            named = {"session": self.feed.session, "who": self.who.name, "entries": self._read_entries}
            log.info("history sent", extra={**named, "up_to": self.position})
        if self.feed.welcome is not None:
            _, told = encoded(self.variant, self.context, self.feed.session, self.feed.welcome(anew))
            if told:
                self.sink.send(told)

    def _catch_up(self) -> None:
        self.live = False
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            variant = self.variant
            reading: CatchUpEncoder = variant
            if isinstance(variant, ResumableEncoder):
                reading = variant.reading(self.position, self._frame)
            while not await self._read_page(reading):
                pass
        except FairleadError as error:
            log.warning("reading for a watcher failed", extra={"session": self.feed.session, "error": error.message})
            self.fail(error)

    async def _read_page(self, reading: CatchUpEncoder) -> bool:
        """Send one page from the log; true when the head is reached and the watcher is live."""
        self._room.clear()
        if self.sink.backlog() > self._buffer // 2:
            await self._room.wait()
        async with _turns():
            page = await self.feed.store.read(self.feed.session, self.position, PAGE_ENTRIES, PAGE_BYTES)
            if page.entries:
                self.context, frames = encoded(reading, self.context, self.feed.session, page.entries)
                self.position = page.entries[-1].seq
                self._read_entries += len(page.entries)
                if frames:
                    self.sink.send(frames)
                return False
        if self.feed.head <= page.head:
            # Nothing was published since the page was read; a head whose entry is gone counts as seen.
            self.position = max(self.position, self.feed.head)
            if self.feed.busy:
                self.feed.wait_for(self)
            else:
                self._go_live()
            return True
        return False
