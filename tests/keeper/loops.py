"""For tests that run the keeper's event loop themselves."""

import sys


def reraise() -> None:
    """Let an error of a callback end the loop, and the test."""
    error = sys.exception()
    assert error is not None
    raise error
