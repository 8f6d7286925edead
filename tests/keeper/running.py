"""Real keepers and the processes that they hold."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.keeper.client import Keeper, KeptProcess, ProcessSpec, connect, connect_or_start
from fairlead.system.clock import SystemClock
from fairlead.system.process_group import StopTimeouts
from fairlead.system.proctable import Process, descendants, kill, start_mark
from patience import PATIENCE

LONG = StopTimeouts(close=60, terminate=60, kill=60)
SHORT = StopTimeouts(close=0.05, terminate=0.05, kill=60)


_open: list[Keeper] = []


async def keeper_of(data: Path) -> Keeper:
    """A connection to the keeper of this folder, which is started if it does not run. It ends with the test."""
    _open.append(await connect_or_start(data, SystemClock()))
    return _open[-1]


async def connected(data: Path) -> Keeper:
    _open.append(await connect(data, SystemClock()))
    return _open[-1]


async def close_connections() -> None:
    while _open:
        await _open.pop().close()


async def kept_at(data: Path) -> list[int]:
    """The pids of the processes that a new gateway finds."""
    keeper = await connected(data)
    await keeper.close()
    return [process.pid for process in keeper.found]


async def answered(keeper: Keeper) -> None:
    """Wait until the keeper has handled everything that was sent to it before."""
    process = await spawn(keeper, "/bin/true")
    await process.wait()
    process.forget()


async def spawn(keeper: Keeper, *argv: str, **more: Any) -> KeptProcess:
    given = {"env": {}, "cwd": "/", "tag": {}} | more
    return await keeper.spawn(ProcessSpec(argv=argv, **given))


async def spawn_python(keeper: Keeper, code: str, *arguments: str, **more: Any) -> KeptProcess:
    return await spawn(keeper, sys.executable, "-I", "-c", code, *arguments, **more)


class Reader:
    """Reads the output of a process in the background while a test waits for a text."""

    def __init__(self, process: KeptProcess, offset: int | None = None) -> None:
        self.output = bytearray()
        self._more = asyncio.Event()
        self.task = asyncio.create_task(process.read(self._take, offset))
        # Most tests end before the process does, and do not wait for its reader.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _take(self, data: bytes) -> None:
        self.output += data
        self._more.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while text not in self.output:
                self._more.clear()
                await self._more.wait()

    async def end(self) -> bytes:
        await asyncio.wait_for(self.task, PATIENCE)
        return bytes(self.output)


async def output_of(process: KeptProcess, offset: int | None = None) -> bytes:
    return await Reader(process, offset).end()


async def eventually(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


def keepers(data: Path) -> list[int]:
    """The pids of the keepers of this folder, also of one that does not listen any more."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0") if entry.isdigit() else []
        except OSError:
            continue
        if len(words) > 2 and words[-2] == os.fsencode(data) and b"-I" in words:
            found.append(int(entry))
    return found


def end_keepers(data: Path) -> None:
    """Kill the keepers of a folder and their processes."""
    for pid in keepers(data):
        for process in (*descendants(pid), Process(pid, start_mark(pid))):
            kill(process, signal.SIGKILL)


def is_known(pid: int) -> bool:
    """Whether the system has such a process, zombies included."""
    return Path(f"/proc/{pid}").exists()


def written_by(pid: int) -> int:
    """The bytes that a process has written."""
    return int(Path(f"/proc/{pid}/io").read_text().split("wchar: ")[1].split()[0])


def memory_of(pid: int) -> int:
    """Bytes in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))
