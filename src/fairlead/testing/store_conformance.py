"""What every store adapter must do, as tests: subclass `StoreConformance` and give it a fixture `make_store`.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def make_store(self) -> AsyncIterator[Stores]:
            stores = MyStores()
            yield stores
            await stores.close()

The tests are coroutines (pytest-asyncio in auto mode runs them as they are) and need nothing of pytest themselves.

NOT promised by the port, and so not asked here: that a read on one node sees an append of another at once (tests wait
for it), any order between sessions, that entries named in `drop` are gone when `append` returns or at all, which text
beyond user messages and answers is indexed, how hits rank, what `owner` says of a node that died, and how far apart
epochs are. Live readers may see entries that a later replay no longer has; the other way round never happens.
"""

import asyncio
import itertools
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec import structs

from fairlead.model.errors import Conflict, FairleadError, Fenced, Held, NoOwner, NotFound
from fairlead.model.ids import SessionId
from fairlead.model.store import (
    TRANSCRIPT,
    Batch,
    Checkpoint,
    Entry,
    ForkPoint,
    KeptReply,
    Lease,
    NewEntry,
    Page,
    Reset,
    SessionFilter,
    Store,
    Summary,
)

T = TypeVar("T")
E = TypeVar("E", bound=FairleadError)

# Seconds until a test that waits for something gives up; nothing here takes a tenth of it.
PATIENCE = 20.0


class Stores(Protocol):
    """What `make_store` gives: nodes of one storage, empty at first."""

    async def __call__(self, node: str = "a") -> Store:
        """A store for `node`; a second call with a name whose store was closed opens it again."""
        ...

    async def expire(self, node: str) -> None:
        """Let `node` die: its presence runs out while the others go on renewing theirs."""
        ...


# --- helpers, public for other tests of stores


def new_session() -> SessionId:
    return SessionId(str(uuid.uuid4()))


def entry(seq: int, text: str = "", kind: str = "text", raw: bytes | None = None) -> NewEntry:
    """An entry whose event says `text`."""
    words = (text or f"entry {seq}").encode()
    return NewEntry(
        seq, 1_700_000_000_000 + seq, kind, b'{"type":"%s","text":"%s"}' % (kind.encode(), words), "agent", raw
    )


def batch(*seqs: int, drop: Sequence[int] = (), **rest: Any) -> Batch:
    return Batch(entries=tuple(entry(seq) for seq in seqs), drop=tuple(drop), **rest)


async def refusal(error: type[E], call: Awaitable[Any]) -> E:
    """The error with which `call` must end."""
    try:
        result = await call
    except error as refused:
        return refused
    raise AssertionError(f"expected {error.__name__}, got {result!r}")


@asynccontextmanager
async def following(
    store: Store, session: SessionId, after: int, log_id: str | None = None
) -> AsyncIterator[AsyncIterator[Entry | Reset]]:
    """A subscription that ends with the block."""
    items = store.subscribe(session, after, log_id)
    try:
        yield items
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


async def take(items: AsyncIterator[T], count: int) -> list[T]:
    """The next `count` items."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(items) for _ in range(count)]


async def until(condition: Callable[[], Awaitable[T]]) -> T:
    """Wait for another node's change, which the port does not promise at once."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await condition()):
            await asyncio.sleep(0.01)
        return found


async def read_all(store: Store, session: SessionId, after: int = 0, limit: int = 7) -> list[Entry]:
    """The whole log, page by page."""
    entries: list[Entry] = []
    while (page := await store.read(session, after, limit)).entries:
        entries += page.entries
        after = page.entries[-1].seq
    return entries


def seqs(entries: Sequence[Entry | Reset] | Page) -> list[int]:
    items = entries.entries if isinstance(entries, Page) else entries
    return [item.seq for item in items if isinstance(item, Entry)]


def assert_stored(entries: Sequence[Entry], written: Sequence[NewEntry]) -> None:
    """Every field as it was written; `prev` is the store's."""
    assert [(e.seq, e.at, e.kind, e.event, e.origin, e.raw) for e in entries] == [
        (e.seq, e.at, e.kind, e.event, e.origin, e.raw) for e in written
    ]


def assert_chained(entries: Sequence[Entry], before: int = 0) -> None:
    """A reader that has everything up to `before` finds no hole, and each entry names the one before it."""
    if entries:
        assert entries[0].prev <= before
    for left, right in itertools.pairwise(entries):
        assert right.prev == left.seq


# --- the suite


class StoreConformance:
    between_nodes = True
    """Whether a command reaches the owner from another node; False for an adapter that knows one process only."""

    # --- appending and reading

    async def test_a_new_log_is_empty(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        assert (lease.session, lease.node, head) == (session, "a", 0)
        assert log_id
        assert await store.read(session, 0, 10) == Page(log_id, (), 0)
        assert await store.tail(session, None, 10) == Page(log_id, (), 0)

    async def test_an_unknown_session_has_no_log(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        await refusal(NotFound, store.read(session, 0, 10))
        await refusal(NotFound, store.tail(session, None, 10))
        await refusal(NotFound, anext(store.subscribe(session, 0)))
        await refusal(NotFound, store.erase(session))
        assert await store.summary(session) is None
        assert await store.owner(session) is None
        assert await store.find(session, "key") is None
        assert await store.checkpoint(session, "name") is None

    async def test_what_was_appended_is_read_byte_for_byte(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        written = (
            NewEntry(1, 5, "text", b'{"type":"text","text":"caf\xc3\xa9"}', "agent", b'{"a":1}'),
            NewEntry(2, 6, "record", b"{}", "transcript", b"\xff\xfe\x00 not UTF-8"),
            NewEntry(7, 6, "record", b"{}", "gateway", b""),
            NewEntry(9, 2, "turn.ended", b"{}"),
            NewEntry(10, 0, "record", b'{"nul":"\\u0000"}', "agent", b"a\x00b"),
        )
        assert await store.append(lease, Batch(entries=written), head) == 10
        page = await store.read(session, 0, 100)
        assert (page.log_id, page.head, page.truncated) == (log_id, 10, False)
        assert_stored(page.entries, written)
        assert [e.prev for e in page.entries] == [0, 1, 2, 7, 9]

    async def test_a_store_keeps_what_it_acknowledged_when_opened_again(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        await store.append(lease, batch(1, 2, summary=Summary(session=session, title="kept")), head)
        await store.documents.put("space", "key", 1)
        await store.close()
        store = await make_store()
        page = await store.read(session, 0, 10)
        assert (page.log_id, page.head, seqs(page)) == (log_id, 2, [1, 2])
        assert await store.documents.get("space", "key") == 1
        again = await store.summary(session)
        assert again is not None
        assert again.title == "kept"
        newer, same, head = await store.claim(session)
        assert newer.epoch > lease.epoch
        assert (same, head) == (log_id, 2)

    async def test_repeating_an_append_stores_nothing_twice(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        first = batch(1, 2, 3, drop=(2,), replies=(KeptReply("k", b"r"),))
        assert await store.append(lease, first, head) == 3
        assert await store.append(lease, first, head) == 3
        assert await store.append(lease, batch(4), 3) == 4
        assert (await refusal(Conflict, store.append(lease, first, head))).head == 4
        assert [e.seq for e in await read_all(store, session) if e.seq != 2] == [1, 3, 4]

    async def test_a_repeat_that_differs_is_no_repeat(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, batch(1, 2), head)
        for other in (
            Batch(entries=(entry(1), entry(2, "other words"))),
            Batch(entries=(entry(1, "other words"), entry(2)), drop=(1,)),
            Batch(entries=(entry(2),)),
            Batch(entries=(entry(2), entry(1))),
            Batch(entries=(entry(1), entry(2, raw=b"a record"))),
        ):
            assert (await refusal(Conflict, store.append(lease, other, head))).head == 2
        assert_stored(await read_all(store, session), [entry(1), entry(2)])

    async def test_a_cancelled_append_can_be_repeated(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        call = asyncio.ensure_future(store.append(lease, batch(1, 2), head))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait({call})
        assert await store.append(lease, batch(1, 2), head) == 2
        assert seqs(await read_all(store, session)) == [1, 2]

    async def test_a_refused_batch_leaves_nothing(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, batch(1, 5), head)
        rest: dict[str, Any] = {
            "summary": Summary(session=session, title="never"),
            "checkpoints": (Checkpoint("c", 5, b"x"),),
            "replies": (KeptReply("k", b"r"),),
        }
        for expected, wrong in (
            (0, batch(6, **rest)),
            (4, batch(6, **rest)),
            (6, batch(7, **rest)),
            (5, batch(5, **rest)),
            (5, batch(4, **rest)),
            (5, batch(7, 6, **rest)),
            (5, batch(7, 7, **rest)),
            (1, batch(**rest)),
        ):
            assert (await refusal(Conflict, store.append(lease, wrong, expected))).head == 5
        assert seqs(await read_all(store, session)) == [1, 5]
        assert await store.summary(session) is None
        assert await store.checkpoint(session, "c") is None
        assert await store.find(session, "k") is None

    async def test_a_refused_batch_does_not_touch_others_of_its_moment(self, make_store: Stores) -> None:
        store = await make_store()
        sessions = [new_session() for _ in range(9)]
        leases = [(await store.claim(session))[0] for session in sessions]
        stale = {2: 1, 5: 3}
        outcomes = await asyncio.gather(
            *(store.append(lease, batch(1, 2), stale.get(n, 0)) for n, lease in enumerate(leases)),
            return_exceptions=True,
        )
        for n, (session, outcome) in enumerate(zip(sessions, outcomes, strict=True)):
            if n in stale:
                assert isinstance(outcome, Conflict)
                assert seqs(await read_all(store, session)) == []
            else:
                assert outcome == 2
                assert seqs(await read_all(store, session)) == [1, 2]

    async def test_a_batch_without_entries_writes_the_rest(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        head = await store.append(lease, batch(3), head)
        rest = batch(replies=(KeptReply("k", b"\xffbytes"),), checkpoints=(Checkpoint("c", 3, b"\x00state"),))
        assert await store.append(lease, rest, head) == 3
        assert await store.append(lease, rest, head) == 3
        assert await store.find(session, "k") == b"\xffbytes"
        assert await store.checkpoint(session, "c") == Checkpoint("c", 3, b"\x00state")
        await store.append(lease, batch(checkpoints=(Checkpoint("c", 4, b""),)), head)
        assert await store.checkpoint(session, "c") == Checkpoint("c", 4, b"")

    async def test_pages_end_at_the_limit_or_at_the_bytes_but_never_before_one(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, Batch(entries=tuple(entry(n, raw=b"x" * 1000) for n in range(1, 31))), head)
        assert seqs(await store.read(session, 0, 5)) == [1, 2, 3, 4, 5]
        assert seqs(await store.read(session, 0, 100, max_bytes=1)) == [1]
        assert seqs(await store.read(session, 3, 100, max_bytes=3500)) == [4, 5, 6]
        assert seqs(await store.read(session, 30, 5)) == []
        assert seqs(await store.read(session, 99, 5)) == []
        assert seqs(await store.read(session, 0, 0)) == []
        everything = await read_all(store, session)
        assert seqs(everything) == list(range(1, 31))
        assert_chained(everything)

    async def test_history_is_paged_from_its_end(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        kinds = {3: "user.message", 6: "turn.ended", 9: "user.message"}
        await store.append(lease, Batch(entries=tuple(entry(n, kind=kinds.get(n, "text")) for n in range(1, 11))), head)
        last = await store.tail(session, None, 4)
        assert (seqs(last), last.head) == ([7, 8, 9, 10], 10)
        assert_chained(last.entries, 6)
        assert seqs(await store.tail(session, 7, 4)) == [3, 4, 5, 6]
        assert seqs(await store.tail(session, 3, 4)) == [1, 2]
        assert seqs(await store.tail(session, 1, 4)) == []
        assert seqs(await store.tail(session, None, 0)) == []
        wanted = await store.tail(session, None, 2, ("user.message", "turn.ended"))
        assert seqs(wanted) == [6, 9]
        assert [e.prev for e in wanted.entries] == [5, 8]
        assert seqs(await store.tail(session, 6, 5, ("user.message", "turn.ended"))) == [3]
        assert seqs(await store.tail(session, None, 5, ("nothing",))) == []

    async def test_readers_find_no_hole_where_entries_were_dropped(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        async with following(store, session, 0) as live:
            head = await store.append(lease, batch(1, 2, 3, 4), head)
            seen = await take(live, 4)
            await store.append(lease, batch(5, 6, drop=(2, 3, 4)), head)
            seen += await take(live, 2)
        place = 0
        for item in seen:
            assert isinstance(item, Entry)
            assert item.prev <= place < item.seq
            place = item.seq
        replayed = await read_all(store, session)
        assert set(seqs(replayed)) >= {1, 5, 6}
        assert_chained(replayed)
        for after in range(7):
            page = await store.read(session, after, 10)
            assert_chained(page.entries, after)
        assert_chained((await store.tail(session, None, 2)).entries, 4)

    async def test_the_head_is_never_dropped(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        head = await store.append(lease, batch(1, 2, drop=(2,)), head)
        head = await store.append(lease, batch(drop=(1, 2)), head)
        assert head == 2
        page = await store.read(session, 0, 10)
        assert page.head == 2
        assert seqs(page)[-1] == 2
        assert (await store.claim(session))[2] == 2

    # --- subscribing

    async def test_a_subscriber_gets_everything_once_while_it_is_written(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        head = await store.append(lease, batch(*range(1, 51)), head)

        async def write() -> None:
            last = head
            for n in range(51, 201, 3):
                last = await store.append(lease, batch(n, n + 1, n + 2), last)

        writing = asyncio.ensure_future(write())
        for after in (0, 25, 50):
            async with following(store, session, after) as live:
                got = await take(live, 200 - after)
            assert seqs(got) == list(range(after + 1, 201))
            assert_chained([item for item in got if isinstance(item, Entry)], after)
        await writing

    async def test_a_subscriber_on_another_node_gets_everything_too(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await store.claim(session)
        head = await store.append(lease, batch(1, 2), head)
        await until(lambda: _has(other, session, 2))
        async with following(other, session, 0) as live:
            assert seqs(await take(live, 2)) == [1, 2]
            await store.append(lease, batch(3, 4), head)
            assert seqs(await take(live, 2)) == [3, 4]

    async def test_a_cursor_of_another_log_is_told_and_begins_anew(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        await store.append(lease, batch(1, 2), head)
        async with following(store, session, 2, "another log") as live:
            reset, *rest = await take(live, 3)
        assert reset == Reset("new_log", log_id)
        assert seqs(rest) == [1, 2]
        async with following(store, session, 1, log_id) as live:
            assert seqs(await take(live, 1)) == [2]

    async def test_a_subscriber_learns_that_the_session_was_erased(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, batch(1), head)
        async with following(store, session, 0) as live:
            await take(live, 1)
            waiting = asyncio.ensure_future(anext(live))
            await asyncio.sleep(0)
            await store.erase(session)
            async with asyncio.timeout(PATIENCE):
                await refusal(NotFound, waiting)

    # --- ownership

    async def test_one_of_many_claimers_wins(self, make_store: Stores) -> None:
        stores, session = [await make_store(name) for name in "abcd"], new_session()
        outcomes = await asyncio.gather(*(store.claim(session) for store in stores), return_exceptions=True)
        winners = [outcome[0] for outcome in outcomes if isinstance(outcome, tuple)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, Held)]
        assert (len(winners), len(losers)) == (1, 3)
        assert {loser.node for loser in losers} == {winners[0].node}
        for store in stores:
            assert await until(partial(store.owner, session)) == winners[0]

    async def test_the_same_node_claims_again_with_a_later_epoch(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        head = await store.append(lease, batch(1), head)
        newer, same, now = await store.claim(session)
        assert newer.epoch > lease.epoch
        assert (same, now) == (log_id, 1)
        await refusal(Fenced, store.append(lease, batch(2), head))
        await refusal(Fenced, store.append(lease, batch(), head))
        assert await store.append(newer, batch(2), head) == 2

    async def test_a_dead_node_is_followed_and_fenced(self, make_store: Stores) -> None:
        dead, heir, session = await make_store("a"), await make_store("b"), new_session()
        lease, log_id, head = await dead.claim(session)
        head = await dead.append(lease, batch(1, 2), head)
        assert (await refusal(Held, heir.claim(session))).node == "a"
        await make_store.expire("a")
        assert session in await heir.owned_by("a")
        newer, same, now = await heir.claim(session)
        assert newer.epoch > lease.epoch
        assert newer.node == "b"
        assert (same, now) == (log_id, 2)
        await refusal(Fenced, dead.append(lease, batch(3), head))
        assert await heir.append(newer, batch(3), now) == 3
        assert (await heir.owned_by("a"), await heir.owned_by("b")) == ([], [session])
        assert seqs(await read_all(heir, session)) == [1, 2, 3]

    async def test_a_node_that_renews_keeps_its_logs(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        await store.claim(session)
        assert await store.renew() > 0
        await make_store.expire("b")
        await refusal(Held, other.claim(session))

    async def test_a_released_log_is_free_at_once(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await store.claim(session)
        await store.release(lease)
        await store.release(lease)
        assert await store.owner(session) is None
        assert await store.owned_by("a") == []
        await refusal(Fenced, store.append(lease, batch(1), head))
        newer, _, head = await other.claim(session)
        assert newer.epoch > lease.epoch
        await store.release(lease)
        assert await other.append(newer, batch(1), head) == 1

    async def test_a_made_up_lease_owns_nothing(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        await refusal(Fenced, store.append(Lease(session, "a", 1), batch(1), 0))
        lease, _, head = await store.claim(session)
        await refusal(Fenced, store.append(Lease(session, "b", lease.epoch), batch(1), head))
        await refusal(Fenced, store.append(Lease(session, "a", lease.epoch + 1), batch(1), head))

    # --- commands

    async def test_the_owner_answers_commands(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, _ = await store.claim(session)
        await refusal(NoOwner, store.command(session, b"?"))

        async def answer(payload: bytes) -> bytes:
            return b"heard " + payload

        stop = await store.serve(lease, answer)
        assert await store.command(session, b"\xff\x00") == b"heard \xff\x00"
        if self.between_nodes:
            other = await make_store("b")
            assert await other.command(session, b"hello") == b"heard hello"
        await stop()
        await refusal(NoOwner, store.command(session, b"?"))

    async def test_a_command_is_not_awaited_for_ever(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, _ = await store.claim(session)

        async def silent(_: bytes) -> bytes:
            await asyncio.Event().wait()
            return b""

        stop = await store.serve(lease, silent)
        await refusal(FairleadError, store.command(session, b"?", timeout=0.02))
        await stop()

    # --- forks

    async def test_a_fork_begins_with_its_parents_entries(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, log_id, head = await store.claim(parent)
        head = await store.append(lease, batch(1, 2, 3, 4, 5), head)
        forked, own_id, start = await store.claim(fork, ForkPoint(parent, 3))
        assert start == 3
        assert own_id != log_id
        assert seqs(await read_all(store, fork)) == [1, 2, 3]
        assert await store.append(forked, batch(4, 6), 3) == 6
        await store.append(lease, batch(6, 7), head)
        entries = await read_all(store, fork, limit=2)
        assert seqs(entries) == [1, 2, 3, 4, 6]
        assert_chained(entries)
        assert seqs(await read_all(store, parent)) == [1, 2, 3, 4, 5, 6, 7]
        tail = await store.tail(fork, None, 4)
        assert seqs(tail) == [2, 3, 4, 6]
        assert_chained(tail.entries, 1)
        assert seqs(await store.tail(fork, 4, 2)) == [2, 3]
        async with following(store, fork, 1) as live:
            assert seqs(await take(live, 4)) == [2, 3, 4, 6]
            await store.append(forked, batch(7), 6)
            assert seqs(await take(live, 1)) == [7]

    async def test_a_fork_of_a_fork_begins_in_either(self, make_store: Stores) -> None:
        store, first = await make_store(), new_session()
        lease, _, head = await store.claim(first)
        await store.append(lease, batch(1, 2, 3), head)
        second, third, fourth, empty = (new_session() for _ in range(4))
        lease, _, head = await store.claim(second, ForkPoint(first, 2))
        await store.append(lease, batch(5, 6), head)
        lease, _, head = await store.claim(third, ForkPoint(second, 5))
        assert head == 5
        await store.append(lease, batch(8), head)
        _, _, head = await store.claim(fourth, ForkPoint(third, 1))
        assert head == 1
        _, _, head = await store.claim(empty, ForkPoint(third, 0))
        assert head == 0
        assert seqs(await read_all(store, third)) == [1, 2, 5, 8]
        assert_chained(await read_all(store, third, limit=1))
        assert seqs(await store.tail(third, None, 3)) == [2, 5, 8]
        assert seqs(await read_all(store, fourth)) == [1]
        assert await read_all(store, empty) == []

    async def test_a_fork_needs_a_place_in_its_parent(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        await refusal(NotFound, store.claim(fork, ForkPoint(parent, 0)))
        lease, _, head = await store.claim(parent)
        await store.append(lease, batch(1), head)
        await refusal(Conflict, store.claim(fork, ForkPoint(parent, 2)))
        await refusal(NotFound, store.read(fork, 0, 1))

    async def test_claiming_a_fork_again_changes_nothing_of_it(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        await store.append(lease, batch(1, 2), head)
        _, log_id, _ = await store.claim(fork, ForkPoint(parent, 1))
        _, same, head = await store.claim(fork, ForkPoint(parent, 2))
        assert (same, head) == (log_id, 1)

    async def test_what_a_fork_shows_stays_when_its_parent_drops_or_goes(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        head = await store.append(lease, batch(1, 2, 3, 4), head)
        await store.claim(fork, ForkPoint(parent, 3))
        await store.append(lease, batch(5, drop=(2, 3, 4)), head)
        assert seqs(await read_all(store, fork)) == [1, 2, 3]
        await store.erase(parent)
        await refusal(NotFound, store.read(parent, 0, 10))
        assert seqs(await read_all(store, fork)) == [1, 2, 3]
        assert_chained(await read_all(store, fork))
        nested, _, _ = await store.claim(new_session(), ForkPoint(fork, 2))
        await store.erase(fork)
        assert seqs(await read_all(store, nested.session)) == [1, 2]
        await store.erase(nested.session)
        await refusal(NotFound, store.read(nested.session, 0, 10))

    # --- lists

    async def test_sessions_are_listed_newest_first_and_paged(self, make_store: Stores) -> None:
        store = await make_store()
        made = [await _summarised(store, updated=1000 + n // 2, title=f"number {n}") for n in range(7)]
        expected = [s.session for s in sorted(made, key=lambda s: (s.updated, s.session), reverse=True)]
        found: list[SessionId] = []
        before = ""
        while True:
            page = await store.sessions(SessionFilter(limit=3, before=before))
            assert len(page.sessions) <= 3
            found += [summary.session for summary in page.sessions]
            before = page.next
            if not before:
                break
        assert sorted(found) == sorted(expected)
        assert [s.updated for s in made if s.session == found[0]] == [1003]
        stamps = {s.session: s.updated for s in made}
        assert [stamps[session] for session in found] == sorted(stamps.values(), reverse=True)

    async def test_sessions_are_filtered(self, make_store: Stores) -> None:
        store = await make_store()
        plain = await _summarised(store, title="Fix the Läufer", cwd="/a", state="idle")
        running = await _summarised(store, first_prompt="please fix\nthe 100% bug", cwd="/b", state="running")
        archived = await _summarised(store, title="old fix", cwd="/a", archived=True)

        async def listed(**wanted: Any) -> set[SessionId]:
            return {s.session for s in (await store.sessions(SessionFilter(**wanted))).sessions}

        assert await listed() == {plain.session, running.session}
        assert await listed(archived=None) == {plain.session, running.session, archived.session}
        assert await listed(archived=True) == {archived.session}
        assert await listed(cwd="/a") == {plain.session}
        assert await listed(state="running") == {running.session}
        assert await listed(words="FIX the") == {plain.session, running.session}
        assert await listed(words="läufer") == {plain.session}
        assert await listed(words="100%") == {running.session}
        assert await listed(words="1_0") == set()

    async def test_sessions_without_a_log_are_listed_and_taken_out_again(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        found = Summary(session=session, title="found", agent_session=session, state=TRANSCRIPT, updated=5)
        await store.list_found([found])
        await store.list_found([structs.replace(found, title="found again")])
        assert [summary.title for summary in (await store.sessions(SessionFilter())).sessions] == ["found again"]
        assert (await store.sessions(SessionFilter(transcripts=False))).sessions == ()
        await refusal(NotFound, store.read(session, 0, 10))
        assert await store.session_of(session) == session
        await store.list_found([], [session])
        assert (await store.sessions(SessionFilter())).sessions == ()
        assert (await store.summary(session), await store.session_of(session)) == (None, None)

    async def test_finding_a_session_changes_none_that_is_known_otherwise(self, make_store: Stores) -> None:
        store, agents_id = await make_store(), new_session()
        own = await _summarised(store, title="own", state="idle", agent_session=agents_id)
        gone = await _summarised(store, title="gone")
        await store.erase(gone.session)
        found = [
            Summary(session=session, title="found", agent_session=session, state=TRANSCRIPT)
            for session in (own.session, gone.session, agents_id)
        ]
        await store.list_found(found)
        assert [summary.title for summary in (await store.sessions(SessionFilter())).sessions] == ["own"]
        await store.list_found([], [own.session, gone.session])
        assert await store.summary(own.session) == own
        tombstone = await store.summary(gone.session)
        assert tombstone is not None
        assert tombstone.deleted
        assert await store.session_of(agents_id) == own.session
        assert await store.session_of(gone.session) is None

    async def test_a_summary_is_written_with_its_batch(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        full = Summary(
            session=session,
            title="t",
            cwd="/c",
            agent="claude",
            agent_session="as",
            state="running",
            model="m",
            mode="plan",
            archived=True,
            created=1,
            updated=2,
            turns=3,
            pending=4,
            queued=5,
            cost_usd=0.25,
            input_tokens=6,
            output_tokens=7,
            parent=new_session(),
            first_prompt="p",
            branch="main",
        )
        await store.append(lease, batch(1, summary=full), head)
        assert await store.summary(session) == full

    async def test_erasing_leaves_a_tombstone_and_frees_the_name(self, make_store: Stores) -> None:
        store = await make_store()
        summary = await _summarised(store, title="gone")
        session = summary.session
        lease, log_id, head = await store.claim(session)
        await store.append(
            lease, batch(head + 1, replies=(KeptReply("k", b"r"),), checkpoints=(Checkpoint("c", 1, b""),)), head
        )
        await store.erase(session)
        await store.erase(session)
        tombstone = await store.summary(session)
        assert tombstone is not None
        assert tombstone.deleted
        assert tombstone.title == "gone"
        assert (await store.sessions(SessionFilter(archived=None))).sessions == ()
        await refusal(NotFound, store.read(session, 0, 10))
        await refusal(Fenced, store.append(lease, batch(head + 2), head + 1))
        assert await store.find(session, "k") is None
        assert await store.checkpoint(session, "c") is None
        newer, other, head = await store.claim(session)
        assert (head, other != log_id, newer.epoch > lease.epoch) == (0, True, True)
        await refusal(Fenced, store.append(lease, batch(1), 0))
        await store.append(newer, batch(1), 0)
        assert seqs(await read_all(store, session)) == [1]

    # --- search

    async def test_what_was_said_is_found(self, make_store: Stores) -> None:
        store = await make_store()
        summary = await _summarised(store, title="A title")
        lease, _, head = await store.claim(summary.session)
        prompt = b'{"type":"user.message","content":[{"type":"text","text":"Please rename the widget"}]}'
        answer = b'{"type":"text","text":"The widget is renamed now, \\"quoted\\"."}'
        await store.append(
            lease,
            Batch(
                entries=(
                    NewEntry(head + 1, 10, "user.message", prompt),
                    NewEntry(head + 2, 11, "text", answer),
                    NewEntry(head + 3, 12, "text.delta", b'{"type":"text.delta","text":"widget"}'),
                )
            ),
            head,
        )
        other = await _summarised(store, title="Another")
        await store.indexed()
        hits = await store.search("WIDGET")
        assert {(hit.session, hit.seq, hit.at, hit.kind, hit.title) for hit in hits} == {
            (summary.session, head + 1, 10, "user.message", "A title"),
            (summary.session, head + 2, 11, "text", "A title"),
        }
        assert all("\x02widget\x03" in hit.snippet for hit in hits)
        assert [hit.seq for hit in await store.search("rename widget please")] == [head + 1]
        assert len(await store.search("widget", limit=1)) == 1
        assert await store.search("widget", session=other.session) == ()
        assert len(await store.search("widget", session=summary.session)) == 2
        assert await store.search("absent") == ()
        assert await store.search("   ") == ()
        await store.erase(summary.session)
        assert await store.search("widget") == ()

    async def test_a_fork_is_searched_with_what_it_shows(self, make_store: Stores) -> None:
        store, parent, fork = await make_store(), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        await store.append(lease, Batch(entries=(entry(1, "shared walrus"), entry(2, "later walrus"))), head)
        await store.claim(fork, ForkPoint(parent, 1))
        await store.indexed()
        assert [(hit.session, hit.seq) for hit in await store.search("walrus", session=fork)] == [(fork, 1)]
        await store.erase(parent)
        assert [(hit.session, hit.seq) for hit in await store.search("walrus")] == [(fork, 1)]

    async def test_no_words_break_the_search(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, Batch(entries=(entry(1, "plain words"),)), head)
        await store.indexed()
        for words in ('"', "a OR", "NOT", "(", "*", "col:x", "a NEAR/2 b", "^x", "-", "\x00", "'; --", "\ud800", "%"):
            await store.search(words)

    # --- documents

    async def test_documents_are_kept_by_space_and_key(self, make_store: Stores) -> None:
        documents = (await make_store()).documents
        value = {"a": [1, 2.5, None, True], "b": {"ü": "x"}}
        assert await documents.get("one", "k") is None
        assert await documents.list("one") == {}
        await documents.put("one", "k", value)
        await documents.put("two", "k", "other")
        assert await documents.get("one", "k") == value
        await documents.put("one", "k", 7)
        await documents.put("one", "a b/ü", 8)
        assert await documents.list("one") == {"k": 7, "a b/ü": 8}
        assert await documents.delete("one", "k") is True
        assert await documents.delete("one", "k") is False
        assert await documents.get("one", "k") is None
        assert await documents.get("two", "k") == "other"

    async def test_exactly_one_of_many_adds_or_deletes(self, make_store: Stores) -> None:
        stores = [await make_store("a"), await make_store("b")]
        for _ in range(5):
            added = await asyncio.gather(*(stores[n % 2].documents.add("s", "code", n) for n in range(20)))
            assert added.count(True) == 1
            winner = added.index(True)
            for store in stores:
                assert await until(partial(_is, store, winner))
            deleted = await asyncio.gather(*(stores[n % 2].documents.delete("s", "code") for n in range(20)))
            assert deleted.count(True) == 1

    # --- the rest

    async def test_sizes_are_told_in_bytes(self, make_store: Stores) -> None:
        sizes = await (await make_store()).sizes()
        assert sizes
        assert all(size >= 0 for size in sizes.values())


async def _has(store: Store, session: SessionId, head: int) -> bool:
    try:
        return (await store.read(session, 0, 1)).head >= head
    except NotFound:
        return False


async def _is(store: Store, winner: int) -> bool:
    return bool(await store.documents.get("s", "code") == winner)


async def _summarised(store: Store, **fields: Any) -> Summary:
    """A new session with one entry and this summary."""
    session = new_session()
    lease, _, head = await store.claim(session)
    summary = Summary(session=session, **fields)
    await store.append(lease, batch(1, summary=summary), head)
    return summary
