"""Finds how far a session file repeats another session's log. Reads the file only that far.

A fork, and with older versions every resume, begins with a copy of the rows before it: the same uuids, another session
id. Only the main thread is compared, row by row; the rows in between (attachments, subagents, records that only the
wire has) may be present or not.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.file_reader import FileRows
from fairlead.agents.claude.transcripts.identity import identify, name_of
from fairlead.agents.claude.transcripts.reader import MAIN, ReaderOffset
from fairlead.model.agents import Record
from fairlead.model.transcripts import Shared

LogRecords = AsyncIterator[tuple[int, Record]]


async def shared(path: Path, records: LogRecords) -> Shared | None:
    """Compare a file with the other session's records, each given with the last seq of its events. Raises OSError."""
    rows = FileRows(path)
    mine, theirs = _Mine(rows), _Theirs(records)
    between: list[Record] = []
    upto = end = 0
    while True:
        uuid, seq = mine.next(), await theirs.next()
        if not uuid or uuid != theirs.uuid:
            break
        between.extend(record for name, record in mine.between if name not in theirs.between)
        upto, end = seq, mine.end
    if not upto:
        return None
    place = msgspec.msgpack.encode(ReaderOffset({MAIN: rows.place_at(end)}))
    return Shared(seq=upto, place=place, between=tuple(between), goes_on=bool(uuid), they_go_on=bool(theirs.uuid))


class _Mine:
    """The file. `between` has the rows skipped before the last main-thread row; `end` is that row's end offset."""

    def __init__(self, rows: FileRows) -> None:
        self._rows = _each(rows)
        self.between: list[tuple[str, Record]] = []
        self.end = 0

    def next(self) -> str:
        """The uuid of the next row of the main thread; empty at the end."""
        self.between = []
        for end, record in self._rows:
            row = identify(record.raw)
            if row is not None and row.is_conversation and row.is_main_thread:
                self.end = end
                return str(row.uuid)
            self.between.append((name_of(row, record.raw), record))
        return ""


def _each(rows: FileRows) -> Iterator[tuple[int, Record]]:
    for item in rows:
        for record in item.records:
            yield item.end, record


class _Theirs:
    """The other session's log. `between` has the names of all its records outside the main thread so far."""

    def __init__(self, records: LogRecords) -> None:
        self._records = records
        self.between: set[str] = set()
        self.uuid = ""

    async def next(self) -> int:
        async for seq, record in self._records:
            row = identify(record.raw)
            if row is not None and row.is_conversation and row.is_main_thread:
                self.uuid = str(row.uuid)
                return seq
            self.between.add(name_of(row, record.raw))
        self.uuid = ""
        return 0
