"""The parts of a driver that are the same for every agent and link: records in order, the start, the exit, its
tasks."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from fairlead.agents.links import Link
from fairlead.agents.links.kept import KeptLink
from fairlead.agents.links.kept_output import KeptOutput
from fairlead.model.agents import AgentSink, Decision, Exit, Record
from fairlead.model.errors import AgentFailed, AgentNotRunning, AgentRefused, HistoryMissing
from fairlead.model.ids import RequestId
from fairlead.system.clock import Clock
from fairlead.system.tasks import TaskSet
from fairlead.terminals.api import Terminal

Deliver = Callable[[list[Record]], Awaitable[None]]
"""Delivers records to the core, in order with all others."""

logger = logging.getLogger("fairlead.agents")


class _OpenPermissions(Protocol):
    async def answer(self, request: RequestId, decision: Decision) -> None: ...


class AgentDriver(ABC):
    """A running agent. Its subclasses implement `model.agents.Agent`.

    It guarantees this order: records reach the sink one batch after the other; `exited` is called once, after the last
    record, for every process that was recorded."""

    _permissions: _OpenPermissions
    _output: KeptOutput | None = None

    def __init__(self, process: Link | Terminal, sink: AgentSink, clock: Clock) -> None:
        self._process = process
        self._sink = sink
        self._clock = clock
        self._kept = process if isinstance(process, KeptLink) else None
        self._in_order = asyncio.Lock()
        self._life: asyncio.Task[Exit] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.running

    @property
    def lent(self) -> bool:
        return False

    @property
    def kept(self) -> bool:
        return self._kept is not None

    async def release(self) -> None:
        if self._kept is None:
            raise AgentRefused("This agent is a process of the gateway: it can be stopped, but not released.")
        self._kept.release()

    async def stop(self, reason: str) -> Exit:
        """Run the stop sequence. The sink's `exited` may be called after this returns."""
        logger.info("stopping the agent", extra={"pid": self.pid, "reason": reason})
        return await self._end()

    async def answer(self, request: RequestId, decision: Decision) -> None:
        if not self.running:
            raise AgentNotRunning("The agent has exited and cannot receive the answer.", request=request)
        await self._permissions.answer(request, decision)

    async def _deliver(self, batch: Sequence[Record], end: int | None = None) -> None:
        """Log the records. `end`: where the last of their lines ends in the agent's output."""
        async with self._in_order:
            if self._output is None or end is None:
                await self._sink.records(batch)
            else:
                await self._sink.records(batch, self._output.position(end))
                self._output.stored(end)

    async def _store_recalled(self) -> None:
        """Store the lines that the driver needs after a restart now, instead of with the next records."""
        async with self._in_order:
            if self._output is not None:
                await self._sink.records((), self._output.position(self._output.offset))

    async def _begin(self, ready: Awaitable[None]) -> None:
        """Start to deliver records, and await `ready`. Raises AgentNotRunning if the agent does not get that far."""
        self._life = asyncio.create_task(self._live())
        try:
            await ready
        except HistoryMissing:
            await self._end()
            await self._life
            raise
        except AgentFailed as error:
            await self._end()
            ended = await self._life
            raise self._failure(error, ended) from error
        except BaseException:
            # Cancelled: the gateway stops. An agent of an earlier gateway goes on, a new one has nothing to do yet.
            await (self.release() if self._output is not None and self._output.adopted else self._end())
            raise

    def _failure(self, error: AgentFailed, ended: Exit) -> AgentFailed:
        """The error to raise for an agent that did not get ready."""
        return AgentNotRunning(self._explain_failure(error, ended), code=ended.code, signal=ended.signal)

    def _explain_failure(self, error: AgentFailed, ended: Exit) -> str:
        return error.message

    async def _live(self) -> Exit:
        await self._read_records()
        ended = await self._end()
        try:
            ended = await self._finish(ended)
            if self._kept is not None and self._kept.lost:
                await self._sink.keeper_lost()
            else:
                await self._sink.exited(ended)
            if self._kept is not None:
                self._kept.forget()
        except Exception:
            logger.exception("the agent's exit could not be stored", extra={"pid": self.pid})
        return ended

    @abstractmethod
    async def _read_records(self) -> None:
        """Deliver records until the agent has exited. Does not raise: an agent whose records cannot be stored is
        stopped."""

    @abstractmethod
    async def _end(self) -> Exit:
        """Stop the process, if it still runs, and return its exit."""

    @abstractmethod
    async def _finish(self, ended: Exit) -> Exit:
        """Deliver the last records and drop open requests after the exit. Return the exit to report."""


def explain_start(error: AgentFailed, ended: Exit, words: str = "") -> str:
    """Why an agent did not get ready: how it ended and its own words, from `words` or its error output."""
    words = words or ended.stderr.strip()[-2000:]
    if isinstance(error, AgentNotRunning):
        how = f"signal {ended.signal}" if ended.signal is not None else f"code {ended.code}"
        return f"The agent ended before it was ready ({how})" + (f": {words}" if words else ".")
    return error.message + (f" Its output: {words}" if words else "")


def background_tasks(failure: str) -> TaskSet:
    """Tasks that a driver starts and does not await: they run to their end, because a half-written log is worse. An
    AgentFailed is not logged: the agent has exited or does not read, and its driver reports the exit."""
    return TaskSet(failure, ignored=(AgentFailed,))
