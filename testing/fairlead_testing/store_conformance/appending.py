"""The part of the suite about appending to a log and reading it."""

import asyncio
from typing import Any

from fairlead.model.errors import Conflict, NotFound
from fairlead.model.store import Batch, Checkpoint, Entry, Page, StoredReply, Summary
from fairlead_testing.store_conformance.helping import (
    Stores,
    assert_chained,
    assert_stored,
    batch,
    entry,
    has,
    new_session,
    read_all,
    refusal,
    seqs,
    until,
)


class Appending:
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
        await refusal(NotFound, store.erase(session))
        assert await store.summary(session) is None
        assert await store.find(session, "key") is None
        assert await store.checkpoint(session, "name") is None

    async def test_what_was_appended_is_read_byte_for_byte(self, make_store: Stores) -> None:
        store, session = await make_store(), new_session()
        lease, log_id, head = await store.claim(session)
        written = (
            Entry(1, 0, 5, "text", b'{"type":"text","text":"caf\xc3\xa9"}', "agent", b'{"a":1}'),
            Entry(2, 0, 6, "record", b"{}", "transcript", b"\xff\xfe\x00 not UTF-8"),
            Entry(7, 0, 6, "record", b"{}", "gateway", b""),
            Entry(9, 0, 2, "turn.ended", b"{}"),
            Entry(10, 0, 0, "record", b'{"nul":"\\u0000"}', "agent", b"a\x00b"),
        )
        assert await store.append(lease, Batch(entries=written), head) == 10
        page = await store.read(session, 0, 100)
        assert (page.log_id, page.head) == (log_id, 10)
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
        first = batch(1, 2, 3, drop=(2,), replies=(StoredReply("k", b"r"),))
        assert await store.append(lease, first, head) == 3
        assert await store.append(lease, first, head) == 3
        assert await store.append(lease, batch(4), 3) == 4
        assert (await refusal(Conflict, store.append(lease, first, head))).data["head"] == 4
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
            assert (await refusal(Conflict, store.append(lease, other, head))).data["head"] == 2
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
            "replies": (StoredReply("k", b"r"),),
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
            assert (await refusal(Conflict, store.append(lease, wrong, expected))).data["head"] == 5
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
        rest = batch(replies=(StoredReply("k", b"\xffbytes"),), checkpoints=(Checkpoint("c", 3, b"\x00state"),))
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
        head = await store.append(lease, batch(1, 2, 3, 4), head)
        await store.append(lease, batch(5, 6, drop=(2, 3, 4)), head)
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

    async def test_a_reader_on_another_node_gets_everything_too(self, make_store: Stores) -> None:
        store, other, session = await make_store("a"), await make_store("b"), new_session()
        lease, log_id, head = await store.claim(session)
        await store.append(lease, batch(1, 2), head)
        await until(lambda: has(other, session, 2))
        page = await other.read(session, 0, 10)
        assert page.log_id == log_id
        assert_stored(page.entries, [entry(1), entry(2)])
