"""Where a keeper listens: a socket in the data folder. The number in its name is that of the protocol.

The path of a Unix socket has at most 103 bytes (107 on Linux), that of a data folder may have more. On Linux `/proc`
gives a short name to every folder that is open; elsewhere a link in the folder of temporary files does.
"""

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator

from fairlead.system.platform import FOLDER, PORTABLE

NAME = "keeper-1.sock"
LOCK = "keeper-1.lock"
_MAX_PATH = 103
_CREDENTIALS = struct.Struct("3i")
_LOCAL, _LOCAL_PEERCRED = 0, 1
_XUCRED = struct.Struct("2I")
"""The first two fields of what macOS returns: a version and the user id."""


@contextlib.contextmanager
def short_path(data: str) -> Iterator[str]:
    """Give a path of the socket in this folder that is valid inside the context. Raises OSError."""
    path = os.path.join(data, NAME)
    if len(os.fsencode(path)) <= _MAX_PATH:
        yield path
        return
    if PORTABLE:
        import tempfile  # rarely needed, and large

        with tempfile.TemporaryDirectory(prefix="fl-") as short:
            os.symlink(os.path.abspath(data), os.path.join(short, "d"))
            yield os.path.join(short, "d", NAME)
        return
    folder = os.open(data, FOLDER)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)


def is_own(peer: socket.socket) -> bool:
    """Return whether the process at the other end runs under our user id."""
    if sys.platform == "linux":
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        user = int(_CREDENTIALS.unpack(credentials)[1])
    else:
        user = int(_XUCRED.unpack(peer.getsockopt(_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))[1])
    return user == os.getuid()
