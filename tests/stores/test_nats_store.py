"""The store of a cell when things go wrong: lost answers, lost messages, foreign messages, a full disk."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from fairlead.model.errors import BadRequest, Damaged, Fenced, TooLarge, Unavailable
from fairlead.model.store import Batch, ForkPoint, Summary
from fairlead.stores.nats import connection, journal, publishing
from fairlead.stores.nats import messages as m
from fairlead.stores.nats.connection import read_address
from fairlead.stores.nats.sealing import Seal, Sealed
from fairlead.stores.nats.store import NatsOptions, NatsStore
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.append import Appender
from fairlead_testing.resource_conformance import change
from fairlead_testing.store_conformance import batch, new_session, read_all, refusal, seqs, until
from stores.nats_servers import NatsServers, quick_folder
from stores.nats_stores import KEY, NatsStores

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    with quick_folder(tmp_path_factory.mktemp("nats")) as folder:
        started = NatsServers(folder).start()
        yield started
        started.stop()


@pytest.fixture
async def make_store(tmp_path: Path, servers: NatsServers) -> AsyncIterator[NatsStores]:
    stores = NatsStores(tmp_path, servers)
    yield stores
    await stores.close()


def losing(store: NatsStore, monkeypatch: pytest.MonkeyPatch, part: str, count: int) -> list[str]:
    """Lose the answers to the next `count` messages to subjects with `part`."""
    real = store._js.request
    lost: list[str] = []

    async def request(subject: str, *rest: Any, **more: Any) -> Any:
        answer = await real(subject, *rest, **more)
        if part in subject and len(lost) < count:
            lost.append(subject)
            raise TimeoutError
        return answer

    monkeypatch.setattr(store._js, "request", request)
    return lost


async def test_a_lost_answer_is_no_second_append(make_store: NatsStores, monkeypatch: pytest.MonkeyPatch) -> None:
    store, session = await make_store(), new_session()
    lost = losing(store, monkeypatch, ".log.", 4)
    lease, _, head = await store.claim(session)
    for seq in range(1, 6):
        head = await store.append(lease, batch(seq), head)
    assert len(lost) == 4
    assert seqs(await read_all(store, session)) == [1, 2, 3, 4, 5]
    assert await make_store.stored(session) == 6


async def test_a_lost_answer_is_no_second_winner(make_store: NatsStores, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await make_store()
    lost = losing(store, monkeypatch, ".doc.", 4)
    assert await store.documents.add("s", "k", 1) is True
    assert await store.documents.swap("s", "k", 2, 1) is True
    assert await store.documents.delete("s", "k") is True
    assert len(lost) >= 3


async def test_a_lost_answer_before_another_change_is_told_as_unknown(
    make_store: NatsStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket has only the last message of a key: whether the code was added before it was used cannot be seen."""
    store, other = await make_store("a"), await make_store("b")
    real = store._js.request

    async def request(subject: str, *rest: Any, **more: Any) -> Any:
        answer = await real(subject, *rest, **more)
        if ".doc." in subject and not await other.documents.get("s", "used"):
            await other.documents.put("s", "used", True)
            assert await other.documents.delete("s", "code") is True
            raise TimeoutError
        return answer

    monkeypatch.setattr(store._js, "request", request)
    with pytest.raises(Unavailable, match="unknown"):
        await store.documents.add("s", "code", 1)


async def test_a_key_that_was_forgotten_is_found_again(make_store: NatsStores) -> None:
    store = await make_store()
    await store.documents.put("s", "k", 1)
    store._bucket._revisions.clear()
    assert await store.documents.swap("s", "k", 2, 1) is True
    store._bucket._revisions.clear()
    assert await store.documents.delete("s", "k") is True
    store._bucket._revisions.clear()
    assert await store.documents.add("s", "k", 3) is True


async def test_an_append_that_was_refused_is_not_taken_for_stored(
    make_store: NatsStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner does not know yet that its session was claimed: the last message is not its own."""
    store, heir, session = await make_store("a"), await make_store("b"), new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1), head)
    await heir.caught_up(session)
    held, real = asyncio.Event(), store._journal.follower._apply

    async def late(group: Any) -> None:
        await held.wait()
        await real(group)

    monkeypatch.setattr(store._journal.follower, "_apply", late)
    await make_store.expire("a")
    await heir.claim(session)
    append = asyncio.ensure_future(store.append(lease, batch(2), head))
    done, _ = await asyncio.wait({append}, timeout=0.3)
    assert not done
    held.set()
    with pytest.raises(Fenced):
        await append
    assert seqs(await read_all(heir, session)) == [1]


async def test_a_swap_with_an_old_value_loses_though_the_new_one_has_arrived(
    make_store: NatsStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revision that is the condition is never newer than the value that was read."""
    store, other = await make_store("a"), await make_store("b")
    await store.documents.put("s", "k", 1)
    assert await other.documents.get("s", "k") == 1
    held, applying, writer = asyncio.Event(), asyncio.Event(), other._bucket._writer

    class Late:
        async def do(self, call: Any) -> Any:
            applying.set()
            await held.wait()
            return await writer.do(call)

    monkeypatch.setattr(other._bucket, "_writer", Late())
    await store.documents.put("s", "k", 2)
    await applying.wait()
    swap = asyncio.ensure_future(other.documents.swap("s", "k", 3, 1))
    await asyncio.wait({swap}, timeout=0.3)
    held.set()
    assert await swap is False
    assert await other.documents.get("s", "k") == 2


async def test_messages_that_do_not_come_live_are_read(make_store: NatsStores, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other, session = await make_store("a"), await make_store("b"), new_session()
    real, number = other._journal.follower._received, 0

    async def every_third(message: Any) -> None:
        nonlocal number
        number += 1
        if number % 3 == 0:
            await real(message)

    assert other._journal.follower._subscription is not None
    other._journal.follower._subscription._cb = every_third
    lease, _, head = await store.claim(session)
    for seq in range(1, 20):
        head = await store.append(lease, batch(seq), head)
    await other.caught_up(session, head)
    assert seqs(await read_all(other, session)) == list(range(1, 20))
    assert other._journal.follower.repairs > 0


async def test_a_message_of_nobody_changes_nothing(make_store: NatsStores) -> None:
    """A message without the condition of its chain, though everything else fits: it is applied nowhere."""
    store, other, session = await make_store("a"), await make_store("b"), new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1), head)
    forged = m.encode(m.Append("a", lease.epoch, head, batch(2)))
    for body in (forged, b"not a message"):
        await store._js.request(store._names.log(session), body)
    assert await store.append(lease, batch(2, 3), head) == 3
    await other.caught_up(session)
    for reader in (store, other):
        assert seqs(await read_all(reader, session)) == [1, 2, 3]
    late = await make_store("c")
    assert seqs(await read_all(late, session)) == [1, 2, 3]


async def test_a_message_with_a_hole_before_it_waits_for_what_is_missing(make_store: NatsStores) -> None:
    """The second net: a follower that was given the wrong messages reads those of the session."""
    store, other, session = await make_store("a"), await make_store("b"), new_session()
    lease, _, head = await store.claim(session)
    await make_store.deafen("b")
    for seq in range(1, 6):
        head = await store.append(lease, batch(seq), head)
    last = await store._js.last_of(store._names.log_stream, store._names.log(session))
    assert last is not None
    await other._apply_messages([last])
    assert seqs(await read_all(other, session)) == [1, 2, 3, 4, 5]


async def test_what_was_not_applied_is_applied_after_a_restart(
    make_store: NatsStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other, session = await make_store("a"), await make_store("b"), new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1), head)
    await other.caught_up(session)
    failing = asyncio.Event()
    loop = asyncio.get_running_loop()

    class FullDisk(Appender):
        def flush(self) -> None:
            if self._rows:
                loop.call_soon_threadsafe(failing.set)
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error

    real = other._writer._appender
    other._writer._appender = FullDisk(other._writer._db)
    await store.append(lease, batch(2, 3), head)
    await asyncio.wait_for(failing.wait(), 60)
    other._writer._appender = real
    await other._journal.follower.close()
    await other.close()
    again = await make_store("b")
    assert seqs(await read_all(again, session)) == [1, 2, 3]


async def test_a_document_whose_tombstone_has_expired_does_not_come_back(make_store: NatsStores) -> None:
    store, other = await make_store("a"), await make_store("b")
    await store.documents.put("credentials", "revoked", {"id": 1})
    assert await other.documents.get("credentials", "revoked") == {"id": 1}
    await other.close()
    await store.documents.delete("credentials", "revoked")
    await store._js.purge(store._names.bucket_stream, store._names.key("doc", "credentials", "revoked"))
    again = await make_store("b")
    assert await again.documents.list("credentials") == {}
    assert await again.documents.get("credentials", "revoked") is None
    assert await again.documents.add("credentials", "revoked", 2) is True


async def test_a_crash_after_a_tombstone_is_finished_by_the_next_round(
    make_store: NatsStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, session, fork, folded = await make_store(), new_session(), new_session(), new_session()
    for one in (session, folded):
        lease, _, head = await store.claim(one)
        for seq in range(1, 5):
            head = await store.append(lease, batch(seq, summary=Summary(session=one)), head)
    await store.claim(fork, ForkPoint(session, 2))

    async def crashed(*_: Any) -> None:
        return None

    with monkeypatch.context() as patch:
        patch.setattr(store.folding, "_finish_erasing", crashed)
        patch.setattr(store.folding, "_purge", crashed)
        await store.erase(session)
        await store.folding.fold(folded)
    assert await make_store.stored(session) > 1
    assert await store.folding.round() == 2
    assert (await make_store.stored(session), await make_store.stored(folded)) == (1, 1)
    late = await make_store("b")
    assert seqs(await read_all(late, fork)) == [1, 2]
    assert seqs(await read_all(late, folded)) == [1, 2, 3, 4]
    (log_id,) = await store._readers.row("select log_id from logs where erased = ?", session)
    assert await store._objects.get(f"kept/{log_id}") is not None
    await store.erase(fork)
    assert await store._objects.get(f"kept/{log_id}") is None


async def test_a_session_at_rest_is_folded(make_store: NatsStores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.stores.nats.folding.MANY", 3)
    store, rests, works = await make_store(), new_session(), new_session()
    for session, at in ((rests, 1), (works, 4102444800000)):
        lease, _, head = await store.claim(session)
        for seq in range(1, 5):
            written = batch(seq)
            moved = structs.replace(written, entries=tuple(structs.replace(e, at=at) for e in written.entries))
            head = await store.append(lease, moved, head)
    assert await store.folding.round() == 1
    assert (await make_store.stored(rests), await make_store.stored(works)) == (1, 5)


async def test_an_append_is_refused_while_the_servers_know_less_than_they_acknowledged(
    make_store: NatsStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "DEADLINE_S", 0.5)
    store, session = await make_store(), new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1, 2), head)
    # The servers lose the session's messages: a purge has the same effect as the loss.
    await store._js.purge(store._names.log_stream, store._names.log(session))
    with pytest.raises(Unavailable):
        await store.append(lease, batch(3), head)
    monkeypatch.setattr(journal, "LOST_S", 0.0)
    with pytest.raises(Damaged, match="storage mend"):
        await store.append(lease, batch(3), head)


async def test_every_node_gets_a_copy_of_large_records(make_store: NatsStores) -> None:
    store, other, session = await make_store("a"), await make_store("b"), new_session()
    lease, _, head = await store.claim(session)
    large = structs.replace(batch(1).entries[0], raw=b"r" * 600_000)
    await store.append(lease, Batch(entries=(large,)), head)

    async def copied() -> bool:
        return any(path.is_file() for path in (other.folder / "spill").rglob("*"))

    await until(copied)


async def test_while_the_servers_are_away_everything_is_read_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "DEADLINE_S", 1.0)
    alone = NatsServers(tmp_path / "alone").start()
    address = read_address(f"{alone.urls}/away")
    store = await NatsStore.join(tmp_path / "x", address, NatsOptions(node="x", key=KEY))
    session = new_session()
    try:
        lease, _, head = await store.claim(session)
        head = await store.append(lease, batch(1), head)
        await store.documents.put("s", "k", 1)
        alone.kill(0)
        for call in (
            store.append(lease, batch(2), head),
            store.claim(new_session()),
            store.documents.put("s", "k", 2),
            store.resources.write(1, items=[change(1)]),
            store.caught_up(session),
        ):
            await refusal(Unavailable, call)
        assert seqs(await read_all(store, session)) == [1]
        assert await store.documents.get("s", "k") == 1
        assert await store.documents.get("s", "other") is None
        alone.start_one(0)

        async def appended() -> bool:
            try:
                return await store.append(lease, batch(2), head) == 2
            except Unavailable:
                return False

        await until(appended)
        assert seqs(await read_all(store, session)) == [1, 2]
    finally:
        await store.close()
        alone.stop()


async def test_a_full_stream_refuses_and_says_so(make_store: NatsStores) -> None:
    store, session = await make_store(), new_session()
    lease, _, head = await store.claim(session)
    head = await store.append(lease, batch(1), head)
    stream = store._names.log_stream
    found = await store._js.call(f"STREAM.INFO.{stream}")
    full = found["state"]["bytes"] + 100
    await store._js.call(f"STREAM.UPDATE.{stream}", {**found["config"], "max_bytes": full})
    refused = await refusal(Unavailable, store.append(lease, batch(2), head))
    assert "full" in refused.message
    await store._js.call(f"STREAM.UPDATE.{stream}", {**found["config"], "max_bytes": -1})
    assert await store.append(lease, batch(2), head) == 2


async def test_a_message_that_is_not_signed_by_the_cell_is_not_answered(make_store: NatsStores) -> None:
    store = await make_store()
    asked: list[bytes] = []

    async def answer(node: str, body: bytes) -> bytes:
        asked.append(body)
        return body

    store.peers.serve("echo", answer)
    subject = store._names.node("a", "ask", "echo")
    foreign = Seal(b"another key").close(subject, Sealed("a", "1", "ask", 0, True, b"foreign"))
    ours = Seal(KEY)
    elsewhere = ours.close(store._names.node("a", "ask", "other"), Sealed("a", "2", "ask", 0, True, b"elsewhere"))
    for data in (b"", b"garbage", foreign, elsewhere):
        await store._js.client.publish(subject, data)
    # Messages of one subject arrive in their order.
    assert await store.peers.ask("a", "echo", b"ours") == b"ours"
    assert asked == [b"ours"]


async def test_a_large_document_is_refused(make_store: NatsStores) -> None:
    store = await make_store()
    await refusal(TooLarge, store.documents.put("s", "k", "x" * 70_000))


async def test_two_gateways_with_one_name_are_told_apart(tmp_path: Path, make_store: NatsStores) -> None:
    """The later one learns of it; the earlier one goes on."""
    first = await make_store("a")
    options = NatsOptions(node="a", key=KEY)
    second = await NatsStore.join(tmp_path / "twin", make_store.address, options)
    told: list[str] = []
    second.presence.on_twin = told.append
    first.presence.on_twin = lambda message: pytest.fail("the first one must stay")
    await first.presence._renew()
    await second._bucket.follower.reached(await second._js.last_seq(second._names.bucket_stream))
    await second.presence._renew()
    assert "another --node" in told[0]
    await second.close()


# --- clear errors at the start


async def test_another_cluster_key_is_refused(tmp_path: Path, make_store: NatsStores) -> None:
    await make_store("a")
    with pytest.raises(BadRequest, match="another cluster key"):
        await NatsStore.join(tmp_path / "x", make_store.address, NatsOptions(node="x", key=b"another"))


async def test_a_folder_of_a_cell_is_opened_in_that_cell_alone(tmp_path: Path, make_store: NatsStores) -> None:
    await (await make_store("a")).close()
    with pytest.raises(BadRequest, match="storage move --to sqlite"):
        await SqliteStore.open(tmp_path / "a")
    elsewhere = read_address(make_store.address.text.rpartition("/")[0] + "/elsewhere")
    with pytest.raises(BadRequest, match="another cell"):
        await NatsStore.join(tmp_path / "a", elsewhere, NatsOptions(node="a", key=KEY))


async def test_a_folder_with_sessions_of_its_own_is_moved_first(tmp_path: Path, make_store: NatsStores) -> None:
    await make_store("a")
    own = await SqliteStore.open(tmp_path / "own")
    await own.claim(new_session())
    await own.close()
    with pytest.raises(BadRequest, match="storage move --to nats://"):
        await NatsStore.join(tmp_path / "own", make_store.address, NatsOptions(node="own", key=KEY))


async def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    server = NatsServers(tmp_path / "off", jetstream=False).start()
    try:
        with pytest.raises(BadRequest, match="JetStream is off"):
            await NatsStore.join(tmp_path / "x", read_address(server.urls), NatsOptions(node="x"))
    finally:
        server.stop()


def test_an_old_server_is_refused() -> None:
    old: Any = SimpleNamespace(connected_server_version=SimpleNamespace(major=2, minor=9, patch=10))
    with pytest.raises(BadRequest, match=r"2\.9\.10.*2\.12"):
        connection._check_server(old)


async def test_servers_that_are_away_are_named(tmp_path: Path) -> None:
    options = NatsOptions(node="x", patience_s=0.2)
    with pytest.raises(Unavailable, match="cannot be reached"):
        await NatsStore.join(tmp_path / "x", read_address("nats://127.0.0.1:1/main"), options)


def test_an_address_names_servers_and_a_cell() -> None:
    found = read_address("nats://me:secret@one,two:5222/team7?replicas=3")
    assert found.servers == ("nats://me:secret@one:4222", "nats://me:secret@two:5222")
    assert (found.cell, found.replicas, found.text) == ("team7", 3, "nats://one,two:5222/team7")
    assert read_address("tls://one").cell == "main"
    for wrong in ("http://one/main", "nats:///main", "nats://one/Main", "nats://one/a?replicas=7"):
        with pytest.raises(BadRequest):
            read_address(wrong)


def test_messages_are_told_apart() -> None:
    assert m.decode(b"\x00") is None
    assert m.decode(m.encode(m.Release("a", 1))) == m.Release("a", 1)
