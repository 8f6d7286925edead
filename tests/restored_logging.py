"""Restores the logging of the process after tests of the code that configures it."""

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def restored_logging() -> Iterator[logging.Logger]:
    """Restore the logging: a handler left behind would write to a closed stream in the middle of another test."""
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    handlers, level, uvicorn_level = root.handlers[:], root.level, uvicorn.level
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        uvicorn.setLevel(uvicorn_level)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(False)
