"""Transcripts: from an appended row to its event at a client, compared with a poll that rereads the file, and the cost.

python bench/transcripts.py [--quick] [--files 5000] [--json FILE]

A part of `make bench`, in a separate process. For files of 1 MB, 50 MB and 1 GB (not with --quick), a whole gateway
in this process and a client on its socket: the time from the end of the append to the frame, compared with the seeds'
own way (every 500 ms the whole file is read and parsed again) in the same run; the bytes read for a first page; import
in MB/s compared with a bare json.loads loop; the memory that following takes. Then the CPU that idle watched files
cost.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import websockets.asyncio.client as websocket
from websockets.typing import Subprotocol

from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running
from figures import Figures, table

APPENDS = 200
POLLS = 12
POLL_SECONDS = 0.5
WORDS = "some words of an answer that is about as long as they are, with a bit of code in it. " * 12


def row(session: str, number: int, kind: str) -> bytes:
    body = {"role": kind, "content": f"{number} {WORDS}"}
    if kind == "assistant":
        text = [{"type": "text", "text": body["content"]}]
        body = {"id": f"msg_{number}", "role": kind, "model": "m", "content": text, "stop_reason": "end_turn"}  # type: ignore[dict-item]
    return (
        json.dumps(
            {
                "parentUuid": None,
                "isSidechain": False,
                "cwd": "/srv/project",
                "sessionId": session,
                "version": "2.1.325",
                "type": kind,
                "uuid": str(uuid.uuid4()),
                "timestamp": "2026-01-02T03:04:05.006Z",
                "message": body,
            }
        ).encode()
        + b"\n"
    )


def write(path: Path, session: str, size: int) -> None:
    """Write a conversation of about `size` bytes; in large ones a part is repeated with new uuids."""
    with path.open("wb") as file:
        number = written = 0
        while written < size:
            data = row(session, number, "user" if number % 2 == 0 else "assistant")
            file.write(data)
            number, written = number + 1, written + len(data)


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """Count the bytes that are read from files by offset in this block."""
    read, pread = [0], os.pread

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        read[0] += len(data)
        return data

    os.pread = counting
    try:
        yield read
    finally:
        os.pread = pread


def resident() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def quantiles(taken: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    ordered = sorted(taken)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return statistics.median(ordered) * 1000, last * 1000


async def appended(gateway: GatewayInfo, session: str, path: Path) -> list[float]:
    """From the end of each append to its frame at a client."""
    headers = {"authorization": f"Bearer {gateway.token}"}
    url = gateway.url.replace("http", "ws", 1) + "/v1/ws"
    protocols = [Subprotocol("fairlead.v1.json")]
    taken = []
    async with websocket.connect(url, additional_headers=headers, subprotocols=protocols, max_size=None) as socket:
        await socket.send(json.dumps({"type": "subscribe", "id": 1, "session": session}))
        await socket.recv()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        for number in range(APPENDS):
            data = row(session, 10**9 + number, "assistant")
            name = json.loads(data)["uuid"]
            await asyncio.sleep(0.01)
            os.write(descriptor, data)
            began = time.perf_counter()
            while name not in str(await socket.recv()):
                pass
            taken.append(time.perf_counter() - began)
        os.close(descriptor)
    return taken


def polled(path: Path, session: str, size: int) -> list[float]:
    """The seeds' way: every half second the whole file is read and parsed, and new rows are reported."""
    taken, seen = [], set[str]()
    polls = POLLS if size < 10**9 else 2

    def read() -> set[str]:
        with path.open("rb") as file:
            return {json.loads(line).get("uuid", "") for line in file}

    seen = read()
    due = time.perf_counter()
    for number in range(polls):
        # Appends fall anywhere between two polls.
        due += POLL_SECONDS
        time.sleep(max(0.0, due - time.perf_counter() - POLL_SECONDS * (number % 4 + 0.5) / 4))
        with path.open("ab") as file:
            file.write(row(session, number, "assistant"))
        began = time.perf_counter()
        time.sleep(max(0.0, due - time.perf_counter()))
        now = read()
        assert now - seen
        seen = now
        taken.append(time.perf_counter() - began)
        due = max(due, time.perf_counter())
    return taken


async def one_size(folder: Path, size: int) -> Figures:
    found: Figures = {}
    session = str(uuid.uuid4())
    project = folder / "home" / "projects" / "-srv-project"
    project.mkdir(parents=True, exist_ok=True)
    path = project / f"{session}.jsonl"
    write(path, session, size)
    began = time.perf_counter()
    with path.open("rb") as file:
        for line in file:
            json.loads(line)
    loop = size / 1e6 / (time.perf_counter() - began)
    config = Config(
        port=0,
        data=str(folder / f"data-{size}"),
        agent="demo",
        roots=(str(folder),),
        claude_homes=(str(folder / "home"),),
        log_level="error",
    )
    async with running(config, {"HOME": str(folder), "PATH": os.defpath}) as gateway:
        headers = {"authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=None) as http:
            with counted_reads() as read:
                while True:
                    began = time.perf_counter()
                    page = await http.get(f"/v1/sessions/{session}/glance", params={"limit": 100})
                    if page.status_code != 404:  # the gateway may not have found the file yet
                        break
                found["first page, ms"] = (time.perf_counter() - began) * 1000
            page.raise_for_status()
            found["first page, kB read"] = read[0] / 1e3
            began = time.perf_counter()
            answer = await http.post("/v1/transcripts/import", json={"session": session})
            answer.raise_for_status()
            found["import, MB/s"] = size / 1e6 / (time.perf_counter() - began)
            found["bare json.loads, MB/s"] = loop
        await asyncio.sleep(size / 20e6)  # the search index continues for a while after the import
        before = resident()
        ours = await appended(gateway, session, path)
        found["append to client p50, ms"], found["append to client p99, ms"] = quantiles(ours)
        found["memory, MB"], found["memory by following, MB"] = resident(), resident() - before
    theirs = await asyncio.to_thread(polled, path, session, size)
    found["500 ms poll p50, ms"], found["500 ms poll p99, ms"] = quantiles(theirs)
    found["sooner by, x"] = statistics.median(theirs) / statistics.median(ours)
    path.unlink()
    return found


async def idle(folder: Path, count: int, seconds: float) -> Figures:
    found: Figures = {}
    for number in range(count):
        session = str(uuid.uuid4())
        project = folder / "idle" / "projects" / f"-srv-{number % 100}"
        project.mkdir(parents=True, exist_ok=True)
        (project / f"{session}.jsonl").write_bytes(row(session, number, "user") + row(session, number, "assistant"))
    config = Config(
        port=0,
        data=str(folder / "data-idle"),
        agent="demo",
        roots=(str(folder),),
        claude_homes=(str(folder / "idle"),),
        log_level="error",
    )
    async with running(config, {"HOME": str(folder), "PATH": os.defpath}) as gateway:
        headers = {"authorization": f"Bearer {gateway.token}"}
        began = time.perf_counter()
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=None) as http:
            listed = 0
            while listed < count:
                listed, before = 0, ""
                while True:
                    query: dict[str, Any] = {"limit": 1000, "state": "transcript"} | (
                        {"before": before} if before else {}
                    )
                    page = (await http.get("/v1/sessions", params=query)).json()
                    listed += len(page["sessions"])
                    before = page.get("next", "")
                    if not before:
                        break
        found["listed after, s"] = time.perf_counter() - began
        # The one-time work after listing them (the store's checkpoint, 15 ms at 5,000 files) is not idling.
        await asyncio.sleep(6)
        before_cpu = time.process_time()
        await asyncio.sleep(seconds)
        found["CPU, % of a core"] = (time.process_time() - before_cpu) / seconds * 100
    return found


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="without the file of 1 GB")
    options.add_argument("--files", type=int, default=5000, help="how many idle files are watched")
    options.add_argument("--seconds", type=float, default=10.0, help="how long idling is measured")
    options.add_argument("--json", type=Path, help="where the figures are written to")
    given = options.parse_args()
    found: Figures = {}
    with tempfile.TemporaryDirectory() as name:
        for size in (10**6, 50 * 10**6, *([] if given.quick else [10**9])):
            found[f"{size // 10**6} MB"] = await one_size(Path(name), size)
        still = await idle(Path(name), given.files, given.seconds)
    names = list(found["1 MB"])
    rows = {what: tuple(figures[what] for figures in found.values()) for what in names}
    table("Transcripts: from an appended row to a client, beside a poll that reads the file again", tuple(found), rows)
    table(f"{given.files} idle files", ("",), {what: (value,) for what, value in still.items()})
    found[f"{given.files} idle files"] = still
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    asyncio.run(main())
