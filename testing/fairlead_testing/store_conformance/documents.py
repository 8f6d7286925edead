"""The part of the suite about documents."""

import asyncio
from functools import partial
from typing import Any

from fairlead.model.store import Store
from fairlead_testing.store_conformance.helping import Stores, until


class KeepingDocuments:
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

    async def test_a_swap_needs_the_value_that_was_read(self, make_store: Stores) -> None:
        documents = (await make_store()).documents
        assert await documents.swap("s", "k", 1, 2) is False
        assert await documents.swap("s", "k", None, None) is True
        assert await documents.swap("s", "k", {"a": 1, "b": [True]}, None) is True
        assert await documents.swap("s", "k", 2, None) is False
        assert await documents.swap("s", "k", 2, {"a": 1, "b": [1]}) is False
        assert await documents.swap("s", "k", 2, {"b": [True], "a": 1}) is True
        assert await documents.swap("s", "k", None, 3) is False
        assert await documents.get("s", "k") == 2
        assert await documents.swap("s", "k", None, 2) is True
        assert await documents.get("s", "k") is None
        assert await documents.swap("s", "k", 3, None) is True

    async def test_exactly_one_of_many_swaps(self, make_store: Stores) -> None:
        stores = [await make_store("a"), await make_store("b")]
        await stores[0].documents.put("s", "count", 0)
        assert await until(partial(_equals, stores[1], "count", 0))

        async def count(store: Store) -> None:
            for _ in range(10):
                while True:
                    found: Any = await store.documents.get("s", "count")
                    if await store.documents.swap("s", "count", found + 1, found):
                        break

        await asyncio.gather(*(count(store) for store in stores for _ in range(2)))
        for store in stores:
            assert await until(partial(_equals, store, "count", 40))

    async def test_a_document_ends_after_its_time(self, make_store: Stores) -> None:
        documents = (await make_store()).documents
        await documents.put("s", "short", 1, ttl_s=1)
        assert await documents.add("s", "added", 1, ttl_s=1) is True
        assert await documents.add("s", "added", 2, ttl_s=1) is False
        await documents.put("s", "long", 1, ttl_s=3600)
        await documents.put("s", "kept", 1, ttl_s=1)
        await documents.put("s", "kept", 2)
        assert set(await documents.list("s")) == {"short", "added", "long", "kept"}

        async def ended() -> bool:
            return set(await documents.list("s")) == {"long", "kept"}

        await until(ended)
        assert await documents.get("s", "short") is None
        assert await documents.add("s", "added", 3) is True
        assert await documents.swap("s", "short", 4, None) is True
        assert await documents.delete("s", "long") is True

    async def test_listeners_hear_every_change_of_their_space(self, make_store: Stores) -> None:
        documents = (await make_store()).documents
        heard: list[tuple[str, Any]] = []
        stop = documents.listen("s", lambda key, value: heard.append((key, value)))
        await documents.put("s", "k", {"n": 1})
        await documents.put("other", "k", 9)
        await documents.add("s", "k", 2)
        await documents.swap("s", "k", 3, {"n": 1})
        await documents.swap("s", "k", 4, {"n": 1})
        await documents.add("s", "l", 5)
        await documents.delete("s", "k")
        await documents.delete("s", "k")
        assert heard == [("k", {"n": 1}), ("k", 3), ("l", 5), ("k", None)]
        stop()
        await documents.put("s", "k", 6)
        assert len(heard) == 4

    async def test_a_listener_hears_of_a_change_whose_caller_has_gone(self, make_store: Stores) -> None:
        documents = (await make_store()).documents
        heard: list[Any] = []
        documents.listen("s", lambda key, value: heard.append(value))
        call = asyncio.ensure_future(documents.put("s", "k", 1))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait({call})
        await documents.put("s", "k", 2)
        assert heard in ([1, 2], [2])
        assert heard[-1] == 2

    async def test_documents_here_are_documents_too(self, make_store: Stores) -> None:
        store = await make_store()
        await store.here.put("s", "k", 1)
        assert await store.here.swap("s", "k", 2, 1) is True
        assert await store.here.list("s") == {"k": 2}
        await store.close()
        store = await make_store()
        assert await store.here.get("s", "k") == 2


async def _is(store: Store, winner: int) -> bool:
    return bool(await store.documents.get("s", "code") == winner)


async def _equals(store: Store, key: str, value: Any) -> bool:
    return bool(await store.documents.get("s", key) == value)
