"""Files that only their owner may read: keys, tokens and large records in the data folder."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes, token_hex

from fairlead.model.errors import Damaged


def write_private(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file atomically; other users can never read it, not even for a moment. `sync`: so that it survives a
    power cut."""
    draft = path.with_name(f"{path.name}.{token_hex(4)}.part")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        draft.replace(path)
        if sync:
            _sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_key(path: Path, size: int) -> bytes:
    """Read a key; empty if the file does not exist yet. Raises Damaged if its size is wrong."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return b""
    if len(key) != size:
        raise Damaged(f"{path} is not a key of {size} bytes: put back the original file.", file=str(path))
    return key


def make_key(path: Path, size: int) -> bytes:
    key = token_bytes(size)
    write_private(path, key)
    return key
