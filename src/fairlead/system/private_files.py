"""Files that only their owner may read: keys and tokens in the data folder."""

import os
from pathlib import Path
from secrets import token_bytes

from fairlead.model.errors import Damaged


def write_private(path: Path, data: bytes) -> None:
    """Write a file atomically; other users can never read it, not even for a moment."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


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
