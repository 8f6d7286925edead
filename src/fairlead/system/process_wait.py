"""Waiting for the end of a process that we did not start."""

import asyncio
import os

from fairlead.system.clock import Clock
from fairlead.system.proctable import Process, is_alive

_POLL_SECONDS = 0.5
"""Interval of the checks for a process whose end the system cannot report."""


async def wait_gone(process: Process, clock: Clock) -> None:
    """Return when this process, ours or not, has ended."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
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
