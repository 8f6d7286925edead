"""One change of a resource to many peers of /notifications: how long until all have it, and the cost per peer.

python bench/changes.py [--quick]

A part of `make bench`. A separate run on a bare change feed counts how often a change is encoded.
"""

import asyncio
import selectors
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fairlead.clients.cognova.notifications import NotificationCodec
from fairlead.model.auth import Identity
from fairlead.notifications.api.feed import Change, FeedEntry
from fairlead.notifications.change_feed import ChangeFeed
from fairlead.stores.sqlite import SqliteStore
from fairlead.system.clock import SystemClock
from figures import Figures, table
from processes import Gateway
from wires import Wire

PEERS = (1, 10, 100, 1000)


class Counted(NotificationCodec):
    def __init__(self) -> None:
        self.encoded = 0

    def entry(self, entry: FeedEntry, cursor: str | None) -> bytes:
        self.encoded += 1
        return super().entry(entry, cursor)


class NullSocket:
    """A socket that accepts everything at once."""

    def send(self, frames: bytes) -> None: ...
    def backlog(self) -> int:
        return 0

    def probe(self, answered: object) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self, code: int, reason: str) -> None: ...


ADMIN = Identity("", "", "", frozenset({"admin"}))


async def encodings(peers: int) -> int:
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        store = await SqliteStore.open(Path(folder))
        feed, codec = ChangeFeed(store.resources, SystemClock()), Counted()
        await feed.start()
        for _ in range(peers):
            feed.join(ADMIN, codec).attached(NullSocket())
        await feed.write(Change(resource="task", action="create", id="1", name="Fix login bug"))
        await store.close()
        return codec.encoded


def arrival(wires: Sequence[Wire], mark: bytes) -> int:
    """When the last peer had the frame with `mark`, in nanoseconds."""
    waiting = dict.fromkeys(wires, b"")
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.socket, selectors.EVENT_READ, wire)
        while waiting:
            for key, _ in selector.select(timeout=120):
                wire = key.data
                data = waiting[wire] + wire.socket.recv(1 << 16)
                waiting[wire] = data
                if mark in data:
                    selector.unregister(wire.socket)
                    del waiting[wire]
    return time.monotonic_ns()


def measure(quick: bool) -> Figures:
    changes = 10 if quick else 40
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as folder:
        server = Gateway(Path(folder))
        server.start()
        try:
            wires: list[Wire] = []
            for peers in PEERS:
                wires += [Wire(server.port, "/notifications") for _ in range(peers - len(wires))]
                times, cpus = [], []
                for number in range(changes + 1):
                    mark = f"change {peers} {number} of many"
                    cpu, begun = server.cpu(), time.monotonic_ns()
                    server.http.post("/cognova/api/tasks", json={"title": mark}).raise_for_status()
                    last = arrival(wires, mark.encode())
                    if number:  # the first is a warm-up
                        times.append((last - begun) / 1e6)
                        cpus.append((server.cpu() - cpu) / 1e3)
                found[str(peers)] = {
                    "ms": statistics.median(times),
                    "cpu_us": statistics.median(cpus),
                    "encoded": asyncio.run(encodings(peers)),
                }
            for wire in wires:
                wire.close()
        finally:
            server.stop()
    most = PEERS[-1]
    further = (found[str(most)]["cpu_us"] - found["1"]["cpu_us"]) / (most - 1)
    table(
        "One change through REST to all peers of /notifications",
        ("ms until all have", "CPU us", "ms, ratio to one", "times encoded"),
        {f"{name} peers": (f["ms"], f["cpu_us"], f["ms"] / found["1"]["ms"], f["encoded"]) for name, f in found.items()}
        | {"each further peer": ("", further)},
    )
    return found | {"cpu_us_per_further_peer": further}


if __name__ == "__main__":
    measure("--quick" in sys.argv[1:])
