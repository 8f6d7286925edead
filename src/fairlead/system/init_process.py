"""Process 1 of a container: reaps the orphans that the kernel gives to it, and passes signals on.

A gateway cannot do that itself: it would take the exit status of children that other code waits for.
"""

import contextlib
import os
import signal
from typing import Final

_FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def fork_if_first() -> None:
    """As process 1, continue in a child. Call it before threads and event loops exist."""
    if os.getpid() == 1:
        fork_under_init()


def fork_under_init() -> None:
    """Return in a child. The parent waits for it, reaps every other process, and ends with the child's exit code."""
    # A signal that arrives now is delivered when the handlers are there: process 1 would ignore it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if not child:
        # Ctrl-C reaches it once, through its parent.
        os.setpgrp()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        return
    for number in _FORWARDED:
        signal.signal(number, lambda got, frame: _pass_on(child, got))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)
