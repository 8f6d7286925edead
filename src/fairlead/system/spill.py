"""Files for data that is too large for memory: each is written in pieces and gets its name when it is complete."""

import os
import uuid
from pathlib import Path
from typing import BinaryIO


class SpillFiles:
    """Writes one file at a time in `folder`; its name begins with `prefix`. An unfinished file ends in `.part`."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._open: BinaryIO | None = None
        self._path = folder

    def write(self, piece: bytes) -> None:
        if self._open is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = self._folder / f"{self._prefix}-{uuid.uuid4()}"
            handle = os.open(self._path.with_suffix(".part"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._open = os.fdopen(handle, "wb")
        self._open.write(piece)

    def done(self) -> str:
        """Finish the file and return its name, relative to its folder."""
        assert self._open is not None, "nothing was written"
        self._open.close()
        self._open = None
        self._path.with_suffix(".part").replace(self._path)
        return self._path.name


def discard(folder: Path, prefix: str) -> None:
    """Remove the files whose names begin with a prefix."""
    for file in folder.glob(f"{prefix}-*"):
        file.unlink(missing_ok=True)
