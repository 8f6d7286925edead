"""How fast the embedded store accepts events, and how long an append waits for its commit.

python bench/store_append.py [--durability process|power] [--folder DIR]

Four figures for the store and, where it makes sense, the same work done directly in the same run:
throughput (many sessions append at once, one batch in flight each), latency of a lone append (enqueue to commit, seen
by the caller), the same under the load of many streaming sessions, and whether the work per append grows with the log
(100 entries against 100,000).
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry, Lease
from fairlead.stores.sqlite import SqliteStore
from fairlead.stores.sqlite.connections import Durability

EVENT = b'{"type":"text.delta","id":"%d/0/text.delta","at":1,"message":"m","block":0,"offset":%d,"text":"some words "}'
RAW = b'{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"text":"some words "}},"n":%d}'


def entries(first: int, count: int) -> tuple[Entry, ...]:
    return tuple(
        Entry(seq, 0, seq, "text.delta", EVENT % (seq, seq), "agent", RAW % seq) for seq in range(first, first + count)
    )


async def grow(store: SqliteStore, lease: Lease, head: int, batches: int, size: int) -> int:
    for _ in range(batches):
        head = await store.append(lease, Batch(entries=entries(head + 1, size)), head)
    return head


async def latencies(store: SqliteStore, lease: Lease, head: int, count: int, pause: float) -> list[float]:
    taken = []
    for _ in range(count):
        batch = Batch(entries=entries(head + 1, 1))
        began = time.perf_counter()
        head = await store.append(lease, batch, head)
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(pause)
    return taken


async def paced(store: SqliteStore, leases: Sequence[Lease], per_second: int, seconds: float) -> None:
    """The load of that many streaming sessions: the store's share of one core, and how long an append waits."""
    count = int(per_second * seconds)

    async def stream(number: int, lease: Lease) -> list[float]:
        # By the clock and spread over the interval: sessions that sleep after each append would synchronize.
        start = time.perf_counter() + number / len(leases) / per_second
        head, taken = 0, []
        for n in range(count):
            await asyncio.sleep(start + n / per_second - time.perf_counter())
            asked = time.perf_counter()
            head = await store.append(lease, Batch(entries=entries(head + 1, 1)), head)
            taken.append(time.perf_counter() - asked)
        return taken

    busy, began = time.process_time(), time.perf_counter()
    taken = await asyncio.gather(*(stream(number, lease) for number, lease in enumerate(leases)))
    busy, elapsed = time.process_time() - busy, time.perf_counter() - began
    print(
        f"  {len(leases)} sessions, {per_second} events/s each ({len(leases) * count / elapsed:,.0f} events/s):"
        f" {described([one for some in taken for one in some])}, {busy / elapsed:.0%} of a core"
    )


def described(taken: Sequence[float]) -> str:
    cuts = statistics.quantiles(taken, n=1000)
    return " ".join(f"{name} {cuts[at] * 1e6:.0f}" for name, at in (("p50", 499), ("p90", 899), ("p99", 989))) + " us"


def by_hand(folder: Path, count: int, group: int, durability: Durability) -> float:
    """Plain inserts of the same bytes by one connection, `group` to a transaction: the cost of SQLite itself."""
    db = sqlite3.connect(folder / "plain.db", isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute(f"pragma synchronous = {'full' if durability == 'power' else 'normal'}")
    db.execute("create table entries (log, seq, at, kind, event, raw, primary key (log, seq))")
    rows = [(1, e.seq, e.at, e.kind, e.event.decode(), (e.raw or b"").decode()) for e in entries(1, count)]
    began = time.perf_counter()
    for start in range(0, count, group):
        db.execute("begin")
        db.executemany("insert into entries values (?, ?, ?, ?, ?, ?)", rows[start : start + group])
        db.execute("commit")
    taken = time.perf_counter() - began
    db.close()
    return count / taken


async def measure(folder: Path, durability: Durability) -> None:
    store = await SqliteStore.open(folder / "data", durability=durability)

    async def fresh() -> Lease:
        return (await store.claim(SessionId(str(uuid.uuid4()))))[0]

    print(f"durability {durability}")
    for sessions, batches, size in ((1, 2000, 1), (1, 1000, 10), (100, 50, 1), (100, 50, 10), (300, 20, 10)):
        leases = [await fresh() for _ in range(sessions)]
        began = time.perf_counter()
        await asyncio.gather(*(grow(store, lease, 0, batches, size) for lease in leases))
        rate = sessions * batches * size / (time.perf_counter() - began)
        print(f"  {sessions:4} sessions, {size:3} events a batch: {rate:9,.0f} events/s")
    print(f"  plain inserts by hand, 100 a transaction: {by_hand(folder, 50_000, 100, durability):9,.0f} events/s")
    for pause in (0.0, 0.002):
        taken = await latencies(store, await fresh(), 0, 2000, pause)
        print(f"  lone append, {pause * 1000:.0f} ms apart: {described(taken)}")
    await paced(store, [await fresh() for _ in range(300)], 15, 4.0)
    lease = await fresh()
    head = await grow(store, lease, 0, 1, 100)
    short = await latencies(store, lease, head, 1000, 0)
    head = await grow(store, lease, head + 1000, 99, 1000)
    long = await latencies(store, lease, head, 1000, 0)
    ratio = statistics.median(long) / statistics.median(short)
    print(f"  append to a log of 100,000 entries against one of 100: {ratio:.2f} times (p50)")
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--durability", choices=("process", "power"), default="process")
    parser.add_argument("--folder", type=Path, help="where to write; default: a new temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(measure(Path(folder), options.durability))


if __name__ == "__main__":
    main()
