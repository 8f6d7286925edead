"""Records too large for a row are in separate files: `spill/<session>/<epoch>-<seq>-<digest>`.

The name contains the digest of the content, so that writing a record again never changes a file that an entry refers
to, and the epoch, so that cleaning up after an erased log never touches a file of the log that replaced it.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from fairlead.model.errors import Unavailable
from fairlead.model.store import Lease
from fairlead.stores.sqlite.errors import damaged
from fairlead.system.private_files import write_private

_DIGEST_LENGTH = 32


class Spill:
    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._sync = sync
        self.fetch: Callable[[str], bytes | None] | None = None
        """Gets a file that is not here from elsewhere; in a cell, the other nodes have it."""

    def write(self, lease: Lease, seq: int, data: bytes) -> str:
        """Store `data` as durably as a commit. Returns the file name for the entry."""
        name = f"{lease.session}/{lease.epoch}-{seq}-{_digest(data)}"
        file = self._folder / name
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(file, data, sync=self._sync)
        except OSError as error:
            raise Unavailable(f"{file} cannot be written ({error}): make room and repeat.", file=str(file)) from error
        return name

    def has(self, name: str) -> bool:
        return (self._folder / name).exists()

    def read(self, name: str) -> bytes:
        file = self._folder / name
        try:
            data = self._fetched(file, name) if self.fetch is not None and not self.has(name) else file.read_bytes()
        except OSError as error:
            raise damaged(file, f"an entry of the log is in this file, and reading it failed ({error})") from error
        if _digest(data) != name.rpartition("-")[2]:
            raise damaged(file, "its content has changed since it was written")
        return data

    def _fetched(self, file: Path, name: str) -> bytes:
        assert self.fetch is not None
        data = self.fetch(name)
        if data is None:
            raise FileNotFoundError(f"no node has {name}")
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, data, sync=self._sync)
        return data

    def sweep(self, session: str, epoch: int, is_named: Callable[[str], bool]) -> None:
        """Remove the session's files up to `epoch` that no entry refers to."""
        folder = self._folder / session
        if not folder.is_dir():
            return
        for file in folder.iterdir():
            written_in = file.name.partition("-")[0]
            if written_in.isdecimal() and int(written_in) <= epoch and not is_named(f"{session}/{file.name}"):
                file.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_LENGTH]
