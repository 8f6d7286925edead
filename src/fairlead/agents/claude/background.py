"""Tasks that a driver starts and does not await: they run to their end, because a half-written log is worse."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from fairlead.model.errors import AgentFailed

logger = logging.getLogger("fairlead.agents.claude")


class BackgroundTasks:
    """The tasks that are running. An error of one is logged with the text `failure`."""

    def __init__(self, failure: str) -> None:
        self.running: set[asyncio.Task[Any]] = set()
        self._failure = failure

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self._done)
        return task

    async def wait_finished(self) -> None:
        """Return when all tasks have ended, including those that start meanwhile."""
        while self.running:
            await asyncio.wait(self.running)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, AgentFailed):  # the agent has exited or does not read: its driver reports the exit
            logger.error(self._failure, exc_info=error)
