"""Following a file that another process appends to: by offset, woken by the kernel, without reading it again.

On Linux inotify reports changes; on other systems, and when the limit of watches is reached, the file is checked twice
a second. The file and the folders above it need not exist yet.
"""

import contextlib
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from fairlead.system.clock import Clock
from fairlead.system.platform import PORTABLE

if TYPE_CHECKING or sys.platform == "linux":
    from asyncinotify import Inotify, Mask

CHUNK = 256 * 1024
_POLL_SECONDS = 0.5


class FileTail:
    """The bytes of a file from `offset` on, and all bytes appended later. Use as a context manager.

    while not done:
        data = tail.read()
        if not data:
            await tail.changed()

    `generation` grows when the file was replaced or truncated: reading then restarts at its beginning."""

    def __init__(self, path: Path, *, clock: Clock, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.generation = 0
        self._clock = clock
        self._fd = -1
        self._watcher: _Poll | _Watch = _Poll(clock)

    def __enter__(self) -> "FileTail":
        # Before the first read, so that no change after that read is missed.
        self._watcher = _watcher(self.path, self._clock)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watcher.close()
        self._close_file()

    def read(self, limit: int = CHUNK) -> bytes:
        """Return at most `limit` bytes after the last read; empty if there are none."""
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                return b""
        data = os.pread(self._fd, limit, self.offset)
        if not data and self._is_over():
            self._close_file()
            self.generation += 1
            self.offset = 0
            return self.read(limit)
        self.offset += len(data)
        return data

    async def changed(self) -> None:
        """Return when the file may have changed since the last `read`; sometimes it has not."""
        await self._watcher.changed()

    def _is_over(self) -> bool:
        """Return whether the open file is no longer the one to follow: it was truncated, replaced or removed.

        A removed file must be closed: while it is open, the kernel does not report that its folder was removed too."""
        mine = os.fstat(self._fd)
        if mine.st_size < self.offset:
            return True
        try:
            there = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return True
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _Poll:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def changed(self) -> None:
        await self._clock.sleep(_POLL_SECONDS)

    def close(self) -> None:
        pass


class _Watch:
    """inotify on the file, and on the folder where it (or the next folder on the way to it) would appear."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inotify = Inotify()
        try:
            self._arm()
        except BaseException:
            self._inotify.close()
            raise

    async def changed(self) -> None:
        event = await self._inotify.get()
        if not event.mask & Mask.MODIFY:
            self._arm()

    def close(self) -> None:
        self._inotify.close()

    def _arm(self) -> None:
        while True:
            below = self._path
            while not below.parent.is_dir():
                below = below.parent
            appears = Mask.CREATE | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF
            try:
                self._inotify.add_watch(below.parent, appears | Mask.ONLYDIR)
                if below == self._path and self._path.exists():
                    self._inotify.add_watch(self._path, Mask.MODIFY | Mask.DELETE_SELF)
                    return
            except (FileNotFoundError, NotADirectoryError):
                continue  # it was removed meanwhile: look again
            if not below.exists():  # else it appeared before the watch was set
                return


def _watcher(path: Path, clock: Clock) -> _Poll | _Watch:
    if sys.platform == "linux" and not PORTABLE:
        # Unless the user's limit of watches or of watching processes is reached.
        with contextlib.suppress(OSError):
            return _Watch(path)
    return _Poll(clock)
