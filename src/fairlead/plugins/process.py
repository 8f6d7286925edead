"""Runs one plugin's server: starts it, waits until it is ready, and restarts it when it ends, with growing pauses.

A server reports in one line of its output that it listens: {"ready": true, "port": 4711}. All other output is read and
dropped; the end of its stderr shows why it ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Protocol

import msgspec

from fairlead.model.errors import FairleadError, Stale
from fairlead.plugins.api import State
from fairlead.system.clock import Clock, within
from fairlead.system.process import ChildProcess, StopTimeouts
from fairlead.system.tasks import run_until

log = logging.getLogger("fairlead.plugins")

READY_SECONDS: Final = 10.0
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
STEADY_SECONDS: Final = 60.0
"""After running this long a server does not count as failing: the next pause is short again."""
LONGEST_LINE: Final = 64 << 10
PATIENCE: Final = StopTimeouts(close=2.0, terminate=3.0, kill=5.0)
"""A server that does not react to the end of its input gets SIGTERM after two seconds."""


class Children(Protocol):
    """Stores a process record, so that the next gateway process finds the servers of a killed one."""

    async def remember(self, name: str, child: ChildProcess) -> None: ...
    async def forget(self, name: str) -> None: ...


class _Ready(msgspec.Struct, frozen=True):
    ready: Literal[True]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class ReadyLine:
    """Reads a server's output, and resolves `port` when the server reports it."""

    def __init__(self) -> None:
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._line = bytearray()

    async def take(self, data: bytes) -> None:
        if self.port.done():
            return
        *lines, rest = (bytes(self._line) + data).split(b"\n")
        self._line = bytearray(rest[:LONGEST_LINE])
        for line in lines:
            port = _port_of(line)
            if port and not self.port.done():
                self.port.set_result(port)
                self._line.clear()


def _port_of(line: bytes) -> int:
    """The port in a ready line; 0 for any other output."""
    try:
        return msgspec.json.decode(line, type=_Ready).port
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


@dataclass(eq=False, repr=False)
class PluginRunner:
    """`_launch` starts the server; it raises Stale if the plugin differs from the enabled version."""

    name: str
    _launch: Callable[[], Awaitable[ChildProcess]]
    _children: Children
    _clock: Clock
    state: State = "starting"
    port: int = 0
    pid: int = 0
    restarts: int = 0
    problem: str = ""
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._supervise())

    async def stop(self) -> None:
        """Stop the server and wait for its end, which takes a bounded time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # --- inside

    async def _supervise(self) -> None:
        wait = FIRST_WAIT
        while True:
            self.state = "starting"
            began = self._clock.monotonic()
            try:
                self.problem = await self._run(await self._launch())
            except Stale as error:
                self.state, self.problem = "changed", error.message
                log.warning("plugin not started", extra={"plugin": self.name, "problem": error.message})
                return
            except FairleadError as error:
                self.problem = error.message
            except Exception:
                log.exception("plugin failed", extra={"plugin": self.name})
                self.problem = "It could not be run: see the gateway's log."
            if self._clock.monotonic() - began >= STEADY_SECONDS:
                wait = FIRST_WAIT
            self.state = "waiting"
            log.warning("plugin ended", extra={"plugin": self.name, "problem": self.problem, "again_s": wait})
            await self._clock.sleep(wait)
            self.restarts += 1
            wait = min(2 * wait, LONGEST_WAIT)

    async def _run(self, child: ChildProcess) -> str:
        """Serve one process until its end. Returns the reason of its end."""
        reading: asyncio.Task[None] | None = None
        try:
            await self._children.remember(self.name, child)
            self.pid = child.pid
            ready_line = ReadyLine()
            reading = asyncio.create_task(child.read(ready_line.take))
            try:
                self.port = await within(self._clock, READY_SECONDS, _ready(ready_line, child))
            except TimeoutError:
                return f"It was not ready within {READY_SECONDS:g} seconds." + _last_stderr_line(child)
            if self.port:
                self.state, self.problem = "running", ""
                log.info("plugin started", extra={"plugin": self.name, "pid": child.pid, "port": self.port})
            status = await child.wait()
            how = f"with code {status.code}" if status.signal is None else f"by signal {status.signal}"
            return f"It ended {how}." + _last_stderr_line(child)
        finally:
            self.port = self.pid = 0
            await child.end(PATIENCE)
            if reading is not None:
                # A process that did not die may still hold the pipe open.
                reading.cancel()
                await asyncio.wait({reading})
            await self._children.forget(self.name)


async def _ready(ready_line: ReadyLine, child: ChildProcess) -> int:
    """The port; 0 if the server ended before it reported one."""
    port = await run_until(ready_line.port, child.wait())
    return 0 if port.cancelled() else port.result()


def _last_stderr_line(child: ChildProcess) -> str:
    """The last line of its stderr, as a sentence to append to a message."""
    lines = [line for line in child.stderr.splitlines() if line.strip()]
    return f" The end of its stderr: {lines[-1].strip()[:300]}" if lines else ""
