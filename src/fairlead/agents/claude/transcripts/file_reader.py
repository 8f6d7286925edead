"""Reads one transcript file from an offset on: each line once, a partial last line when the rest of it has arrived.

The file is opened for each read and closed again, so that truncation or replacement is noticed.
"""

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.recovery import lines_backwards
from fairlead.agents.claude.transcripts.repair import GARBAGE, OVERSIZE, TORN, read_line
from fairlead.agents.links import framing
from fairlead.model.agents import Record

CHUNK = 256 << 10
FRAGMENT_BYTES = 1 << 20
KEPT_OF_FRAGMENT = 1 << 10
GLANCE_BYTES = 4 << 20
"""The most that `last_rows` reads, however large the rows at the end of a file are."""
_CHECK = 64
"""Bytes before an offset whose hash identifies the file."""


class FileOffset(msgspec.Struct, frozen=True):
    """How far a file was read. `check` is the hash of the bytes before `offset`. `linked`: the record that links the
    subagent's file to its call was emitted."""

    offset: int = 0
    check: str = ""
    linked: bool = False


class FileItem(msgspec.Struct, frozen=True):
    """The records and damage of one line; `at` is its time, `end` its end offset."""

    at: int
    end: int
    records: tuple[Record, ...]
    damage: tuple[str, ...]


class TranscriptFile:
    def __init__(
        self,
        path: Path,
        name: str,
        place: FileOffset,
        spill: framing.OversizeSpill | None = None,
        *,
        again: bool = False,
    ) -> None:
        self.path = path
        self.name = name
        self.linked = place.linked
        self.done = place.offset
        """The offset up to which all rows were delivered."""
        self.items: deque[FileItem] = deque()
        self.damage: dict[str, int] = {}
        self._spill = spill
        self._read = place.offset
        self._check = place.check
        self._checked_at = place.offset
        self._identity: tuple[int, int] | None = None
        self._last = 0
        self.again = again
        """The file was truncated or replaced: up to its current end, its rows may be in the log already."""
        self._splitter = framing.LineSplitter(spill=self._spill)

    def unread(self) -> int:
        return self.size() - self.done

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return self.done

    def read_more(self) -> None:
        """Read more, if all rows read so far were delivered. Raises OSError."""
        if self.items:
            return
        with opened(self.path) as descriptor:
            self._recognise(descriptor)
            while not self.items:
                data = os.pread(descriptor, CHUNK, self._read)
                if not data:
                    self.again = False
                    return
                self._take(data)

    def new_items(self) -> Iterator[FileItem]:
        """Take the lines up to the file's current end, as far as the caller wants. Raises OSError."""
        while True:
            self.read_more()
            if not self.items:
                return
            item = self.items.popleft()
            self.advance(item)
            yield item

    def _recognise(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        if identity == self._identity and status.st_size >= self._read:
            return
        if status.st_size < self._read or self._check != check_of(descriptor, self.done):
            # Truncated, or another file of the same name: start over.
            self.again = self.again or self.done > 0
            self.done = self._read = self._checked_at = 0
            self._check = ""
            self._splitter = framing.LineSplitter(spill=self._spill)
        elif self._identity is not None:
            # The same content in a new file: read the partial line again.
            self._read = self.done
            self._splitter = framing.LineSplitter(spill=self._spill)
        self._identity = identity

    def _take(self, data: bytes) -> None:
        start = 0
        while (newline := data.find(b"\n", start)) >= 0:
            lines = self._splitter.feed(data[start : newline + 1])
            end = self._read + newline + 1
            self.items.append(self._item(lines[0], end) if lines else FileItem(self._last, end, (), ()))
            start = newline + 1
        self._splitter.feed(data[start:])
        self._read += len(data)

    def _item(self, line: bytes | framing.Oversize, end: int) -> FileItem:
        if isinstance(line, framing.Oversize):
            record = Record(framing.oversize_placeholder(line), "transcript", self._time(0, end))
            return FileItem(self._last, end, (record,), (OVERSIZE,))
        read = read_line(line)
        records = tuple(
            Record(part.raw, "transcript", self._time(part.at, end), part.name)
            if isinstance(part, Record)
            else Record(self._aside(part.raw), "transcript", self._time(0, end))
            for part in read.parts
        )
        return FileItem(self._last, end, records, read.damage)

    def _time(self, at: int, end: int) -> int:
        """When a row was written. A row without a time gets that of the row before it; the first row, that of the next
        row with a time, or else the file's."""
        self._last = max(self._last, at) if at or self._last else self.next_time(end)
        return self._last

    def next_time(self, offset: int) -> int:
        """The time of the next row after `offset` that has one, or else the file's."""
        try:
            with opened(self.path) as descriptor:
                lines = os.pread(descriptor, GLANCE_BYTES, offset).split(b"\n")
                written = os.fstat(descriptor).st_mtime_ns // 1_000_000
        except OSError:
            return 0
        return next((row.at for line in lines for row in read_line(line).rows if row.at), written)

    def _aside(self, raw: bytes) -> bytes:
        """Keep a fragment as it is; spill a large one to a file, so that it is never parsed again."""
        if len(raw) <= FRAGMENT_BYTES or self._spill is None:
            return raw
        return framing.spill_record(raw, self._spill, KEPT_OF_FRAGMENT)

    def partial_line(self) -> FileItem | None:
        """The last line, which has no newline. A whole row is treated like any other; a torn one is kept, and read
        again from its beginning if the rest of it arrives."""
        lines = self._splitter.end()
        if not lines:
            return None
        item = self._item(lines[0], self._read)
        if item.damage and item.damage[-1] == GARBAGE:
            item = FileItem(item.at, self.done, item.records, (*item.damage[:-1], TORN))
            self._read = self.done
        return item

    def advance(self, item: FileItem) -> None:
        self.done = item.end
        for kind in item.damage:
            self.damage[kind] = self.damage.get(kind, 0) + 1

    def place(self) -> FileOffset:
        if self.done != self._checked_at:
            with contextlib.suppress(OSError), opened(self.path) as descriptor:
                self._check, self._checked_at = check_of(descriptor, self.done), self.done
        return FileOffset(self.done, self._check, self.linked)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor for reading; nothing waits for the writer of a named pipe. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def changed_at(path: Path) -> int:
    """When a file or folder was last changed, in nanoseconds; 0 if it does not exist or cannot be read."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def end_of(path: Path) -> FileOffset:
    return place_at(path, path.stat().st_size)


def place_at(path: Path, offset: int) -> FileOffset:
    with opened(path) as descriptor:
        return FileOffset(offset, check_of(descriptor, offset))


def check_of(descriptor: int, offset: int) -> str:
    if not offset:
        return ""
    data = os.pread(descriptor, min(_CHECK, offset), max(0, offset - _CHECK))
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def last_rows(path: Path, limit: int, end: int | None = None) -> list[Record]:
    """The last rows of a file, oldest first, by reading backwards from its end, or from the offset `end`."""
    rows: list[Record] = []
    with opened(path) as descriptor:
        size = os.fstat(descriptor).st_size if end is None else end
        for _, line in lines_backwards(descriptor, size, 64 << 10, first=max(0, size - GLANCE_BYTES)):
            rows.extend(reversed(read_line(line).rows))
            if len(rows) >= limit:
                break
    return rows[:limit][::-1]
