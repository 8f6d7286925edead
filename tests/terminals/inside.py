"""Processes in a sandbox, for tests that know them by the numbers that they have in there."""

import os
from pathlib import Path

from fairlead.system.proctable import Process, descendants


def outside(number: int) -> Process:
    """The one process below this one that has this number for itself."""
    (found,) = [process for process in descendants(os.getpid()) if _inner(process.pid) == number]
    return found


def _inner(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))
