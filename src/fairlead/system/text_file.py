"""Reading a small text file, completely or not at all."""

import os
import stat


def read_text(path: str, most: int) -> str | None:
    """Return the text; empty if the file does not exist; None if it is not a regular file of UTF-8 text, is larger than
    `most` bytes, or cannot be read. A link is not followed: the caller has resolved the path."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most).decode()
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)
