"""Tests for the resources of every store adapter: give the class a fixture `make_store` of `GatewayStore`s.

class TestMyResources(ResourceConformance): ...
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from fairlead.model.errors import Conflict
from fairlead.notifications.api.feed import Change, FeedEntry
from fairlead.notifications.api.resources import RowAsRead, StoredResource
from fairlead.stores.api import GatewayStore
from fairlead_testing.store_conformance import refusal, until


class GatewayStores(Protocol):
    """As `store_conformance.Stores`, for stores that have resources."""

    async def __call__(self, node: str = "a") -> GatewayStore: ...


def change(number: int, seen: tuple[str, ...] | None = None) -> Change:
    return Change(resource="task", action="create", id=str(number), name=f"task {number}", seen=seen)


def row(id: str, data: bytes = b"{}", kind: str = "task") -> StoredResource:
    return StoredResource(kind, id, data)


class ResourceConformance:
    async def test_a_change_and_its_feed_entry_are_written_together(self, make_store: GatewayStores) -> None:
        resources = (await make_store()).resources
        entries = await resources.write(7, puts=[row("a", b'{"n":1}')], items=[change(1), change(2)])
        assert [(entry.at, entry.item) for entry in entries] == [(7, change(1)), (7, change(2))]
        assert entries[1].prev == entries[0].seq
        page = await resources.feed(0, 10)
        assert (page.entries, page.head) == (entries, entries[1].seq)
        assert page.first <= entries[0].seq
        assert (await resources.feed(entries[0].seq, 10)).entries == entries[1:]
        assert await resources.get("task", "a") == b'{"n":1}'
        assert await resources.get("task", "b") is None

    async def test_lists_are_newest_first_and_an_edit_keeps_its_position(self, make_store: GatewayStores) -> None:
        resources = (await make_store()).resources
        for name in "abc":
            await resources.write(1, puts=[row(name, name.encode())])
        await resources.write(1, puts=[row("a", b"A"), row("a", b"other", "project")])
        rows = await resources.scan("task", None, 2)
        assert [data for _, data in rows] == [b"c", b"b"]
        assert [data for _, data in await resources.scan("task", rows[-1][0], 2)] == [b"A"]
        await resources.write(1, removes=[("task", "b"), ("task", "never")])
        assert await resources.count("task") == 2
        await resources.write(1, puts=[row("b", b"again")])
        assert [data for _, data in await resources.scan("task", None, 5)] == [b"again", b"c", b"A"]

    async def test_a_kind_keeps_its_newest_rows(self, make_store: GatewayStores) -> None:
        resources = (await make_store()).resources
        for name in "abcde":
            await resources.write(1, puts=[row(name, name.encode())], most={"task": 3})
        assert [data for _, data in await resources.scan("task", None, 9)] == [b"e", b"d", b"c"]

    async def test_a_write_needs_the_rows_that_were_read(self, make_store: GatewayStores) -> None:
        resources = (await make_store()).resources
        assert await resources.write(1, puts=[row("a", b"1")], expected=[RowAsRead("task", "a", None)]) == ()
        await refusal(
            Conflict,
            resources.write(1, puts=[row("a", b"2")], items=[change(1)], expected=[RowAsRead("task", "a", None)]),
        )
        await refusal(Conflict, resources.write(1, removes=[("task", "a")], expected=[RowAsRead("task", "a", b"0")]))
        assert await resources.get("task", "a") == b"1"
        assert (await resources.feed(0, 9)).entries == ()
        await resources.write(1, removes=[("task", "a")], expected=[RowAsRead("task", "a", b"1")])
        assert await resources.get("task", "a") is None

    async def test_exactly_one_of_many_conditional_writes(self, make_store: GatewayStores) -> None:
        stores = [await make_store("a"), await make_store("b")]
        wanted = [RowAsRead("run", "due", None)]
        outcomes = await asyncio.gather(
            *(
                stores[n % 2].resources.write(
                    1, puts=[row("due", b"%d" % n, "run")], items=[change(n)], expected=wanted
                )
                for n in range(10)
            ),
            return_exceptions=True,
        )
        won = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, tuple)]
        assert len(won) == 1
        assert all(isinstance(outcome, Conflict | tuple) for outcome in outcomes)
        for store in stores:
            assert await until(_has(store, "run", "due")) == b"%d" % won[0]
            assert [entry.item for entry in (await store.resources.feed(0, 99)).entries] == [change(won[0])]

    async def test_listeners_hear_entries_in_order_before_the_write_returns(self, make_store: GatewayStores) -> None:
        resources = (await make_store()).resources
        heard: list[FeedEntry] = []
        stop = resources.listen(heard.extend)
        first = await resources.write(1, items=[change(1), change(2)])
        assert tuple(heard) == first
        second = await resources.write(2, puts=[row("a")], items=[change(3)])
        assert tuple(heard) == first + second
        assert second[0].prev == first[1].seq
        stop()
        await resources.write(3, items=[change(4)])
        assert len(heard) == 3

    async def test_the_feed_is_the_same_when_opened_again(self, make_store: GatewayStores) -> None:
        store = await make_store()
        await store.resources.write(1, puts=[row("a", b"1")], items=[change(1), change(2)])
        before = await store.resources.feed(0, 9)
        await store.close()
        again = await make_store()
        assert await again.resources.feed(0, 9) == before
        (entry,) = await again.resources.write(2, items=[change(3)])
        assert entry.prev == before.head
        assert await again.resources.get("task", "a") == b"1"

    async def test_a_forgotten_user_is_in_no_entry(self, make_store: GatewayStores) -> None:
        resources = (await make_store()).resources
        await resources.write(1, items=[change(1, ("ann", "bob")), change(2, ("bob",)), change(3)])
        await resources.forget("bob")
        entries = (await resources.feed(0, 9)).entries
        assert [entry.item.seen for entry in entries] == [("ann",), (), None]
        assert [entry.prev for entry in entries[1:]] == [entry.seq for entry in entries[:-1]]


def _has(store: GatewayStore, kind: str, id: str) -> Callable[[], Awaitable[bytes | None]]:
    return lambda: store.resources.get(kind, id)
