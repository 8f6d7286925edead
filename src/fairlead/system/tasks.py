"""Background tasks: each is referenced until it has ended, and its error is not lost."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")

_log = logging.getLogger("fairlead.system")


class TaskSet:
    """`failure` is the text that is logged with a task's error; errors of the types `ignored` are not logged."""

    def __init__(self, failure: str = "background work failed", ignored: tuple[type[Exception], ...] = ()) -> None:
        self._failure = failure
        self._ignored = ignored
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, T], *, awaited: bool = False) -> asyncio.Task[T]:
        """Start a task. Its error is logged, unless it is `awaited`: then the error is for its callers, even if they
        have left meanwhile."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def ended(_: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and not awaited and not isinstance(error, self._ignored):
                _log.error(self._failure, exc_info=error)

        task.add_done_callback(ended)
        return task

    async def shield(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a task that continues if the caller is cancelled."""
        return await asyncio.shield(self.spawn(work, awaited=True))

    async def wait(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel the tasks, and wait for their end."""
        self.cancel()
        await self.wait()


@overload
async def all_of(first: Awaitable[T], second: Awaitable[U], /) -> tuple[T, U]: ...
@overload
async def all_of(first: Awaitable[T], second: Awaitable[U], third: Awaitable[V], /) -> tuple[T, U, V]: ...
async def all_of(*work: Awaitable[Any]) -> tuple[Any, ...]:
    """Return the results of work that runs together; raise the first error when all of it has ended: nothing is left
    running behind the caller."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return tuple(results)


async def run_until(work: Awaitable[T], *ends: Awaitable[Any]) -> "asyncio.Future[T]":
    """Wait until `work` or one of `ends` is done, and cancel the others. Returns `work`, done or cancelled."""
    first = asyncio.ensure_future(work)
    everything: list[asyncio.Future[Any]] = [first, *(asyncio.ensure_future(end) for end in ends)]
    try:
        await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in everything:
            future.cancel()
        await asyncio.wait(everything)
    return first
