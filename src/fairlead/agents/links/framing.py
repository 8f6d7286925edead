"""NDJSON framing: chunks of bytes become whole lines, objects become one line each. No interpretation, no I/O."""

from typing import Any, Final, Protocol

import msgspec

RECORD_LIMIT: Final = 64 << 20
"""Size limit of one record in bytes, set by the design. A longer line is spilled as it comes, never buffered whole."""

KEPT_OF_OVERSIZE: Final = 64 << 10
"""How many bytes of a line above the limit are kept: enough to recognise it."""


SPILLED_LIMIT: Final = 256 << 20
"""How many bytes of one line are written to a file; the rest is dropped, and the line's record says so."""


class Oversize(msgspec.Struct, frozen=True):
    """A line above the limit: its first bytes, its size, and the file it was spilled to. `cut`: the number of bytes
    spilled if the rest was dropped, else 0."""

    head: bytes
    size: int
    place: str = ""
    cut: int = 0


class OversizeSpill(Protocol):
    """Stores a line that is too long to keep in memory, piece by piece."""

    def write(self, piece: bytes) -> None: ...
    def done(self) -> str:
        """Finish the line and return the name of the place where it is stored."""


class LineSplitter:
    """Splits chunks of bytes, cut anywhere, into whole lines without their line ends.

    Blank lines are skipped, `\\r\\n` counts as one line end. `end` returns a last line that had no newline.

    `offset` is the position of the first byte in the whole output. `ends` are the positions just after each line that
    the last call of `feed` returned."""

    def __init__(
        self,
        limit: int = RECORD_LIMIT,
        kept: int = KEPT_OF_OVERSIZE,
        spill: OversizeSpill | None = None,
        spilled: int = SPILLED_LIMIT,
        offset: int = 0,
    ) -> None:
        self.ends: list[int] = []
        self._offset = offset
        self._limit = limit
        self._most = max(limit, spilled)
        self._written = 0
        self._spill = spill
        self._kept = min(kept, limit)
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        lines: list[bytes | Oversize] = []
        self.ends = []
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            self._offset += len(piece) + 1
            found = self.end()
            self.ends += [self._offset] * len(found)
            lines += found
        self._add(rest)
        self._offset += len(rest)
        return lines

    @property
    def spilling(self) -> bool:
        """Whether the line so far is above the limit."""
        return self._size > self._limit

    @property
    def offset(self) -> int:
        """The position just after the bytes that were fed."""
        return self._offset

    def end(self) -> list[bytes | Oversize]:
        """The line so far, unless it is blank; the next piece begins another line."""
        line: bytes | Oversize
        if self._size > self._limit:
            place = self._spill.done() if self._spill else ""
            cut = self._written if self._spill and self._written < self._size else 0
            line = Oversize(self._parts[0], self._size, place, cut)
        else:
            line = b"".join(self._parts).removesuffix(b"\r")
        self._parts = []
        self._size = self._written = 0
        return [line] if isinstance(line, Oversize) or line.strip() else []

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        over = self._size > self._limit
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
            return
        # Over the limit: keep only the head in memory and spill the line.
        if self._spill is not None:
            for part in [piece] if over else [*self._parts, piece]:
                taken = part[: self._most - self._written]
                if taken:
                    self._spill.write(taken)
                    self._written += len(taken)
        self._parts = [b"".join([*self._parts, piece])[: self._kept]]


_encoder = msgspec.json.Encoder()


def encode_line(message: Any) -> bytes:
    """One JSON object with exactly one newline, at its end: a blank line ends CLI 2.1.37."""
    return _encoder.encode(message) + b"\n"


def oversize_placeholder(line: Oversize) -> bytes:
    """The log's placeholder for a spilled line: its place, its size, its first bytes, and where it was cut off.

    The place is also the `subtype` of the line's event."""
    short = {"cut": line.cut} if line.cut else {}
    head = line.head.decode("utf-8", "replace")
    return _encoder.encode(
        {"type": "fairlead_oversize", "subtype": line.place, "size": line.size, **short, "head": head}
    )


def spill_record(raw: bytes, spill: OversizeSpill, kept: int) -> bytes:
    """Store a record in a file and return its placeholder, with the first `kept` bytes of the record."""
    spill.write(raw)
    return oversize_placeholder(Oversize(raw[:kept], len(raw), spill.done()))
