"""Splits transcript lines into rows, damaged ones included. Pure: bytes in, rows and fragments out; nothing is lost.

A crash or two writers leave rows without a newline between them, one row inside another, runs of NUL where blocks of
the disk were never written, and a torn last line. Every whole row is found, wherever it begins; the bytes in between
become a fragment, kept as it is. The work per line is bounded, however malicious it is.
"""

import json
import re
from datetime import datetime
from typing import Any, Final

import msgspec

from fairlead.agents.claude.wire.records import as_text
from fairlead.model.agents import Record
from fairlead.model.formats.frames import decode_or_none
from fairlead.model.formats.json_repair import decode_repaired


class Fragment(msgspec.Struct, frozen=True):
    """Bytes that are not a row."""

    raw: bytes


class TranscriptLine(msgspec.Struct, frozen=True):
    """The whole rows of one line, as they stand in the file, and the fragments between them, in order. A row without a
    time has the `at` 0. `damage` names the defects; empty for a good line."""

    parts: tuple[Record | Fragment, ...]
    damage: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[Record, ...]:
        return tuple(part for part in self.parts if isinstance(part, Record))


JOINED: Final = "joined"
"""Rows without a newline between them."""
SPLICED: Final = "spliced"
"""Rows with pieces of others between or around them."""
NUL: Final = "nul"
"""A run of NUL bytes."""
GARBAGE: Final = "garbage"
"""A line without any row."""
TORN: Final = "torn"
"""An incomplete last line."""
OVERSIZE: Final = "oversize"
"""A line above the limit of a record."""

_BLANK: Final = b" \t\r\n\0"
_EFFORT: Final = 30
_FREE_EFFORT: Final = 200_000_000
"""The budget of a damaged line, roughly in nanoseconds: per character, and per line. Once it is used up, the rest of
the line is one fragment."""
_MENDED: Final = 1 << 20
"""The largest piece that is repaired as a whole to see whether it is a row: that work cannot be interrupted."""
_PARSING: Final = 8
_FAILING: Final = 1500
"""The cost of a parsed character, and of a failed attempt; json also counts the newlines before the error, ten
characters for one unit."""


class _Time(msgspec.Struct):
    type: str
    timestamp: Any = None
    uuid: Any = None


_times: Final = msgspec.json.Decoder(_Time)
_json: Final = json.JSONDecoder()
_NULS: Final = re.compile(rb"\x00+")


def read_line(line: bytes) -> TranscriptLine:
    """Split one line of a file, given without its newline. A blank line has no parts."""
    clean = line.strip(_BLANK).removeprefix(b"\xef\xbb\xbf")
    if not clean:
        return TranscriptLine((), (NUL,) if b"\0" in line else ())
    damage = [NUL] if line.startswith(b"\0") or line.endswith(b"\0") else []
    row = _whole(clean)
    if row is not None:
        return TranscriptLine((row,), tuple(damage))
    parts: list[Record | Fragment] = []
    if b"\0" in clean:
        damage = [NUL]
    for piece in _NULS.split(clean):
        piece = piece.strip(_BLANK)
        if piece:
            whole = _whole(piece)
            parts.extend([whole] if whole is not None else _search(piece))
    rows = sum(isinstance(part, Record) for part in parts)
    if rows < len(parts):
        damage.append(SPLICED if rows else GARBAGE)
    elif rows > 1 and not damage:
        damage.append(JOINED)
    return TranscriptLine(tuple(parts), tuple(damage))


def row_time(timestamp: Any) -> int:
    """A row's `timestamp` in milliseconds since 1970; 0 if it is missing or invalid."""
    if not isinstance(timestamp, str):
        return 0
    try:
        when = datetime.fromisoformat(timestamp)
        return max(0, int(when.timestamp() * 1000)) if when.tzinfo is not None else 0
    except (ValueError, OverflowError, OSError):
        return 0


def _whole(data: bytes) -> Record | None:
    """The bytes as one row, if they are an object with a `type`."""
    # Without mending, `_search` finds the row as well, in smaller steps.
    decode = decode_repaired if len(data) <= _MENDED else decode_or_none
    row = decode(_times.decode, data)
    return None if row is None else _record(data, row.timestamp, row.uuid)


def _record(raw: bytes, timestamp: Any, uuid: Any) -> Record:
    return Record(raw, "transcript", row_time(timestamp), as_text(uuid))


def _search(data: bytes) -> list[Record | Fragment]:
    """The rows inside a damaged line, wherever they begin, and the fragments around them."""
    text = data.decode("utf-8", "surrogateescape")
    found: list[Record | Fragment] = []
    effort = _EFFORT * len(text) + _FREE_EFFORT
    kept = position = 0
    while effort > 0 and (start := text.find("{", position)) >= 0:
        try:
            value, end = _json.raw_decode(text, start)
        except json.JSONDecodeError as error:
            effort -= (error.pos - start) * _PARSING + _FAILING + error.pos // 10
            position = start + 1
            continue
        except RecursionError:
            effort -= _FREE_EFFORT // 100
            position = start + 1
            continue
        effort -= (end - start) * _PARSING
        position = end
        if _is_row(value):
            _keep(found, text[kept:start])
            found.append(_record(_bytes(text[start:end]), value.get("timestamp"), value.get("uuid")))
            kept = end
    _keep(found, text[kept:])
    return found


def _is_row(value: dict[str, Any]) -> bool:
    """Whether an object is a row, not an object inside one: those have a `type` too, but never a session id."""
    if not isinstance(value.get("type"), str):
        return False
    return isinstance(value.get("sessionId"), str) or "leafUuid" in value or "snapshot" in value


def _keep(found: list[Record | Fragment], text: str) -> None:
    rest = _bytes(text).strip(_BLANK)
    if rest:
        found.append(Fragment(rest))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
