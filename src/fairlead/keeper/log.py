"""The keeper's log file: private, and bounded to two files."""

import contextlib
import os
import time

NAME = "keeper.log"
MAX_BYTES = 256 << 10


class KeeperLog:
    """Writes lines to `keeper.log` in the data folder, given as a descriptor. Never raises: a full disk or a deleted
    folder does not stop the keeper."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._fd = -1
        self._open()

    def write(self, text: str) -> None:
        # A line break in a text must not look like another line of the log.
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} [{os.getpid()}] {text}".replace("\n", "\n    ")
        with contextlib.suppress(OSError):
            if self._fd >= 0 and os.fstat(self._fd).st_size > MAX_BYTES:
                os.close(self._fd)
                self._fd = -1
                os.rename(NAME, f"{NAME}.1", src_dir_fd=self._folder, dst_dir_fd=self._folder)
            if self._fd < 0:
                self._open()
            os.write(self._fd, f"{line}\n".encode("utf-8", "backslashreplace"))

    def _open(self) -> None:
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            self._fd = os.open(NAME, flags, 0o600, dir_fd=self._folder)
