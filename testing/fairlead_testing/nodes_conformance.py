"""Tests for a store adapter whose nodes have storage of their own: what one node does, the others show.

class TestMyStore(StoreConformance, NodesConformance): ...
"""

import asyncio
from functools import partial
from typing import Any, Protocol

from fairlead.model.errors import Conflict, Fenced, NotFound, Unavailable
from fairlead.model.ids import SessionId
from fairlead.model.store import (
    TRANSCRIPT,
    Batch,
    Checkpoint,
    ForkPoint,
    LogChange,
    SessionFilter,
    Store,
    StoredReply,
    Summary,
)
from fairlead.notifications.api.feed import FeedEntry
from fairlead.stores.api import GatewayStore
from fairlead_testing.resource_conformance import change, row
from fairlead_testing.store_conformance import (
    assert_chained,
    assert_stored,
    batch,
    entry,
    new_session,
    read_all,
    refusal,
    seqs,
    until,
)


class NodeStores(Protocol):
    """As `store_conformance.Stores`, with the faults of a node."""

    async def __call__(self, node: str = "a") -> GatewayStore: ...

    async def expire(self, node: str) -> None: ...

    async def deafen(self, node: str) -> None:
        """Let `node` hear nothing of the others any more, while it can still write."""
        ...

    async def stored(self, session: SessionId) -> int:
        """A number that grows with everything that is stored of a session."""
        ...

    async def fold(self, session: SessionId) -> None:
        """Let the storage of a session be compacted."""
        ...


class NodesConformance:
    async def test_a_zombie_that_hears_nothing_stores_nothing(self, make_store: NodeStores) -> None:
        dead, heir, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await dead.claim(session)
        head = await dead.append(lease, batch(1, 2), head)
        await heir.caught_up(session)
        await make_store.deafen("a")
        await make_store.expire("a")
        newer, _, now = await heir.claim(session)
        before = await make_store.stored(session)
        try:
            await dead.append(lease, batch(3), head)
        except (Fenced, Unavailable, Conflict):
            pass
        else:
            raise AssertionError("the append of a node that is not the owner was acknowledged")
        assert await make_store.stored(session) == before
        assert await heir.append(newer, batch(3, 4), now) == 4
        assert seqs(await read_all(heir, session)) == [1, 2, 3, 4]

    async def test_the_home_of_a_session_is_the_node_that_owned_it_last(self, make_store: NodeStores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        assert await store.home(session) == ""
        lease, _, head = await store.claim(session)
        await store.append(lease, batch(1, summary=Summary(session=session, title="t")), head)
        await store.release(lease)
        await other.caught_up(session)
        assert await other.home(session) == "a"
        found = await other.summary(session)
        assert found is not None
        assert (found.node, found.title) == ("a", "t")
        await other.claim(session)
        assert await other.home(session) == "b"
        found = await other.summary(session)
        assert found is not None
        assert found.node == "b"
        assert await other.owned_by("b") == [session]

    async def test_a_follower_hears_what_other_nodes_do(self, make_store: NodeStores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        heard: list[LogChange] = []
        own: list[LogChange] = []
        stop = other.follow(heard.append)
        store.follow(own.append)
        lease, _, head = await store.claim(session)
        written = Batch(entries=(entry(1), entry(2, kind="turn.ended")))
        await store.append(lease, written, head)
        await store.release(lease)
        await store.erase(session)
        assert await until(partial(_is, heard, 4))
        assert heard == [
            LogChange(session, 0, (), "a"),
            LogChange(session, 2, ("text", "turn.ended"), "a"),
            LogChange(session, 2),
            LogChange(session, 0, erased=True),
        ]
        stop()
        await store.claim(new_session())
        later = new_session()
        await other.claim(later)
        assert await until(partial(_is, own, 1 + sum(change.erased for change in own)))
        assert own[-1] == LogChange(later, 0, (), "b")
        assert len(heard) == 4

    async def test_a_reader_of_another_node_gets_large_bodies(self, make_store: NodeStores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await store.claim(session)
        wide = tuple(entry(seq, raw=b"%d" % seq * 30_000) for seq in range(1, 51))
        head = await store.append(lease, Batch(entries=wide), head)
        large = (entry(51, "e" * 2_000_000, raw=b"\xff" * 2_000_000), entry(52, raw=b"r" * 600_000), entry(53))
        assert await store.append(lease, Batch(entries=large), head) == 53
        assert await store.append(lease, Batch(entries=large), head) == 53
        await other.caught_up(session, 53)
        late = await make_store("c")
        for reader in (store, other, late):
            assert_stored(await read_all(reader, session), [*wide, *large])

    async def test_a_session_of_another_node_is_forked(self, make_store: NodeStores) -> None:
        store, other, parent, fork = await make_store("a"), await make_store("b"), new_session(), new_session()
        lease, _, head = await store.claim(parent)
        await store.append(lease, batch(1, 2, 3), head)
        forked, _, start = await other.claim(fork, ForkPoint(parent, 2))
        assert start == 2
        await other.append(forked, batch(3, 7), start)
        await store.caught_up(fork)
        assert seqs(await read_all(store, fork)) == [1, 2, 3, 7]

    async def test_a_reader_survives_that_another_node_erases(self, make_store: NodeStores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, _, head = await store.claim(session)
        await store.append(lease, batch(*range(1, 200), summary=Summary(session=session)), head)
        await other.caught_up(session)

        async def read() -> None:
            while True:
                await read_all(other, session)

        reading = asyncio.ensure_future(read())
        await other.read(session, 0, 1)
        await store.erase(session)
        assert isinstance((await asyncio.gather(reading, return_exceptions=True))[0], NotFound)
        found = await other.summary(session)
        assert found is not None
        assert found.deleted

    async def test_a_node_that_was_away_learns_of_everything(self, make_store: NodeStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        erased, folded, parent, fork = (new_session() for _ in range(4))
        leases = {}
        for session in (erased, folded, parent):
            leases[session], _, head = await store.claim(session)
            summary = Summary(session=session, title=session)
            await store.append(leases[session], batch(1, 2, 3, summary=summary), head)
        await store.documents.put("s", "gone", 1)
        await store.documents.put("s", "kept", 1)
        await store.resources.write(1, puts=[row("gone"), row("kept")], items=[change(1)])
        for session in (erased, folded, parent):
            await other.caught_up(session, 3)
        await other.close()
        await store.erase(erased)
        await store.append(
            leases[folded],
            batch(4, 5, drop=(2,), replies=(StoredReply("k", b"r"),), checkpoints=(Checkpoint("c", 5, b"s"),)),
            3,
        )
        await make_store.fold(folded)
        await store.append(leases[folded], batch(6), 5)
        await store.claim(fork, ForkPoint(parent, 2))
        await store.erase(parent)
        await store.documents.delete("s", "gone")
        await store.resources.write(2, removes=[("task", "gone")], items=[change(2)])
        feed = (await store.resources.feed(0, 9)).entries
        for node in ("b", "c"):
            late = await make_store(node)
            for session in (erased, parent):
                await refusal(NotFound, late.read(session, 0, 10))
                tombstone = await late.summary(session)
                assert tombstone is not None
                assert tombstone.deleted
            assert_stored(await read_all(late, folded), [entry(1), entry(3), entry(4), entry(5), entry(6)])
            assert_chained(await read_all(late, folded))
            assert await late.find(folded, "k") == b"r"
            assert await late.checkpoint(folded, "c") == Checkpoint("c", 5, b"s")
            assert await late.home(folded) == "a"
            assert seqs(await read_all(late, fork)) == [1, 2]
            assert await late.documents.list("s") == {"kept": 1}
            assert await late.resources.get("task", "gone") is None
            assert await late.resources.count("task") == 1
            assert (await late.resources.feed(0, 9)).entries == feed
        page, other_page = [await reader.read(folded, 0, 99) for reader in (store, late)]
        assert page == other_page

    async def test_a_compacted_session_goes_on(self, make_store: NodeStores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        for seq in range(1, 8):
            head = await store.append(lease, batch(seq), head)
        before = await make_store.stored(session)
        await make_store.fold(session)
        assert await make_store.stored(session) < before
        head = await store.append(lease, batch(8), head)
        await make_store.fold(session)
        newer, same, head = await store.claim(session)
        assert (same, head) == (log_id, 8)
        await refusal(Fenced, store.append(lease, batch(9), head))
        await store.append(newer, batch(9), head)
        late = await make_store("b")
        assert seqs(await read_all(late, session)) == list(range(1, 10))

    async def test_an_erased_session_can_be_made_again(self, make_store: NodeStores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        await store.append(lease, batch(1, 2, summary=Summary(session=session, title="old")), head)
        await store.erase(session)
        newer, other_id, head = await store.claim(session)
        assert (other_id != log_id, head) == (True, 0)
        assert newer.epoch > lease.epoch
        await refusal(Fenced, store.append(lease, batch(1), 0))
        await store.append(newer, batch(1, summary=Summary(session=session, title="new")), head)
        late = await make_store("b")
        assert seqs(await read_all(late, session)) == [1]
        found = await late.summary(session)
        assert found is not None
        assert (found.title, found.deleted) == ("new", False)

    async def test_documents_of_the_cell_are_heard_on_every_node_and_those_here_are_not(
        self, make_store: NodeStores
    ) -> None:
        store, other = await make_store("a"), await make_store("b")
        heard: list[tuple[str, Any]] = []
        other.documents.listen("s", lambda key, value: heard.append((key, value)))
        await store.documents.put("s", "k", 1)
        await store.documents.swap("s", "k", 2, 1)
        await store.documents.delete("s", "k")
        assert await until(partial(_is, heard, 3))
        assert heard == [("k", 1), ("k", 2), ("k", None)]
        await store.here.put("s", "h", 1)
        assert await other.here.get("s", "h") is None
        assert await other.documents.get("s", "h") is None

    async def test_a_document_is_found_that_another_node_has_just_written(self, make_store: NodeStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        for number in range(20):
            await store.documents.put("s", str(number), number)
            assert await other.documents.get("s", str(number)) == number
            assert await other.documents.add("s", str(number), 0) is False
            assert await other.documents.delete("s", str(number)) is True

    async def test_feed_entries_of_all_nodes_have_one_order(self, make_store: NodeStores) -> None:
        stores = [await make_store("a"), await make_store("b")]
        heard: list[list[FeedEntry]] = [[], []]
        for store, list_of in zip(stores, heard, strict=True):
            store.resources.listen(list_of.extend)
        await asyncio.gather(*(stores[n % 2].resources.write(n, items=[change(n)]) for n in range(20)))
        assert await until(partial(_is, heard[0], 20))
        assert await until(partial(_is, heard[1], 20))
        assert heard[0] == heard[1]
        assert [e.prev for e in heard[0][1:]] == [e.seq for e in heard[0][:-1]]
        pages = [await store.resources.feed(0, 99) for store in stores]
        assert pages[0] == pages[1]

    async def test_sessions_in_files_are_listed_by_every_node(self, make_store: NodeStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        found = [Summary(session=new_session(), title=f"t{n}", state=TRANSCRIPT, updated=n) for n in range(30)]
        await store.list_found(found)
        await store.list_found(found)
        assert await until(partial(_lists, other, 30))
        page = (await other.sessions(SessionFilter(limit=99))).sessions
        assert {summary.node for summary in page} == {"a"}
        await store.list_found([], [found[0].session])
        assert await until(partial(_lists, other, 29))
        late = await make_store("c")
        assert await _lists(late, 29)


async def _is(heard: list[Any], count: int) -> bool:
    return len(heard) >= count


async def _lists(store: Store, count: int) -> bool:
    return len((await store.sessions(SessionFilter(limit=99))).sessions) == count
