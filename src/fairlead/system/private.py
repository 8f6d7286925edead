"""Files that only their owner may read: keys and tokens in the data folder."""

import os
from pathlib import Path


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
