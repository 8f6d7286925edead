"""Reading regular files: a link is not followed, because the caller has resolved the path."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading. Raises OSError for anything but a regular file, also for a symbolic link."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"not a regular file: {path}")
    return open(handle, "rb")


def read_text(path: str, most: int) -> str | None:
    """Return the text; empty if the file does not exist; None if it is not a regular file of UTF-8 text, is larger than
    `most` bytes, or cannot be read."""
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
        return data.decode() if len(data) <= most else None
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None
