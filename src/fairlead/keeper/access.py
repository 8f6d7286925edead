"""The gateway's way to its keeper: it is found at the start, or started with the first process; one that has ended is
replaced when the next process starts."""

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from fairlead.keeper.client import Keeper, KeptProcess, ProcessSpec, connect, connect_or_start
from fairlead.system.clock import Clock
from fairlead.system.process_group import StopTimeouts

logger = logging.getLogger("fairlead.keeper")


SHARED_ORPHAN_S = 15.0
"""How long processes in shared folders live without a gateway: less than a node must be silent for its sessions to be
taken over."""


class KeeperAccess:
    """`orphan_s`: how long processes live without a gateway. `shared`: whether another node has this folder too, and
    may take over the session in it."""

    def __init__(
        self, data: Path, clock: Clock, orphan_s: float, shared: Callable[[str], bool] = lambda folder: False
    ) -> None:
        self._orphan_s = orphan_s
        self._shared = shared
        self._data = data
        self._clock = clock
        self._keeper: Keeper | None = None
        self._opening = asyncio.Lock()
        self._found: dict[tuple[int, str], KeptProcess] = {}

    async def find_running(self) -> None:
        """Connect to the keeper of an earlier gateway, if there is one."""
        try:
            self._keeper = await connect(self._data, self._clock)
        except OSError:
            return
        self._found = {(process.pid, process.started): process for process in self._keeper.found}

    def find(self, pid: int, started: str) -> KeptProcess | None:
        """A process that the keeper had at the start. The caller is now responsible for it."""
        return self._found.pop((pid, started), None)

    async def end_unknown(self, kind: str, known: Collection[tuple[int, str]]) -> None:
        """End the processes of this kind that are not among the `known` pids with start marks: the gateway was killed
        before it had recorded them, so they have got no input."""
        unknown = [key for key, process in self._found.items() if process.tag.get("kind") == kind and key not in known]
        await asyncio.gather(*(self._end(self._found.pop(key)) for key in unknown))

    async def _end(self, process: KeptProcess) -> None:
        logger.warning("a process that no session knows is ended", extra={"pid": process.pid, "tag": process.tag})
        await process.end(StopTimeouts(close=0, terminate=0))
        process.forget()

    @property
    def found(self) -> tuple[KeptProcess, ...]:
        """The processes that the keeper had at the start, without those that `find` has returned."""
        return tuple(self._found.values())

    @property
    def started(self) -> bool:
        """Whether a keeper was found or started; it may have ended since."""
        return self._keeper is not None

    async def opened(self) -> "KeeperAccess":
        """Return this object when the keeper answers. Raises OSError if it cannot be started."""
        await self._open()
        return self

    async def _open(self) -> Keeper:
        async with self._opening:
            if self._keeper is None or self._keeper.lost.is_set():
                self._keeper = await connect_or_start(self._data, self._clock)
            return self._keeper

    async def spawn(self, spec: ProcessSpec) -> KeptProcess:
        """Start a process at the keeper, which is started if it does not run."""
        orphan_s = min(SHARED_ORPHAN_S, self._orphan_s) if self._shared(spec.cwd) else self._orphan_s
        return await (await self._open()).spawn(msgspec.structs.replace(spec, orphan_s=orphan_s))

    async def close(self) -> None:
        """Leave the keeper. It ends if it holds nothing."""
        if self._keeper is not None:
            await self._keeper.close(quit=True)
