"""The frames between a gateway and its keeper: u32 length of the payload, u8 kind, u32 number of a process, payload.

Pure. Numbers are little-endian. A frame that is too large is an error: the connection ends, the keeper goes on.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("<IBI")

MAX_PAYLOAD: Final = 128 << 20
"""Bytes. The largest payload is one write to an agent: a prompt with its images."""


class MalformedFrame(Exception):
    """The peer does not speak this protocol; the connection must be closed."""


class Frame(NamedTuple):
    kind: int
    process: int
    payload: bytes


def encode(kind: int, process: int, *payload: bytes) -> bytes:
    size = sum(map(len, payload))
    if size > MAX_PAYLOAD:
        raise ValueError(f"{size} bytes are too many for one message to the keeper (at most {MAX_PAYLOAD})")
    return b"".join((HEADER.pack(size, kind, process), *payload))


class FrameDecoder:
    """Splits a stream of bytes into frames. After a MalformedFrame it must not be used again."""

    def __init__(self, limit: int = MAX_PAYLOAD) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now. Raises MalformedFrame."""
        self._buffer += data
        while len(self._buffer) >= HEADER.size:
            size, kind, process = HEADER.unpack_from(self._buffer)
            if size > self._limit:
                raise MalformedFrame(f"a frame of {size} bytes")
            end = HEADER.size + size
            if len(self._buffer) < end:
                return
            payload = bytes(memoryview(self._buffer)[HEADER.size : end])
            del self._buffer[:end]
            yield Frame(kind, process, payload)
