"""The lock of a data folder: one gateway per folder. The kernel releases it when the process dies in any way."""

import fcntl
import os
from pathlib import Path

import msgspec

from fairlead.model.errors import FolderInUse

LOCK = "fairlead.lock"


class LockHolder(msgspec.Struct, frozen=True):
    """The content of the lock file."""

    pid: int
    since: int


class FolderLock:
    """Held from construction until `close`."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        file = folder / LOCK
        self._fd = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            holder = _holder(file)
            raise FolderInUse(str(folder), holder.pid if holder else None, holder.since if holder else None) from None
        os.truncate(self._fd, 0)
        os.write(self._fd, msgspec.json.encode(LockHolder(os.getpid(), now_ms)))

    def close(self) -> None:
        # The file stays: removing it would let two processes lock two files with the same name.
        os.close(self._fd)


def _holder(file: Path) -> LockHolder | None:
    """Read the lock file; None if its holder has locked it and not yet written to it."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=LockHolder)
    except msgspec.DecodeError:
        return None
