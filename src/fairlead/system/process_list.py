"""The processes of this machine as the system lists them: from /proc on Linux, else from `ps`.

The keeper's process imports this module: only the standard library, and of that not more than needed.
"""

import contextlib
import functools
import os
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.system.platform import PORTABLE

_PROC = "/proc"
HAS_PROC = not PORTABLE and os.path.exists(f"{_PROC}/self/stat")
_COLUMNS = "pid=,ppid=,pgid=,stat=,lstart=,comm="
_FIELDS_BEFORE_COMMAND = 9
"""Four numbers and words, and the five words of `lstart`, such as Wed Nov 18 11:25:00 2026."""


class ListedProcess(NamedTuple):
    pid: int
    command: str
    state: str
    parent: int
    group: int
    session: int
    started: str
    """The start time in the system's own format; empty for a zombie."""

    @property
    def is_zombie(self) -> bool:
        return self.state[0] in "ZX"


def list_processes() -> Iterator[ListedProcess]:
    if not HAS_PROC:
        yield from _from_ps("-A")
        return
    for entry in os.listdir(_PROC):
        if entry.isdigit() and (found := read_process(int(entry))) is not None:
            yield found


def read_process(pid: int) -> ListedProcess | None:
    """Return one process, or None if it does not exist."""
    if not HAS_PROC:
        return next(_from_ps("-p", str(pid)), None)
    try:
        text = read_proc_file(f"{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name is in brackets and may contain any character, also brackets: the fields start after the last one.
    state, parent, group, session, *rest = text.rpartition(")")[2].split()
    command = text.partition("(")[2].rpartition(")")[0]
    # Ticks are counted from the boot: without the boot id, a process of an earlier boot could have the same mark.
    started = "" if state in "ZX" else f"{_boot_id()}/{rest[15]}"
    return ListedProcess(pid, command, state, int(parent), int(group), int(session), started)


def read_proc_file(name: str) -> str:
    with open(f"{_PROC}/{name}", encoding="utf-8", errors="replace") as file:
        return file.read()


@functools.cache
def _boot_id() -> str:
    try:
        return read_proc_file("sys/kernel/random/boot_id").strip()
    except OSError:
        return ""


def _from_ps(*selection: str) -> Iterator[ListedProcess]:
    env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", _COLUMNS, *selection]
    printed = subprocess.run(command, env=env, capture_output=True, check=False).stdout.decode(errors="replace")
    for line in printed.splitlines():
        fields = line.split(maxsplit=_FIELDS_BEFORE_COMMAND)
        if len(fields) < _FIELDS_BEFORE_COMMAND:
            continue
        pid, parent, group = map(int, fields[:3])
        state = fields[3]
        session = 0
        with contextlib.suppress(OSError):
            session = os.getsid(pid)
        started = "" if state[0] in "ZX" else " ".join(fields[4:_FIELDS_BEFORE_COMMAND])
        command_name = os.path.basename("".join(fields[_FIELDS_BEFORE_COMMAND:]))
        yield ListedProcess(pid, command_name, state, parent, group, session, started)
