"""What the keeper holds of one process: its output until a gateway has stored it, the input that its pipe has not taken
yet, and the end of its stderr. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from fairlead.keeper.frames import MalformedFrame

UNATTENDED: Final = 8 << 20
"""Bytes of output that wait for a reader; beyond it the process waits in its own `write`."""
ATTENDED: Final = 72 << 20
"""Bytes of output that wait for an acknowledgement while a reader takes them: more than the largest record."""
WINDOW: Final = 256 << 10
"""Bytes that are sent to a reader before it has taken them."""
CHUNK: Final = 64 << 10
"""Bytes of output in one message, and of input in one write."""
STDERR_TAIL: Final = 64 << 10
KEYS: Final = 1000
MAX_WAITING: Final = 256 << 20
"""Bytes of input that may wait for one process. A gateway waits long before that (system/pipes.py, WRITE_AHEAD)."""


class OutputBuffer:
    """The output from `base`, the first byte that is not acknowledged, to `end`. Offsets count from the start of the
    process. `ahead`: bytes that are read before a reader has taken them."""

    def __init__(self, ahead: int = UNATTENDED) -> None:
        self.base = 0
        self._ahead = ahead
        self._data = bytearray()
        self._sent: int | None = None
        """The next byte to send to the reader; None without a reader."""
        self._taken = 0
        """The reader has processed everything before this offset."""

    @property
    def end(self) -> int:
        return self.base + len(self._data)

    @property
    def has_room(self) -> bool:
        """Whether more output should be read. A reader that stands still does not get more room than no reader."""
        if self._sent is None:
            return len(self._data) < UNATTENDED
        return len(self._data) < ATTENDED and self.end - self._taken < self._ahead

    def append(self, data: bytes) -> None:
        self._data += data

    def pass_on(self, data: bytes) -> int | None:
        """Append output that the reader may get at once, and count it as sent: return its offset. Return None and do
        nothing if the reader has not got everything before it, or if there is no room for it or for more."""
        offset = self.base + len(self._data)
        size = len(data)
        if self._sent != offset or size > CHUNK:
            return None
        unread = offset + size - self._taken
        if unread > WINDOW or unread >= self._ahead or len(self._data) + size >= ATTENDED:
            return None
        self._data += data
        self._sent = offset + size
        return offset

    def attach(self, offset: int) -> bool:
        """Send from `offset` on. Return False if that is not in the buffer."""
        if not self.base <= offset <= self.end:
            return False
        self._sent = self._taken = offset
        return True

    def detach(self) -> None:
        self._sent = None

    def take(self, offset: int) -> None:
        if self._sent is not None:
            self._taken = max(self._taken, min(offset, self._sent))

    def ack(self, offset: int) -> None:
        if offset > self.end:
            raise MalformedFrame(f"an acknowledgement of {offset}, but the output ends at {self.end}")
        if offset <= self.base:
            return
        del self._data[: offset - self.base]
        self.base = offset
        if self._sent is not None:
            self._sent = max(self._sent, offset)
            self._taken = max(self._taken, offset)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield what the reader may get now, each piece with its offset, and count it as sent."""
        while self._sent is not None:
            offset = self._sent
            size = min(CHUNK, self._taken + WINDOW - offset, self.end - offset)
            if size <= 0:
                return
            start = offset - self.base
            data = bytes(memoryview(self._data)[start : start + size])
            self._sent += size
            yield offset, data


class _Input:
    __slots__ = ("data", "done", "key", "numbers")

    def __init__(self, number: int | None, key: str, data: bytes) -> None:
        self.numbers = [] if number is None else [number]
        self.key = key
        self.data = data
        self.done = 0


class InputQueue:
    """The input that was accepted. Input with a key that was accepted before is not accepted again."""

    def __init__(self) -> None:
        self._waiting: deque[_Input] = deque()
        self._size = 0
        self._keys: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def keys(self) -> list[str]:
        return list(self._keys)

    def has_key(self, key: str) -> bool:
        return bool(key) and key in self._keys

    def add(self, number: int | None, key: str, data: bytes) -> bool:
        """Accept the data. Return True if it was written before, so that it can be confirmed at once."""
        waiting = next((each for each in self._waiting if key and each.key == key), None)
        if waiting is not None:
            waiting.numbers += [] if number is None else [number]
            return False
        if self.has_key(key):
            return True
        if self._size + len(data) > MAX_WAITING:
            raise MalformedFrame("too much input for a process that does not read it")
        if key:
            self._keys[key] = None
            if len(self._keys) > KEYS:
                del self._keys[next(iter(self._keys))]
        self._waiting.append(_Input(number, key, data))
        self._size += len(data)
        return False

    def next_chunk(self) -> bytes:
        """Return what is to be written next; the queue must not be empty."""
        first = self._waiting[0]
        return first.data[first.done : first.done + CHUNK]

    def advance(self, count: int) -> list[int]:
        """Count so many bytes as written. Return the numbers to confirm."""
        first = self._waiting[0]
        first.done += count
        if first.done < len(first.data):
            return []
        self._waiting.popleft()
        self._size -= len(first.data)
        return first.numbers

    def drop(self) -> list[int]:
        """Drop all input, and the keys of what was not written. Return the numbers that were not confirmed."""
        numbers = [number for each in self._waiting for number in each.numbers]
        for each in self._waiting:
            self._keys.pop(each.key, None)
        self._waiting.clear()
        self._size = 0
        return numbers

    def forget_numbers(self) -> None:
        """The gateway that waits for the confirmations has left."""
        for each in self._waiting:
            each.numbers.clear()


class StderrTail:
    """The last bytes of stderr, and what the gateway has not been sent of them."""

    def __init__(self) -> None:
        self._tail = b""
        self._unsent = 0

    def append(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-STDERR_TAIL:]
        self._unsent = min(self._unsent + len(data), len(self._tail))

    def rewind(self) -> None:
        """A new gateway needs all of it."""
        self._unsent = len(self._tail)

    def unsent(self) -> bytes:
        """Return what was not sent yet, and count it as sent."""
        data = self._tail[len(self._tail) - self._unsent :]
        self._unsent = 0
        return data
