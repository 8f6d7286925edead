"""Runs the flows of one socket: the effects of each one after another, and the flows of a lane in order."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from fairlead.model.commands import CommandBase
from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import ServiceCall, Step
from fairlead.model.web.sockets import Effect, Flow, Pause, RunFlow, Subscribe, Unsubscribe

LongEffect = Subscribe | Unsubscribe | Step
"""An effect that takes time."""

_FINISHED = (CommandBase, ServiceCall, Subscribe, Unsubscribe)
"""The effects that are not cancelled when the client leaves, except pauses."""


class SocketClosed(Exception):
    """The socket was closed before the effect could take place."""


class FlowHost(Protocol):
    """The socket that the flows belong to (`sockets.SocketEndpoint`)."""

    def apply(self, effect: Effect) -> None: ...
    async def perform(self, effect: LongEffect) -> tuple[Any, Callable[[], None] | None]: ...
    def fail(self, error: Exception) -> None: ...
    def flush(self) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> object: ...


@dataclass(eq=False, repr=False, slots=True)
class FlowRunner:
    _host: FlowHost
    _lanes: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """The end of the last flow of each lane that has an unfinished one."""
    _querying: set[asyncio.Task[Any]] = field(default_factory=set)

    def run(self, run: RunFlow) -> None:
        before = self._lanes.get(run.lane)
        ended = asyncio.get_running_loop().create_future()
        if run.lane:
            self._lanes[run.lane] = ended
        if before is None or run.ahead:
            self._start(run, before, ended)
        else:
            before.add_done_callback(lambda _: self._start_waiting(run, ended))

    def cancel_queries(self) -> None:
        """End the flows that wait for a query or pause. The flows after them in their lanes do not start."""
        for task in tuple(self._querying):
            task.cancel()

    def _start_waiting(self, run: RunFlow, ended: asyncio.Future[None]) -> None:
        self._start(run, None, ended)
        self._host.flush()

    def _start(self, run: RunFlow, before: asyncio.Future[None] | None, ended: asyncio.Future[None]) -> None:
        effect = self._advance(run.flow, partial(next, run.flow))
        if effect is None:
            self._end(run.lane, before, ended)
        else:
            self._host.spawn(self._drive(run, effect, before, ended))

    def _advance(self, flow: Flow, resume: Callable[[], Effect | LongEffect]) -> LongEffect | None:
        """Apply effects up to the next one that takes time, which is returned; None when the flow has ended."""
        try:
            effect = resume()
            while isinstance(effect, Effect):
                try:
                    self._host.apply(effect)
                except FairleadError as error:
                    effect = flow.throw(error)
                else:
                    effect = next(flow)
            return effect
        except StopIteration:
            return None
        except Exception as error:
            self._host.fail(error)
            return None

    async def _drive(
        self, run: RunFlow, effect: LongEffect | None, before: asyncio.Future[None] | None, ended: asyncio.Future[None]
    ) -> None:
        flow, reacted = run.flow, None
        try:
            while effect is not None:
                resume: Callable[[], Any]
                try:
                    answer, reacted = await self._perform(effect)
                    resume = partial(flow.send, answer)
                except FairleadError as error:
                    resume = partial(flow.throw, error)
                if before is not None and not before.done():
                    await asyncio.wait({before})
                before = None
                effect = self._advance(flow, resume)
                self._host.flush()
                if reacted is not None:
                    reacted()
                    reacted = None
        except (asyncio.CancelledError, SocketClosed):
            flow.close()
            return
        self._end(run.lane, before, ended)

    async def _perform(self, effect: LongEffect) -> tuple[Any, Callable[[], None] | None]:
        if isinstance(effect, _FINISHED) and not isinstance(effect, Pause):
            return await self._host.perform(effect)
        task = asyncio.current_task()
        assert task is not None
        self._querying.add(task)
        try:
            return await self._host.perform(effect)
        finally:
            self._querying.discard(task)

    def _end(self, lane: str, before: asyncio.Future[None] | None, ended: asyncio.Future[None]) -> None:
        if before is not None and not before.done():
            before.add_done_callback(lambda _: self._end(lane, None, ended))
            return
        ended.set_result(None)
        if self._lanes.get(lane) is ended:
            del self._lanes[lane]
