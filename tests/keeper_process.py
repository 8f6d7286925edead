"""The keeper of a data folder, for tests that kill it or look at it."""

import contextlib
import os
from pathlib import Path


def keeper_of(data: Path) -> int | None:
    """The pid of the keeper. Its environment is empty; its last argument is the folder."""
    name = str(data).encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                if b"-I" in words and name in words[-3:]:
                    return int(entry)
    return None
