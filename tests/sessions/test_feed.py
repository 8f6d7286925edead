"""Fan-out: each subscriber gets each entry once, in order, however slow it is and whenever it joins."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError, Unavailable
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, Page
from fairlead.sessions.fanout.hub import Hub, Subscription

SESSION = SessionId("11111111-2222-3333-4444-555555555555")
ANN = Identity("c1", "ann", "ann", frozenset({"view"}))
BOB = Identity("c2", "bob", "bob", frozenset({"view"}))


class LogOnly:
    """The part of a store that a hub reads."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.reads = 0
        self.broken = False

    def add(self, count: int = 1) -> list[Entry]:
        head = self.entries[-1].seq if self.entries else 0
        new = [Entry(head + n, head + n - 1, 0, "text", b"%d" % (head + n)) for n in range(1, count + 1)]
        self.entries.extend(new)
        return new

    async def read(self, session: SessionId, after: int, limit: int, max_bytes: int = 0) -> Page:
        self.reads += 1
        await asyncio.sleep(0)
        if self.broken:
            raise Unavailable("no disk")
        found = [entry for entry in self.entries if entry.seq > after][:limit]
        return Page("log", tuple(found), self.entries[-1].seq if self.entries else 0)


class Lines:
    """An encoder that shows each entry as one line and counts its calls."""

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        self.encoded += 1
        return entry.event + b"\n"

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return f"{kind} {name} {','.join(data or ())}\n".encode()


class Socket:
    """A sink whose peer reads only on command."""

    def __init__(self) -> None:
        self.sent = b""
        self.waiting = 0
        self.slow = False

    def send(self, data: bytes) -> None:
        self.sent += data
        if self.slow:
            self.waiting += len(data)

    def backlog(self) -> int:
        return self.waiting

    def fail(self, error: FairleadError) -> None:
        self.sent += b"failed\n"

    @property
    def seqs(self) -> list[int]:
        return [int(line) for line in self.sent.split(b"\n") if line.isdigit()]


def watcher(
    feed: Hub, socket: Socket, variant: Lines, position: int = 0, who: Identity = ANN, **more: Any
) -> Subscription:
    found = Subscription(
        feed, who, variant, socket, since=Cursor(position), head=position, log_id="log", verdict="ok", **more
    )
    found.start()
    return found


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def make() -> tuple[LogOnly, Hub]:
    log = LogOnly()
    return log, Hub(SESSION, log)


async def test_a_subscriber_gets_history_and_then_live_entries_each_once() -> None:
    log, feed = make()
    log.add(1200)
    socket = Socket()
    watcher(feed, socket, Lines())
    feed.publish(log.add(3))
    await settle()
    feed.publish(log.add(2))
    assert socket.seqs == list(range(1, 1206))


async def test_an_entry_is_encoded_once_for_all_subscribers_of_an_encoder() -> None:
    log, feed = make()
    lines, other = Lines(), Lines()
    sockets = [Socket() for _ in range(10)]
    for socket in sockets:
        watcher(feed, socket, lines)
    watcher(feed, Socket(), other)
    await settle()
    feed.publish(log.add(5))
    assert (lines.encoded, other.encoded) == (5, 5)
    assert all(socket.seqs == [1, 2, 3, 4, 5] for socket in sockets)


async def test_a_slow_subscriber_falls_back_to_the_log_and_loses_nothing() -> None:
    log, feed = make()
    slow, quick = Socket(), Socket()
    lines = Lines()
    lagging = watcher(feed, slow, lines, buffer=64)
    watcher(feed, quick, lines)
    await settle()
    slow.slow = True
    for _ in range(100):
        feed.publish(log.add(3))
    await settle()
    assert quick.seqs == list(range(1, 301))
    assert len(slow.sent) < 200, "what waits for a slow reader is bounded"
    assert not lagging.live
    while slow.waiting:
        slow.waiting = 0
        lagging.drained()
        await settle()
    slow.slow = False
    feed.publish(log.add(1))
    assert slow.seqs == list(range(1, 302))


async def test_entries_published_while_a_page_is_read_are_not_missed() -> None:
    log, feed = make()
    log.add(2)
    socket = Socket()
    watcher(feed, socket, Lines())
    for _ in range(30):
        await asyncio.sleep(0)
        feed.publish(log.add(1))
    await settle()
    assert socket.seqs == list(range(1, 33))


async def test_a_dropped_head_entry_does_not_keep_a_subscriber_reading() -> None:
    log, feed = make()
    feed.publish(log.add(5))
    log.entries = log.entries[:3]
    socket = Socket()
    found = watcher(feed, socket, Lines(), position=3)
    log.entries.append(Entry(5, 3, 0, "text", b"5"))
    feed.head = 5
    log.entries.pop()
    log.entries.append(Entry(6, 3, 0, "text", b"6"))
    await settle()
    assert found.live
    assert socket.seqs == [6]


async def test_a_closed_subscription_gets_nothing_more() -> None:
    log, feed = make()
    closed = []
    socket = Socket()
    found = watcher(feed, socket, Lines(), on_close=lambda: closed.append(1))
    await settle()
    found.close()
    found.close()
    feed.publish(log.add(1))
    assert socket.seqs == []
    assert feed.empty
    assert closed == [1, 1]


async def test_a_store_failure_ends_the_subscription_and_nothing_else() -> None:
    log, feed = make()
    log.add(1)
    log.broken = True
    socket = Socket()
    watcher(feed, socket, Lines())
    await settle()
    assert feed.empty
    assert socket.sent.endswith(b"failed\n"), "whoever watches is told, so that no gap is silent"


async def test_typing_goes_to_the_others_and_presence_names_each_user_once() -> None:
    _, feed = make()
    ann, bob = Socket(), Socket()
    watcher(feed, ann, Lines())
    watcher(feed, bob, Lines(), who=BOB)
    await settle()
    feed.signal("typing", "ann", None, but=ANN)
    assert b"typing" not in ann.sent
    assert bob.sent.endswith(b"typing ann \n")
    assert feed.names == ("ann", "bob")


async def test_presence_is_sent_when_a_user_joins_or_leaves_and_not_for_every_window() -> None:
    _, feed = make()
    ann = Socket()
    watcher(feed, ann, Lines())
    await settle()
    more = [watcher(feed, Socket(), Lines(), who=BOB) for _ in range(5)]
    await settle()
    for window in more:
        window.close()
    assert ann.sent.decode().splitlines() == ["presence bob ann,bob", "presence bob ann"]


@given(st.lists(st.sampled_from(["append", "drain", "tick", "join"]), max_size=60))
@settings(deadline=None, max_examples=60)
def test_each_subscriber_sees_each_entry_once_in_any_order_of_steps(steps: list[str]) -> None:
    async def run() -> None:
        log, feed = make()
        sockets: list[tuple[Socket, Subscription]] = []
        lines = Lines()
        for step in steps:
            if step == "append":
                feed.publish(log.add(4))
            elif step == "join":
                socket = Socket()
                socket.slow = len(sockets) % 2 == 0
                sockets.append((socket, watcher(feed, socket, lines, buffer=24)))
            elif step == "drain":
                for socket, found in sockets:
                    socket.waiting = 0
                    found.drained()
            else:
                await asyncio.sleep(0)
        for _ in range(200):
            for socket, found in sockets:
                socket.waiting = 0
                found.drained()
            await asyncio.sleep(0)
        for socket, _ in sockets:
            assert socket.seqs == [entry.seq for entry in log.entries]

    asyncio.run(run())


async def test_signals_reach_a_subscriber_that_reads_history_but_not_a_slow_one() -> None:
    log, feed = make()
    log.add(5)
    reading, slow = Socket(), Socket()
    slow.waiting = 1 << 21
    watcher(feed, reading, Lines())
    watcher(feed, slow, Lines(), who=BOB)
    assert reading.sent == b"presence bob ann,bob\n", "and nobody is told of himself"
    feed.signal("typing", "somebody", None)
    assert reading.sent.endswith(b"typing somebody \n")
    assert slow.sent == b""
    await settle()
    assert reading.seqs == [1, 2, 3, 4, 5]
