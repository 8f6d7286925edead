"""How tests wait: for the thing itself, with a patience that only a hang uses up."""

import asyncio

PATIENCE = 300.0
"""Seconds. A loaded machine must not fail a test."""


async def settled() -> None:
    """Let all tasks of this loop run until each waits for something from outside: a socket, a thread, a timer."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    # What is ready now comes after this task; it is alone when nothing else is left in the queue.
    await asyncio.sleep(0)
    while ready:
        await asyncio.sleep(0)
