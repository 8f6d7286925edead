"""Background tasks: each is referenced until it has ended, and its error is not lost."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger("fairlead.system")


class TaskSet:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], *, awaited: bool = False) -> asyncio.Task[T]:
        """Start a task. Its error is logged, unless it is `awaited`: then the error is for its callers, even if they
        have left meanwhile."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def ended(_: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None and not awaited:
                _log.error("background work failed", exc_info=error)

        task.add_done_callback(ended)
        return task

    async def shield(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a task that continues if the caller is cancelled."""
        return await asyncio.shield(self.spawn(work, awaited=True))

    async def wait(self) -> None:
        """Wait until no task is left."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel the tasks, and wait for their end."""
        self.cancel()
        await self.wait()
