"""Tests for the peers of every store adapter with several nodes.

class TestMyStore(StoreConformance, PeersConformance): ...
"""

import asyncio
from functools import partial
from typing import Any, Protocol

from fairlead.model.errors import NodeAway, Stale, TooLarge, Unavailable
from fairlead.model.store import Channel, Store
from fairlead_testing.store_conformance import refusal, until


class PeerStores(Protocol):
    async def __call__(self, node: str = "a") -> Store: ...

    async def expire(self, node: str) -> None: ...


class PeersConformance:
    async def test_nodes_know_each_other(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        changes: list[int] = []
        store.peers.on_change(lambda: changes.append(1))
        assert await until(partial(_names, store, ["a", "b"]))
        assert await until(partial(_names, other, ["a", "b"]))
        assert (store.peers.leads(), other.peers.leads()) == (True, False)
        assert not store.peers.suspended
        await other.close()
        assert await until(partial(_names, store, ["a"]))
        assert not store.peers.lives("b")
        assert changes

    async def test_a_dead_node_is_not_alive_and_does_not_lead(self, make_store: PeerStores) -> None:
        await make_store("a")
        other = await make_store("b")
        await make_store.expire("a")
        assert (other.peers.lives("a"), other.peers.lives("b"), other.peers.leads()) == (False, True, True)

    async def test_a_node_answers_another_one(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")

        async def answer(node: str, body: bytes) -> bytes:
            return node.encode() + b":" + body

        stop = other.peers.serve("echo", answer)
        assert await store.peers.ask("b", "echo", b"x") == b"a:x"
        large = bytes(range(256)) * 12_000
        assert await store.peers.ask("b", "echo", large) == b"a:" + large
        answers = await asyncio.gather(*(store.peers.ask("b", "echo", b"%d" % n) for n in range(50)))
        assert answers == [b"a:%d" % n for n in range(50)]
        stop()
        await refusal(NodeAway, store.peers.ask("b", "echo", b"x"))

    async def test_an_error_arrives_as_itself(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        raised: list[Exception] = [Stale("already decided", by="ann"), TooLarge("thing", 5, 4), ValueError("a bug")]

        async def fail(node: str, body: bytes) -> bytes:
            raise raised[int(body)]

        other.peers.serve("fail", fail)
        stale = await refusal(Stale, store.peers.ask("b", "fail", b"0"))
        assert (stale.message, stale.data, stale.status) == ("already decided", {"by": "ann"}, 409)
        assert (await refusal(TooLarge, store.peers.ask("b", "fail", b"1"))).data["limit"] == 4
        assert "bug" not in (await refusal(Unavailable, store.peers.ask("b", "fail", b"2"))).message

    async def test_a_node_that_is_away_or_silent_is_told_apart(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        waits = asyncio.Event()

        async def silent(node: str, body: bytes) -> bytes:
            await waits.wait()
            return b""

        other.peers.serve("silent", silent)
        await refusal(Unavailable, store.peers.ask("b", "silent", b"", timeout_s=0.2))
        waits.set()
        assert (await refusal(NodeAway, store.peers.ask("nobody", "silent", b""))).data["node"] == "nobody"
        await refusal(NodeAway, store.peers.dial("nobody", "topic", b""))
        await refusal(NodeAway, store.peers.dial("b", "topic", b""))

    async def test_what_is_told_is_heard_by_the_others(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        heard: list[tuple[str, bytes]] = []
        own: list[bytes] = []
        stop = other.peers.hear("signal.x", lambda node, body: heard.append((node, body)))
        store.peers.hear("signal.x", lambda node, body: own.append(body))

        async def told() -> bool:
            # A subscription begins a moment after the call.
            store.peers.tell("signal.x", b"1")
            await asyncio.sleep(0)
            return bool(heard)

        await until(told)
        store.peers.tell("signal.y", b"2")
        assert set(heard) == {("a", b"1")}
        stop()
        assert own == []

    async def test_a_channel_keeps_the_order_and_ends_on_both_sides(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        served: asyncio.Queue[Any] = asyncio.Queue()

        async def echo(node: str, hello: bytes, channel: Channel) -> None:
            served.put_nowait((node, hello))
            while (data := await channel.receive()) is not None:
                await channel.send(data)
            served.put_nowait("ended")

        other.peers.accept("echo", echo)
        channel = await store.peers.dial("b", "echo", b"hello")
        assert await served.get() == ("a", b"hello")
        sent = [b"%d" % n * (n * 997 % 40_000) for n in range(60)]

        async def send() -> None:
            for data in sent:
                await channel.send(data)

        sending = asyncio.ensure_future(send())
        assert [await channel.receive() for _ in sent] == sent
        await sending
        await channel.close()
        assert await served.get() == "ended"
        assert await channel.receive() is None
        await refusal(Unavailable, channel.send(b"x"))

    async def test_a_channel_waits_for_a_reader_that_does_not_read(self, make_store: PeerStores) -> None:
        store, other = await make_store("a"), await make_store("b")
        reads = asyncio.Event()
        total: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def slow(node: str, hello: bytes, channel: Channel) -> None:
            await reads.wait()
            size = 0
            while (data := await channel.receive()) is not None:
                size += len(data)
            total.set_result(size)

        other.peers.accept("slow", slow)
        channel = await store.peers.dial("b", "slow", b"")
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(100):
                await channel.send(b"x" * 10_000)
                sent += 1
            await channel.close()

        flooding = asyncio.ensure_future(flood())
        # An answer from the node shows that everything that was sent before has arrived there.
        other.peers.serve("ping", _pong)
        for _ in range(5):
            await store.peers.ask("b", "ping", b"")
        assert sent < 50
        reads.set()
        await flooding
        assert await total == 1_000_000


async def _pong(node: str, body: bytes) -> bytes:
    return body


async def _names(store: Store, names: list[str]) -> bool:
    return [node.name for node in store.peers.nodes() if node.alive] == names
