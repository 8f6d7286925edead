"""One file of rows, read from a place on: each line once, a partial last one when the rest of it is there.

The file is opened for each look and closed again, so that one that was cut short or replaced is noticed.
"""

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.repair import GARBAGE, OVERSIZE, TORN, RepairedRow, read_line
from fairlead.agents.claude.wire.framing import LineSplitter, Oversize, OversizeSpill, stand_in
from fairlead.model.agents import Record

CHUNK = 256 << 10
FRAGMENT_BYTES = 1 << 20
KEPT_OF_FRAGMENT = 1 << 10
GLANCE_BYTES = 4 << 20
"""The most that a glance reads, however large the rows at the end of a file are."""
_CHECK = 64
"""Bytes before a place by which a file is known again."""


class FileOffset(msgspec.Struct, frozen=True):
    """How far a file was read. `check` is of the bytes before `offset`; `linked`: whose it is was told."""

    offset: int = 0
    check: str = ""
    linked: bool = False


class FileItem(msgspec.Struct, frozen=True):
    """What one line came to."""

    at: int
    end: int
    records: tuple[Record, ...]
    damage: tuple[str, ...]


class TranscriptFile:
    """One file while it is read."""

    def __init__(
        self, path: Path, name: str, place: FileOffset, spill: OversizeSpill | None = None, *, again: bool = False
    ) -> None:
        self.path = path
        self.name = name
        self.linked = place.linked
        self.done = place.offset
        """Up to here all rows were handed on."""
        self.items: deque[FileItem] = deque()
        self.damage: dict[str, int] = {}
        self._spill = spill
        self._read = place.offset
        self._check = place.check
        self._checked_at = place.offset
        self._identity: tuple[int, int] | None = None
        self._last = 0
        self.again = again
        """It is not the file that was read before: up to its present end, what it says may be known already."""
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

    def fill(self) -> None:
        """Read some more, if all that was read is handed on. OSError."""
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
            # Cut short, or another file under its name: from the start again.
            self.again = self.again or self.done > 0
            self.done = self._read = self._checked_at = 0
            self._check = ""
            self._begin()
        elif self._identity is not None:
            # The same content in a new file: what was half read is read again.
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
            raw = stand_in(line.place, line.size, line.head, line.cut)
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
        """When a row was written. One without a time is as old as the one before it; the first, as the next that has
        one; where none has, as the file."""
        self._last = max(self._last, at) if at or self._last else self.next_time(end)
        return self._last

    def next_time(self, offset: int) -> int:
        """Of the next row after a place that has one; where none has, of the file."""
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
        """What is no row is kept as it is; a large piece in a file, so that nobody has to look at it again."""
        if len(raw) <= FRAGMENT_BYTES or self._spill is None:
            return raw
        self._spill.write(raw)
        return stand_in(self._spill.done(), len(raw), raw[:KEPT_OF_FRAGMENT])

    def torn(self) -> FileItem | None:
        """The last line, which has no newline. Whole, it is a row like any other; torn, it is kept, and read again
        from its beginning should the rest of it come."""
        lines = self._splitter.end()
        if not lines:
            return None
        item = self._item(lines[0], self._read)
        if item.damage and item.damage[-1] == GARBAGE:
            item = FileItem(item.at, self.done, item.records, (*item.damage[:-1], TORN))
            self._read = self.done
        return item

    def hand_on(self, item: FileItem) -> None:
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
    """The rows of one file from its start, one line after the other, as far as somebody wants them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = TranscriptFile(path, "", FileOffset())

    def __iter__(self) -> Iterator[FileItem]:
        """OSError."""
        while True:
            self._file.fill()
            if not self._file.items:
                return
            item = self._file.items.popleft()
            self._file.hand_on(item)
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
