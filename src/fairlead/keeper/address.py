"""Where a keeper listens: a socket in the data folder. The number in its name is that of the protocol.

The path of a Unix socket has at most 107 bytes, that of a data folder may have more. `/proc` gives a short name to
every folder that is open.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

NAME = "keeper-1.sock"
LOCK = "keeper-1.lock"
_MAX_PATH = 107
_CREDENTIALS = struct.Struct("3i")


@contextlib.contextmanager
def short_path(data: str) -> Iterator[str]:
    """Give a path of the socket in this folder that is valid inside the context. Raises OSError."""
    path = os.path.join(data, NAME)
    if len(os.fsencode(path)) <= _MAX_PATH:
        yield path
        return
    folder = os.open(data, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)


def is_own(peer: socket.socket) -> bool:
    """Return whether the process at the other end runs under our user id."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1]) == os.getuid()
