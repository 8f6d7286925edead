"""What the store of a cell costs: an append beside a bare conditional publish to the same servers, a followed message,
and how fast a new node reads a stream."""

import asyncio
import json
import logging
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from fairlead.model.ids import SessionId
from fairlead.model.store import Batch, Entry
from fairlead.stores.nats.connection import read_address
from fairlead.stores.nats.messages import EXPECTED
from fairlead.stores.nats.store import NatsOptions, NatsStore
from figures import Figures, spread, table
from stores.nats_servers import NatsServers

EVENT = b'{"type":"text.delta","id":"1/0/text.delta","at":1,"message":"m","block":0,"offset":0,"text":"some words "}'
KEY = b"the key of a cell of benchmarks"
SESSIONS = 50


def _batch(head: int) -> Batch:
    return Batch(entries=(Entry(head + 1, 0, 1, "text.delta", EVENT, "agent", EVENT),))


async def _appends(store: NatsStore, count: int, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of an append, and of a bare publish with a condition, by turns: the machine's load is the same."""
    ours: list[float] = []
    bare: list[float] = []
    lease, _, head = await store.claim(SessionId(str(uuid.uuid4())))
    subject, last = store._names.log(str(uuid.uuid4())), 0
    for _ in range(rounds):
        for _ in range(count // rounds):
            began = time.perf_counter()
            head = await store.append(lease, _batch(head), head)
            ours.append((time.perf_counter() - began) * 1000)
        for _ in range(count // rounds):
            began = time.perf_counter()
            answer = await store._js.client.request(
                subject, EVENT * 4, timeout=10, headers={EXPECTED: str(last), "Fl-Nonce": "x" * 16, "Fl-V": "1"}
            )
            bare.append((time.perf_counter() - began) * 1000)
            last = json.loads(answer.data)["seq"]
    return ours, bare


async def _load(store: NatsStore, count: int) -> float:
    """Many sessions at once; returns the CPU microseconds of an append."""

    async def one() -> None:
        lease, _, head = await store.claim(SessionId(str(uuid.uuid4())))
        for _ in range(count // SESSIONS):
            head = await store.append(lease, _batch(head), head)

    began = time.process_time()
    await asyncio.gather(*(one() for _ in range(SESSIONS)))
    return (time.process_time() - began) / count * 1e6


async def _measure(folder: Path, count: int) -> Figures:
    servers = NatsServers(folder / "nats", 3).start()
    address = read_address(f"{servers.urls}/bench")
    try:
        store = await NatsStore.join(folder / "a", address, NatsOptions(node="a", key=KEY))
        ours, bare = await _appends(store, count, 10)
        append_us = await _load(store, count * 4)
        messages = store.position
        cpu, wall = time.process_time(), time.perf_counter()
        other = await NatsStore.join(folder / "b", address, NatsOptions(node="b", key=KEY))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        await other.close()
        # What joining costs without anything to read.
        again = time.perf_counter()
        await (await NatsStore.join(folder / "b", address, NatsOptions(node="b", key=KEY))).close()
        wall -= time.perf_counter() - again
        await store.close()
    finally:
        servers.stop()
    return {
        "append": spread(ours),
        "bare publish": spread(bare),
        "append_cpu_us": append_us,
        "followed_cpu_us": cpu / messages * 1e6,
        "bootstrap_per_s": messages / wall,
        "messages": messages,
    }


def measure(quick: bool) -> Figures:
    # The bare messages are not of our nodes, which would say so for each one.
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        found = asyncio.run(_measure(Path(folder), 500 if quick else 2000))
    rows = {name: tuple(found[name][key] for key in ("p50", "p90", "p99")) for name in ("append", "bare publish")}
    ratio = tuple(ours / bare for ours, bare in zip(rows["append"], rows["bare publish"], strict=True))
    table("A cell with three NATS servers, one session, ms", ("p50", "p90", "p99"), {**rows, "ratio": ratio})
    cells = (found["append_cpu_us"], found["followed_cpu_us"], found["bootstrap_per_s"], found["messages"])
    columns = ("CPU us/append", "CPU us/followed", "read messages/s", "messages")
    table(f"{SESSIONS} sessions at once, and a node that joins", columns, {"fairlead": cells})
    return found
