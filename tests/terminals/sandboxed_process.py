"""Processes in a sandbox, for tests that know them by the numbers that they have inside."""

import contextlib
import os
import re
from pathlib import Path

from fairlead.system.proctable import Process, descendants

PRINT_PID = "echo pid=$$.$(readlink /proc/self/ns/pid)."
"""A shell prints its number inside, and its PID namespace: other sandboxes count from one as well."""


def outside(printed: str) -> Process:
    """The process below this one that printed PRINT_PID last."""
    number, namespace = re.findall(r"pid=(\d+)\.(pid:\[\d+\])\.", printed)[-1]
    (found,) = [process for process in descendants(os.getpid()) if _identity(process.pid) == (number, namespace)]
    return found


def _identity(pid: int) -> tuple[str, str] | None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        number = next(line.split()[-1] for line in lines if line.startswith("NSpid:"))
        return number, os.readlink(f"/proc/{pid}/ns/pid")
    return None
