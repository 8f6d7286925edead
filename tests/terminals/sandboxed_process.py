"""Processes in a sandbox, for tests that know them by their pid inside."""

import contextlib
import os
import re
from pathlib import Path

from fairlead.system.proctable import Process, descendants

PRINT_PID = "echo pid=$$.$(readlink /proc/self/ns/pid)."
"""Makes a shell print its pid inside, and its PID namespace: other sandboxes count from one as well."""


def outside(printed: str) -> Process:
    """The descendant of this process that printed this output of PRINT_PID."""
    number, namespace = re.findall(r"pid=(\d+)\.(pid:\[\d+\])\.", printed)[-1]
    (found,) = [process for process in descendants(os.getpid()) if _identity(process.pid) == (number, namespace)]
    return found


def _identity(pid: int) -> tuple[str, str] | None:
    with contextlib.suppress(OSError):  # the process may have ended in the meantime
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        number = next(line.split()[-1] for line in lines if line.startswith("NSpid:"))
        return number, os.readlink(f"/proc/{pid}/ns/pid")
    return None
