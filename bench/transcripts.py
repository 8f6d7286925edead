"""Transcripts: from an appended row to its event at a client, beside a poll that reads the file again, and the cost.

    python bench/transcripts.py [--long] [--files 5000]

For files of 1 MB and 50 MB (and 1 GB with --long), a whole gateway in this process and a client on its socket: the time
from the end of the append to the frame, beside the seeds' own way (every 500 ms the whole file is read and parsed
again) in the same run; the bytes read for a first page; import in MB/s beside a bare json.loads loop; the memory that
following takes. Then the CPU that idle watched files cost.
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

import httpx
import websockets.asyncio.client as websocket
from websockets.typing import Subprotocol

from fairlead.config import Config
from fairlead.wiring import Running, running

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
    """A conversation of about `size` bytes; of large ones a part is repeated with uuids of its own."""
    with path.open("wb") as file:
        number = written = 0
        while written < size:
            data = row(session, number, "user" if number % 2 == 0 else "assistant")
            file.write(data)
            number, written = number + 1, written + len(data)


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """The bytes that are read from files by offset meanwhile."""
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
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def quantiles(taken: list[float]) -> str:
    ordered = sorted(taken)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"p50 {statistics.median(ordered) * 1000:9.2f} ms   p99 {last * 1000:9.2f} ms"


async def appended(gateway: Running, session: str, path: Path) -> list[float]:
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
    """The seeds' way: every half second the file is read and parsed whole, and what is new is told."""
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


async def one_size(folder: Path, size: int) -> None:
    session = str(uuid.uuid4())
    project = folder / "home" / "projects" / "-srv-project"
    project.mkdir(parents=True, exist_ok=True)
    path = project / f"{session}.jsonl"
    write(path, session, size)
    print(f"\n--- {size / 1e6:.0f} MB")
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
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=None) as http:
            with counted_reads() as read:
                began = time.perf_counter()
                page = await http.get(f"/v1/sessions/{session}/glance", params={"limit": 100})
                taken = time.perf_counter() - began
            page.raise_for_status()
            print(f"first page            {read[0] / 1e3:9.0f} kB read, {taken * 1000:.1f} ms")
            began = time.perf_counter()
            answer = await http.post("/v1/transcripts/import", json={"session": session})
            answer.raise_for_status()
            imported = size / 1e6 / (time.perf_counter() - began)
            print(f"import                {imported:9.1f} MB/s, bare json.loads {loop:.1f} MB/s: {imported / loop:.2f}")
        await asyncio.sleep(size / 20e6)  # the search index goes on for a while behind the import
        before = resident()
        ours = await appended(gateway, session, path)
        print(f"append to client      {quantiles(ours)}")
        print(f"memory                {resident():9.0f} MB, {resident() - before:+.1f} MB by following")
    theirs = await asyncio.to_thread(polled, path, session, size)
    print(f"500 ms poll, re-read  {quantiles(theirs)}")
    print(f"sooner by             {statistics.median(theirs) / statistics.median(ours):9.0f} x at p50")
    path.unlink()


async def idle(folder: Path, count: int, seconds: float) -> None:
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
        async with httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=None) as http:
            found = 0
            while found < count:
                found, before = 0, ""
                while True:
                    query: dict[str, Any] = {"limit": 1000, "state": "transcript"} | (
                        {"before": before} if before else {}
                    )
                    page = (await http.get("/v1/sessions", params=query)).json()
                    found += len(page["sessions"])
                    before = page.get("next", "")
                    if not before:
                        break
        print(f"\n--- {count} files\nlisted after          {time.perf_counter() - began:9.2f} s")
        await asyncio.sleep(1)
        before_cpu = time.process_time()
        await asyncio.sleep(seconds)
        used = (time.process_time() - before_cpu) / seconds
        print(f"idle                  {used * 100:9.3f} % of a core over {seconds:.0f} s")


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--long", action="store_true", help="with a file of 1 GB")
    options.add_argument("--files", type=int, default=5000, help="how many idle files are watched")
    options.add_argument("--seconds", type=float, default=10.0, help="how long idling is measured")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for size in (10**6, 50 * 10**6, *([10**9] if given.long else [])):
            await one_size(Path(name), size)
        await idle(Path(name), given.files, given.seconds)


if __name__ == "__main__":
    asyncio.run(main())
