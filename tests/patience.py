"""How tests wait: for the thing itself, with a patience that only a hang uses up."""

import asyncio

PATIENCE = 300.0
"""Seconds. A loaded machine must not fail a test."""


async def settled() -> None:
    """Let all tasks of this loop run until each waits for something from outside: a socket, a thread, a timer.

    One that looks again and again, on a clock whose sleeps take no time, never does: it has had its turns then.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(50):
        await asyncio.sleep(0)
        if not ready:
            break
