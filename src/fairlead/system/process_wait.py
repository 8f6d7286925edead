"""Waiting for the end of a process that we did not start."""

import asyncio
import os

from fairlead.system.clock import Clock
from fairlead.system.proctable import Process, is_alive, open_pidfd

_POLL_SECONDS = 0.5
"""Interval of the checks for a process whose end the system cannot report."""


async def wait_gone(process: Process, clock: Clock) -> None:
    """Return when this process, ours or not, has ended."""
    try:
        pidfd = open_pidfd(process.pid)
    except ProcessLookupError:
        return
    except OSError:
        pidfd = None
    if pidfd is None:
        while is_alive(*process):
            await clock.sleep(_POLL_SECONDS)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        if not is_alive(*process):
            return
        loop.add_reader(pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
    finally:
        os.close(pidfd)
