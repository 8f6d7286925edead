"""Projections: how often an entry is encoded, the cost of reconnecting, and history compared with a bare file send.

python bench/views.py [--quick] [--json FILE]

A part of `make bench`, in a separate process. The encodings are counted in a whole gateway in this process; the rest
is measured on `fairlead serve` from outside.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead.clients.cognova.chat_frames import ChatEncoder
from fairlead.clients.direct.view import DirectEncoder
from fairlead.clients.happy.mapper import VIEW
from fairlead.clients.happy.messages import HappyEncoder
from fairlead.clients.mylifedb.fold import NAME as MYLIFEDB_VIEW
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder as MyLifeDbVariant
from fairlead.clients.native.codec import Codec
from fairlead.config import Config
from fairlead.model.auth import Identity
from fairlead.model.commands import Create, Send
from fairlead.model.content import TextBlock
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import FrameEncoder
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.sessions.gateway import SessionGateway
from fairlead.wiring import GatewayInfo
from fairlead.wiring import RunningGateway as Whole
from figures import Figures, table
from processes import HERE, Gateway, Relay, agent_in
from transcripts import write
from wires import Wire

ADMIN = Identity("bench", "bench", "bench", frozenset({"admin"}))


# --- encoded once ----------------------------------------------------------------------------------------------------


class Counted:
    """A frame encoder that counts its encodings."""

    def __init__(self, inner: FrameEncoder) -> None:
        self.inner = inner
        self.encoded = 0

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        self.encoded += 1
        return self.inner.encode(session, entry)

    def signal(self, session: SessionId, kind: str, name: str, data: Any) -> bytes:
        return self.inner.signal(session, kind, name, data)


class NullSink:
    """A sink that accepts everything at once."""

    def __init__(self) -> None:
        self.sent = 0

    def send(self, data: bytes) -> None:
        self.sent += len(data)

    def backlog(self) -> int:
        return 0

    def fail(self, error: FairleadError) -> None:
        raise error


SHOWN: dict[str, tuple[FrameEncoder, str]] = {
    "native": (Codec(), ""),
    "direct": (DirectEncoder(), ""),
    "cognova": (ChatEncoder(), ""),
    "mylifedb": (MyLifeDbVariant(), MYLIFEDB_VIEW),
    "happy": (HappyEncoder(None), VIEW),
}


async def encodings(quick: bool) -> Figures:
    count, found = (500 if quick else 2000), {}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        config = Config(
            data=str(folder / "data"),
            port=0,
            roots=(name,),
            agent="claude",
            claude=str(agent_in(folder)),
            claude_home=name,
        )
        whole = Whole(config, {"PATH": os.environ["PATH"], "HOME": name, "LANG": "C.UTF-8"})
        started: asyncio.Future[GatewayInfo] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(whole.serve(started.set_result, signals=False))
        await started
        # Without sockets: they would give the same counts and add their work.
        core = SessionGateway(whole.core.registry.services, whole.core.registry)
        for subscribers in (1, 10, 100):
            found[str(subscribers)] = await _counted(core, name, subscribers, count)
        whole.stop()
        await serving
    table(
        f"Encodings of a turn of {count} deltas, for all subscribers together",
        tuple(f"{n} subscribers" for n in found),
        {name: [float(by[name]) for by in found.values()] for name in ("entries", *SHOWN)},
    )
    return found


async def _counted(core: SessionGateway, cwd: str, subscribers: int, count: int) -> Figures:
    session = SessionId(str(uuid.uuid4()))
    await core.command(ADMIN, Create(session=session, cwd=cwd))
    variants = {name: (Counted(variant), view) for name, (variant, view) in SHOWN.items()}
    watches = []
    for variant, view in variants.values():
        for _ in range(subscribers):
            watches.append(await core.watch(ADMIN, session, None, variant, NullSink(), view))
            watches[-1].start()
    while not all(watch.live for watch in watches):
        await asyncio.sleep(0.001)
    for variant, _ in variants.values():
        variant.encoded = 0  # the frames that each received on connecting are not counted
    before = core.registry.feed(session).head
    await core.command(ADMIN, Send(session=session, content=(TextBlock(f"burst {count}"),)))
    state = (await core.registry.get(session)).core
    while state.state.turns < 1 or state.interpreter.turn is not None or not all(watch.live for watch in watches):
        await asyncio.sleep(0.005)
    for _, view in SHOWN.values():
        if view:
            await core.registry.views.get(session, view).wait_until(state.log.head, lambda level: level.head)
    for watch in watches:
        watch.close()
    entries = core.registry.feed(session).head - before
    return {"entries": entries} | {name: variant.encoded for name, (variant, _) in variants.items()}


# --- reconnecting, and history ---------------------------------------------------------------------------------------


def subscribe(port: int, session: str, query: str = "") -> Wire:
    return Wire(port, f"/api/claude/sessions/{session}/subscribe{query}")


def take(wire: Wire, last: bytes) -> tuple[int, int, bytes]:
    """(frames, bytes, the last of them) up to the frame that contains `last`."""
    count = size = 0
    for _, payload in wire.frames():
        count, size = count + 1, size + len(payload)
        if last in payload:
            return count, size, payload
    raise RuntimeError("the server hung up")


def read_bytes(server: Gateway) -> int:
    """The bytes that its process has read from files so far."""
    for line in Path(f"/proc/{server.process.pid}/io").read_text().splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    raise RuntimeError("the system does not tell what was read")


def conversation(folder: Path, records: int) -> tuple[str, Path, list[str]]:
    """A transcript of that many records: the session, its file and the uuids."""
    session = str(uuid.uuid4())
    file = folder / ".claude" / "projects" / "-srv-project" / f"{session}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file, session, records * 1400)
    return session, file, [json.loads(line)["uuid"] for line in file.read_bytes().splitlines()]


def imported(server: Gateway, session: str, last: str) -> None:
    """Wait until the whole transcript is in the log: that is the import's cost, measured elsewhere."""
    until = time.monotonic() + 300
    while last not in server.http.get(f"/v1/sessions/{session}/messages?limit=5").text:
        if time.monotonic() > until:
            raise RuntimeError("the transcript was not read")
        time.sleep(0.05)


def back(quick: bool) -> Figures:
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        session, _, uuids = conversation(folder, 20_000 if quick else 100_000)
        made = Gateway(folder)
        made.start()
        imported(made, session, uuids[-1])
        wire = subscribe(made.port, session)
        _, whole, _ = take(wire, uuids[-1].encode())
        wire.close()
        for missed in (10, 100, 1000):
            times, reads, sents = [], [], []
            for _ in range(5):
                begun, read = time.monotonic_ns(), read_bytes(made)
                wire = subscribe(made.port, session, f"?fromUuid={uuids[-1 - missed]}")
                _, sent, _ = take(wire, uuids[-1].encode())
                times.append((time.monotonic_ns() - begun) / 1e6)
                reads.append(read_bytes(made) - read)
                sents.append(sent)
                wire.close()
            found[f"{missed} missed"] = {
                "ms": statistics.median(times),
                "read": statistics.median(reads),
                "sent": statistics.median(sents),
            }
        found["all of it"] = {"sent": whole}
        made.stop()
    table(
        f"A MyLifeDB client that comes back to a session of {len(uuids):,} records",
        ("ms", "bytes read", "bytes sent"),
        {name: (f.get("ms", ""), f.get("read", ""), f["sent"]) for name, f in found.items()},
    )
    return found


def history(quick: bool) -> Figures:
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = Path(name)
        session, file, uuids = conversation(folder, 2_000 if quick else 20_000)
        made = Gateway(folder)
        made.start()
        imported(made, session, uuids[-1])
        bare = Relay("bare file send", [sys.executable, str(HERE / "bare_file.py"), str(file)])
        for label, server, port in (
            ("the first client ever", made, made.port),
            *((("a new client", made, made.port), ("bare file send", bare, bare.port)) * 5),
        ):
            cpu, begun = server.cpu(), time.monotonic_ns()
            wire = subscribe(port, session)
            frames, size, _ = take(wire, uuids[-1].encode())
            taken, cpu = time.monotonic_ns() - begun, server.cpu() - cpu
            wire.close()
            one = found.setdefault(label, {"ms": [], "cpu_ms": [], "frames": frames, "bytes": size})
            one["ms"].append(taken / 1e6)
            one["cpu_ms"].append(cpu / 1e6)
        made.stop()
        bare.stop()
    for one in found.values():
        one["ms"], one["cpu_ms"] = statistics.median(one["ms"]), statistics.median(one["cpu_ms"])
    base = found["bare file send"]
    rows: dict[str, Sequence[float | str]] = {
        name: (f["ms"], f["cpu_ms"], f["ms"] / base["ms"], f["cpu_ms"] / base["cpu_ms"]) for name, f in found.items()
    }
    table(f"History of {len(uuids):,} records to a client of MyLifeDB", ("ms", "CPU ms", "ratio", "CPU ratio"), rows)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller numbers")
    parser.add_argument("--json", type=Path, help="keep the figures there")
    options = parser.parse_args()
    found = {
        "encodings": asyncio.run(encodings(options.quick)),
        "back": back(options.quick),
        "history": history(options.quick),
    }
    if options.json is not None:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
