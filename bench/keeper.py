"""What the keeper costs: the delay of a line beside a plain pipe, its CPU time per line, its memory, and how soon a
killed gateway serves again while its agents wait."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2

from fairlead.keeper.client import Keeper, ProcessSpec, connect_or_start
from fairlead.system.clock import SystemClock
from fairlead.system.process import StopTimeouts, spawn
from figures import Figures, spread, table
from processes import Gateway, agent_in
from wires import TOKEN

RATE = 200
AGENTS = 50

RELAY = """
import os, select
poll = select.epoll()
poll.register(0, select.EPOLLIN)
while poll.poll() and (data := os.read(0, 65536)):
    os.write(1, data)
"""
"""The least that a process in Python can do between an agent and its reader."""

Read = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]


class _Meter:
    """The CPU time of a process from its first line on. `name`: its last argument."""

    def __init__(self, name: Path) -> None:
        self._name = name
        self._pid = self._before = 0

    def begin(self) -> None:
        if not self._pid:
            self._pid = _pid(self._name)
            self._before = _cpu(self._pid)

    def microseconds(self) -> float:
        return (_cpu(self._pid) - self._before) / 1000


async def _ages(
    read: Read,
    write: Callable[[bytes], Awaitable[None]],
    count: int,
    meter: _Meter | None = None,
    acknowledge: Callable[[int], None] = lambda offset: None,
) -> list[float]:
    """Microseconds that each delta of a paced turn was on its way."""
    found: list[float] = []
    rest = b""
    offset = 0

    async def take(data: bytes) -> None:
        nonlocal rest, offset
        came = time.monotonic_ns()
        offset += len(data)
        acknowledge(offset)
        if meter is not None:
            meter.begin()
        *lines, rest = (rest + data).split(b"\n")
        found.extend(
            (came - int(json.loads(line)["event"]["delta"]["text"])) / 1000 for line in lines if b'"text_delta"' in line
        )
        if any(b'"result"' in line for line in lines):
            raise _Over

    prompt = {"type": "user", "message": {"role": "user", "content": f"paced {count} {RATE}"}}
    await write(json.dumps(prompt).encode() + b"\n")
    try:
        await read(take)
    except _Over:
        return found
    raise RuntimeError("the agent ended early")


class _Over(Exception):
    pass


async def _compare(folder: Path, rounds: int, count: int) -> Figures:
    clock, program = SystemClock(), agent_in(folder)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    keeper = await connect_or_start(folder, clock)
    samples: dict[str, list[float]] = {}
    spent = dict.fromkeys(("a bare relay", "through the keeper"), 0.0)
    relayed = ["/bin/sh", "-c", f'"{program}" | "{sys.executable}" -I -S -c "$0" "$1"', RELAY, f"{folder}/relay"]
    try:
        for number in range(rounds + 1):
            for title in ("a plain pipe", "a bare relay", "through the keeper"):
                if title == "through the keeper":
                    spec = ProcessSpec(argv=[str(program)], env=env, cwd=str(folder), tag={})
                    kept = await keeper.spawn(spec)
                    meter = _Meter(folder)
                    ages = await _ages(kept.read, kept.write, count, meter, kept.ack)
                    spent[title] += meter.microseconds()
                    await kept.end(StopTimeouts())
                    kept.forget()
                else:
                    argv = relayed if title == "a bare relay" else [str(program)]
                    meter = _Meter(folder / "relay")
                    child = spawn(argv, env=env, cwd=str(folder), clock=clock)
                    ages = await _ages(child.read, child.write, count, meter if title in spent else None)
                    if title in spent:
                        spent[title] += meter.microseconds()
                    await child.end(StopTimeouts())
                if number:  # the first is a warm-up
                    samples.setdefault(title, []).extend(ages)
        found: Figures = {title: spread(each) for title, each in samples.items()}
        found["idle"] = {"MB": _memory(_pid(folder)) / 1e6}
        found["paced"] = {title: each / ((rounds + 1) * count) for title, each in spent.items()}
        found["flood"] = await _flood(keeper, program, folder, env, 20_000)
    finally:
        await keeper.close(quit=True)
    return found


async def _flood(keeper: Keeper, program: Path, folder: Path, env: dict[str, str], lines: int) -> Figures:
    """CPU microseconds of the keeper per line of an agent that writes as fast as it can, acknowledged as it is read."""
    kept = await keeper.spawn(ProcessSpec(argv=[str(program)], env=env, cwd=str(folder), tag={}))
    seen = offset = 0
    before = _cpu(_pid(folder))

    async def take(data: bytes) -> None:
        nonlocal seen, offset
        seen += data.count(b"\n")
        offset += len(data)
        kept.ack(offset)
        if seen >= lines:
            raise _Over

    prompt = {"type": "user", "message": {"role": "user", "content": f"burst {lines}"}}
    await kept.write(json.dumps(prompt).encode() + b"\n")
    with contextlib.suppress(_Over):
        await kept.read(take)
    spent = (_cpu(_pid(folder)) - before) / 1000 / seen
    await kept.end(StopTimeouts())
    kept.forget()
    return {"us per line": spent}


def _pid(folder: Path) -> int:
    """The keeper of a folder, which is its last argument."""
    name = str(folder).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"-I" in words and name in words[-3:]:
                return int(entry.name)
    raise RuntimeError("there is no keeper")


def _cpu(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the keeper is gone")


def _restart(folder: Path, agents: int) -> Figures:
    """Seconds until a killed gateway answers again, and until it has taken over all its agents."""
    gateway = Gateway(folder)
    gateway.settings["max_agents"] = agents + 1
    gateway.start()
    try:
        sessions = [gateway.create() for _ in range(agents)]
        for session in sessions:
            gateway.http.post(f"/v1/sessions/{session}/messages", json={"text": "held 1 10"}).raise_for_status()
        _until(lambda: _count(gateway.http) == agents)
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait()
        (folder / "data" / "server.json").unlink()
        begun = time.monotonic()
        served = gateway.start()
        _until(lambda: _count(gateway.http) == agents)
        return {"serves": served, "all agents": time.monotonic() - begun}
    finally:
        gateway.http.post("/v1/gateway/stop", json={"agents": True})
        gateway.process.wait(60)


def _count(http: httpx2.Client) -> int:
    found: int = (
        http.get("/v1/gateway", headers={"Authorization": f"Bearer {TOKEN}"}).raise_for_status().json()["agents"]
    )
    return found


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("it did not happen")
        time.sleep(0.01)


def measure(quick: bool) -> Figures:
    rounds, count, agents = (1, 100, 5) if quick else (5, 400, AGENTS)
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        found = asyncio.run(_compare(Path(name), rounds, count))
    table(
        "From a line of the agent to its reader, microseconds",
        ("p50", "p90", "p99"),
        {
            title: (found[title]["p50"], found[title]["p90"], found[title]["p99"])
            for title in ("a plain pipe", "a bare relay", "through the keeper")
        },
    )
    paced = found["paced"]
    table(
        "The keeper",
        ("memory, MB", "CPU per line, us", "of a bare relay, us", "in a flood, us"),
        {
            "keeper": (
                found["idle"]["MB"],
                paced["through the keeper"],
                paced["a bare relay"],
                found["flood"]["us per line"],
            )
        },
    )
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        found["restart"] = _restart(Path(name), agents)
    table(
        f"A killed gateway with {agents} agents at work, seconds until it",
        ("serves", "has all of them"),
        {"gateway": (found["restart"]["serves"], found["restart"]["all agents"])},
    )
    return found


if __name__ == "__main__":
    measure("--quick" in sys.argv)
