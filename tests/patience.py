"""How tests wait: for the condition itself, with a time limit that only a hang reaches."""

import asyncio

PATIENCE = 60.0
"""Seconds. A loaded machine must not fail a test."""


async def settled() -> None:
    """Let all tasks of this loop run until each waits for something from outside: a socket, a thread, a timer.

    A task that polls on a clock whose sleeps take no time never waits: it has had 50 turns when this returns.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(50):
        await asyncio.sleep(0)
        if not ready:
            break
