"""A disk that tests can fill: a small private tmpfs for the gateway, or, where mounting is not allowed, a limit on its
files.

Rule: nothing leaks. The tmpfs lives in a mount namespace that ends with the process that holds it.
"""

import contextlib
import os
import resource
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

SIZE = 80 << 20
"""More than the log of a test and its WAL, which keeps up to 32 MiB."""
_HOLD = 'mount -t tmpfs -o size="$1" none "$2" && echo mounted && exec sleep 3600'
_UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class SmallDisk:
    """The disk under `folder`. Programs see it when they are started with the command prefix `prefix`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix: tuple[str, ...] = ()
        self._holder: subprocess.Popen[str] | None = None
        self._pid = 0

    def __enter__(self) -> "SmallDisk":
        self.folder.mkdir()
        if shutil.which("unshare") and shutil.which("nsenter"):
            argv = ["unshare", "--mount", "sh", "-c", _HOLD, "hold", str(SIZE), str(self.folder)]
            holder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert holder.stdout is not None
            with holder.stdout:
                mounted = holder.stdout.readline() == "mounted\n"
            if mounted:
                self._holder = holder
                self.prefix = ("nsenter", f"--target={holder.pid}", "--mount")
            else:
                holder.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()

    @property
    def seen(self) -> Path:
        """Where the folder is visible from outside the namespace."""
        return Path(f"/proc/{self._holder.pid}/root{self.folder}") if self._holder is not None else self.folder

    def fill(self, pid: int) -> None:
        """From now on the process finds no space for anything new."""
        self._pid = pid
        if self._holder is None:
            # No file may grow past the size of the current largest: the kernel refuses with EFBIG instead of ENOSPC.
            largest = max(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
            self.prefix = ("prlimit", "--fsize=4096:unlimited")
            return
        with (self.seen / "ballast").open("ab", buffering=0) as ballast:
            while room := _room(self.seen):
                ballast.write(b"x" * min(room, 1 << 20))

    def make_room(self) -> None:
        if self._holder is None:
            self.prefix = ()
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self._pid, resource.RLIMIT_FSIZE, _UNLIMITED)
        else:
            with contextlib.suppress(FileNotFoundError):
                (self.seen / "ballast").unlink()


def _room(folder: Path) -> int:
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize
