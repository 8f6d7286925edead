"""The process's logging as it was before, for tests of what configures it."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def restored_logging() -> Iterator[logging.Logger]:
    """A handler that is left behind would write to a stream that is closed, in the middle of another test."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    handlers, level, uvicorn_level = root.handlers[:], root.level, uvicorn.level
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        uvicorn.setLevel(uvicorn_level)
