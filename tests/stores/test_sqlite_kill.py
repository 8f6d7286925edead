"""kill -9: acknowledged entries are there afterwards, once and in order, and the index continues at its position."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from fairlead.model.ids import SessionId
from fairlead.stores.sqlite import SqliteStore
from fairlead_testing.store_conformance import assert_chained, read_all, seqs

pytestmark = pytest.mark.fault

ROUNDS = 10
SESSIONS = [SessionId(f"{n}{n}{n}{n}{n}{n}{n}{n}-0000-4000-8000-000000000000") for n in range(3)]

WRITE = """
import asyncio, sys
from pathlib import Path
from fairlead.model.store import Batch, Entry, Summary
from fairlead.stores.sqlite import SqliteStore

async def write(store, session):
    lease, _, head = await store.claim(session)
    print("begun", session, head, flush=True)
    while True:
        # Some deltas, then the text that repeats them; sizes that make the WAL move.
        deltas = tuple(Entry(head + n, 0, n, "text.delta", b"{}", "agent", b"r" * 500) for n in range(1, 4))
        await store.append(lease, Batch(entries=deltas), head)
        text = Entry(head + 4, 0, 4, "text", b'{"type":"text","text":"word%d"}' % (head + 4))
        summary = Summary(session=session, turns=head + 4)
        await store.append(lease, Batch(entries=(text,), drop=tuple(e.seq for e in deltas), summary=summary), head + 3)
        head += 4
        print("stored", session, head, flush=True)

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    await asyncio.gather(*(write(store, session) for session in sys.argv[2:]))

asyncio.run(main())
"""


async def killed_while_writing(folder: Path, seconds: float, acknowledged: dict[str, list[int]]) -> None:
    """Add, per session, the heads that the child reported as stored before it was killed."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITE, str(folder), *SESSIONS, stdout=asyncio.subprocess.PIPE
    )
    begun: set[str] = set()

    async def listen() -> None:
        assert child.stdout is not None
        while (line := await child.stdout.readline()).endswith(b"\n"):
            what, session, head = line.decode().split()
            begun.add(session)
            if what == "stored":
                acknowledged[session].append(int(head))

    listening = asyncio.ensure_future(listen())
    while len(begun) < len(SESSIONS):
        assert not listening.done(), "the writing process ended by itself"
        await asyncio.sleep(0.005)
    await asyncio.sleep(seconds)
    child.kill()
    await child.wait()
    await listening


async def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path, rng: random.Random) -> None:
    acknowledged: dict[str, list[int]] = {session: [] for session in SESSIONS}
    for _ in range(ROUNDS):
        await killed_while_writing(tmp_path, rng.uniform(0.0, 0.15), acknowledged)
        store = await SqliteStore.open(tmp_path, node="looking")
        await store.wait_indexed()
        for session in SESSIONS:
            log = await read_all(store, session, limit=500)
            assert_chained(log)
            assert seqs(log) == sorted(set(seqs(log)))
            texts = [e for e in log if e.kind == "text"]
            stored = [e.seq for e in texts]
            assert set(acknowledged[session]) <= set(stored)
            assert all(e.event == b'{"type":"text","text":"word%d"}' % e.seq for e in texts)
            # A text's deltas were dropped in the commit that stored it; the others belong to a text that never came.
            assert not set(seqs(log)) & {seq - n for seq in stored for n in (1, 2, 3)}
            summary = await store.summary(session)
            assert (summary.turns if summary else 0) == (stored[-1] if stored else 0)
            for seq in stored[-1:]:
                assert [hit.seq for hit in await store.search(f"word{seq}", session=session)] == [seq]
        await store.close()
    assert all(acknowledged.values())
