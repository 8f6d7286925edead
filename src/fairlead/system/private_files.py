"""Files that only their owner may read: keys and tokens in the data folder."""

import os
from pathlib import Path
from secrets import token_bytes

from fairlead.model.errors import Damaged


def write_private(path: Path, data: bytes) -> None:
    """Whole or not at all, and never for a moment readable by others."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_key(path: Path, size: int) -> bytes:
    """Empty, if there is none yet. Damaged, if it is no key of this size."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return b""
    if len(key) != size:
        raise Damaged(f"{path} is no key: put back the one that was there.", file=str(path))
    return key


def make_key(path: Path, size: int) -> bytes:
    key = token_bytes(size)
    write_private(path, key)
    return key
