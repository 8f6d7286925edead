"""The lines that the gateway has not stored yet, numbered. Pure.

They are bounded: a gateway that is away for long misses the oldest ones, and reads them from the CLI's transcript.
"""

from collections import deque
from typing import Final

import msgspec

from fairlead.agents.claude.shim.frames import FromShim, LinesLost, encode_frame

KEPT_BYTES: Final = 16 << 20


class ShimOutbox:
    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._frames: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._last = 0
        self._sent = 0

    @property
    def empty(self) -> bool:
        return not self._frames

    def add(self, frame: FromShim) -> None:
        """Append a frame; it gets its number here."""
        self._last += 1
        data = encode_frame(msgspec.structs.replace(frame, n=self._last))
        if len(data) > self._limit:
            # More than the gateway accepts in one message: it reads the line from the transcript.
            data = encode_frame(LinesLost(n=self._last))
        self._frames.append((self._last, data))
        self._size += len(data)
        while self._size > self._limit and len(self._frames) > 2:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Put a note in the place of the two oldest frames."""
        for _ in range(2):
            number, oldest = self._frames.popleft()
            self._size -= len(oldest)
        note = encode_frame(LinesLost(n=number))
        self._frames.appendleft((number, note))
        self._size += len(note)

    def confirm(self, number: int) -> None:
        """Forget every frame up to this number: the gateway has stored it."""
        while self._frames and self._frames[0][0] <= number:
            self._size -= len(self._frames.popleft()[1])

    def rewind(self) -> None:
        """Send everything that is not stored again: the connection is a new one."""
        self._sent = 0

    def take(self, limit: int) -> bytes:
        """The frames to send next, up to about `limit` bytes; empty if there is nothing new."""
        taken: list[bytes] = []
        size = 0
        for number, data in self._frames:
            if number <= self._sent:
                continue
            if taken and size + len(data) > limit:
                break
            taken.append(data)
            size += len(data)
            self._sent = number
        return b"".join(taken)
