"""Reads one transcript file from an offset on: each line once, a partial last line when the rest of it has arrived.

The file is opened for each read and closed again, so that truncation or replacement is noticed.
"""

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.repair import GARBAGE, OVERSIZE, TORN, RepairedRow, read_line
from fairlead.agents.claude.wire.framing import LineSplitter, Oversize, OversizeSpill, oversize_placeholder
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
    """One file that is being read."""

    def __init__(
        self, path: Path, name: str, place: FileOffset, spill: OversizeSpill | None = None, *, again: bool = False
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
        self._begin()

    def _begin(self) -> None:
        self._splitter = LineSplitter(spill=self._spill)

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
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._recognise(descriptor)
            while not self.items:
                data = os.pread(descriptor, CHUNK, self._read)
                if not data:
                    self.again = False
                    return
                self._take(data)
        finally:
            os.close(descriptor)

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
            self._begin()
        elif self._identity is not None:
            # The same content in a new file: read the partial line again.
            self._read = self.done
            self._begin()
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

    def _item(self, line: bytes | Oversize, end: int) -> FileItem:
        if isinstance(line, Oversize):
            raw = oversize_placeholder(line.place, line.size, line.head, line.cut)
            return FileItem(self._time(0, end), end, (Record(raw, "transcript", self._last),), (OVERSIZE,))
        read = read_line(line)
        records = []
        for part in read.parts:
            if isinstance(part, RepairedRow):
                records.append(Record(part.raw, "transcript", self._time(part.at, end), part.uuid))
            else:
                records.append(Record(self._aside(part.raw), "transcript", self._time(0, end)))
        return FileItem(self._last, end, tuple(records), read.damage)

    def _time(self, at: int, end: int) -> int:
        """When a row was written. A row without a time gets that of the row before it; the first row, that of the next
        row with a time, or else the file's."""
        self._last = max(self._last, at) if at or self._last else self.next_time(end)
        return self._last

    def next_time(self, offset: int) -> int:
        """The time of the next row after `offset` that has one, or else the file's."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            lines = os.pread(descriptor, GLANCE_BYTES, offset).split(b"\n")
            parts = (part for line in lines for part in read_line(line).parts)
            written = os.fstat(descriptor).st_mtime_ns // 1_000_000
            return next((part.at for part in parts if isinstance(part, RepairedRow) and part.at), written)
        finally:
            os.close(descriptor)

    def _aside(self, raw: bytes) -> bytes:
        """Keep a fragment as it is; spill a large one to a file, so that it is never parsed again."""
        if len(raw) <= FRAGMENT_BYTES or self._spill is None:
            return raw
        self._spill.write(raw)
        return oversize_placeholder(self._spill.done(), len(raw), raw[:KEPT_OF_FRAGMENT])

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
        return FileOffset(self.done, self._checked(), self.linked)

    def _checked(self) -> str:
        if self.done == self._checked_at:
            return self._check
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return self._check
        try:
            self._check, self._checked_at = check_of(descriptor, self.done), self.done
        finally:
            os.close(descriptor)
        return self._check


class FileRows:
    """Iterates over the rows of one file from its start, line by line, as far as the caller wants."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = TranscriptFile(path, "", FileOffset())

    def __iter__(self) -> Iterator[FileItem]:
        """Raises OSError."""
        while True:
            self._file.read_more()
            if not self._file.items:
                return
            item = self._file.items.popleft()
            self._file.advance(item)
            yield item

    def place_at(self, offset: int) -> FileOffset:
        return place_at(self._path, offset)


def place_at(path: Path, offset: int) -> FileOffset:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return FileOffset(offset, check_of(descriptor, offset))
    finally:
        os.close(descriptor)


def check_of(descriptor: int, offset: int) -> str:
    if not offset:
        return ""
    data = os.pread(descriptor, min(_CHECK, offset), max(0, offset - _CHECK))
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def last_rows(path: Path, limit: int) -> list[Record]:
    """The last rows of a file, oldest first, by reading backwards from its end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        size = start = os.fstat(descriptor).st_size
        blocks: list[bytes] = []
        newlines = 0
        while start > 0 and newlines <= limit and size - start < GLANCE_BYTES:
            length = min(start, 64 << 10)
            start -= length
            blocks.append(os.pread(descriptor, length, start))
            newlines += blocks[-1].count(b"\n")
    finally:
        os.close(descriptor)
    lines = b"".join(reversed(blocks)).split(b"\n")
    parts = [part for line in (lines[1:] if start else lines) for part in read_line(line).parts]
    return [Record(part.raw, "transcript", part.at) for part in parts if isinstance(part, RepairedRow)][-limit:]
