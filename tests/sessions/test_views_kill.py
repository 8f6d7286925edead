"""kill -9 of a gateway that writes a projection's rows: rows that a client received keep their content and position."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from fairlead.stores.sqlite import SqliteStore
from patience import PATIENCE
from sessions.harness import SESSION

pytestmark = pytest.mark.fault

ROUNDS = 6

PROJECT = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from fairlead.model.auth import Identity
from fairlead.model.gateway import Cursor
from fairlead.model.store import Batch, Entry
from fairlead.model.views import NewRow, Transient
from fairlead.sessions.fanout.hub import Hub, Subscription
from fairlead.sessions.dependencies import SessionLimits
from fairlead.sessions.fanout.projections import Projections
from fairlead.stores.sqlite import SqliteStore
from fairlead.system.clock import SystemClock

class Fold:
    count = 0
    def step(self, entry):
        if entry.kind == "delta":
            return [Transient(b"")]
        self.count += 1
        return [NewRow(b"%d of %d" % (self.count, entry.seq))]
    def snapshot(self):
        return b"%d" % self.count
    def restore(self, data):
        self.count = int(data)

class View:
    name = "v"
    def fold(self, session):
        return Fold()

class Shown:
    def encode(self, session, entry):
        return b"sent %d %s\\n" % (entry.seq, entry.event) if entry.kind == "row" else b""
    def signal(self, *_):
        return b""

class Out:
    def send(self, data):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    def backlog(self):
        return 0

async def main(folder, session):
    store = await SqliteStore.open(Path(folder))
    lease, _, head = await store.claim(session)
    services = SimpleNamespace(store=store, clock=SystemClock(), limits=SessionLimits(), views={"v": View()})
    feed = Hub(session, store)
    projector = Projections(services, lambda _: feed, lambda _: None).get(session, "v")
    position = await projector.wait_until(head, lambda level: level.head)
    who = Identity("c", "u", "n", frozenset({"view"}))
    cursor = Cursor(position)
    Subscription(projector.feed, who, Shown(), Out(), since=cursor, head=position, log_id="", verdict="ok").start()
    print("begun", flush=True)
    while True:
        kinds = ("delta", "text", "delta", "text", "text")
        entries = tuple(Entry(head + n, head + n - 1, n, kind, b"{}") for n, kind in enumerate(kinds, 1))
        await store.append(lease, Batch(entries=entries), head)
        feed.publish(entries)
        head = entries[-1].seq

asyncio.run(main(*sys.argv[1:]))
"""


async def killed_while_sending(folder: Path, seconds: float) -> list[tuple[int, str]]:
    """The rows that the child sent before it was killed."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROJECT, str(folder), SESSION, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    sent: list[tuple[int, str]] = []
    begun = asyncio.Event()

    async def listen() -> None:
        assert child.stdout is not None
        while (line := await child.stdout.readline()).endswith(b"\n"):
            if line == b"begun\n":
                begun.set()
                continue
            _, ordinal, data = line.decode().rstrip("\n").split(" ", 2)
            sent.append((int(ordinal), data))

    listening = asyncio.ensure_future(listen())
    async with asyncio.timeout(PATIENCE):
        while not begun.is_set() or not sent:
            assert not listening.done(), "the process ended by itself"
            await asyncio.sleep(0.005)
    await asyncio.sleep(seconds)
    child.kill()
    await child.wait()
    await listening
    return sent


async def test_sent_rows_keep_their_ordinals_through_kill_9(tmp_path: Path, rng: random.Random) -> None:
    sent: dict[int, str] = {}
    for _ in range(ROUNDS):
        for ordinal, data in await killed_while_sending(tmp_path, rng.uniform(0.0, 0.1)):
            assert sent.setdefault(ordinal, data) == data, "no ordinal is given twice"
        store = await SqliteStore.open(tmp_path, node="looking")
        page = await store.rows(SESSION, "v", 0, 1_000_000, 1 << 30)
        texts = [
            entry.seq for entry in (await store.read(SESSION, 0, 1_000_000, 1 << 30)).entries if entry.kind == "text"
        ]
        await store.close()
        stored = {row.ordinal: row.data.decode() for row in page.rows}
        assert list(stored) == list(range(1, page.head + 1))
        assert all(stored[ordinal] == data for ordinal, data in sent.items()), "stored before it was sent"
        assert all(stored[n] == f"{n} of {seq}" for n, seq in enumerate(texts[: page.head], 1))
