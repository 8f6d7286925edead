"""How far a session file repeats what another session's log has. Reads the file as far as that and no further.

A fork, and with older versions every resume, begins with a copy of the rows before it: the same uuids, another session
id. Only the main thread is compared, row by row; what lies between (attachments, subagents, what only the wire has) may
be there or not.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.file_reader import FileRows
from fairlead.agents.claude.transcripts.identity import name_of, named
from fairlead.agents.claude.transcripts.reader import MAIN, ReaderOffset
from fairlead.model.agents import Record
from fairlead.model.transcripts import Shared

Told = AsyncIterator[tuple[int, Record]]


async def shared(path: Path, told: Told) -> Shared | None:
    """`told` are the records of the other session, each with the last seq that it came to. OSError."""
    rows = FileRows(path)
    mine, theirs = _Mine(rows), _Theirs(told)
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
    """The file. `between` are its other rows since the last of the main thread, `end` is where that ends."""

    def __init__(self, rows: FileRows) -> None:
        self._rows = _each(rows)
        self.between: list[tuple[str, Record]] = []
        self.end = 0

    def next(self) -> str:
        """The uuid of the next row of the main thread; empty: there is none."""
        self.between = []
        for end, record in self._rows:
            row = named(record.raw)
            if row is not None and row.speaks and row.main:
                self.end = end
                return str(row.uuid)
            self.between.append((name_of(row, record.raw), record))
        return ""


def _each(rows: FileRows) -> Iterator[tuple[int, Record]]:
    for item in rows:
        for record in item.records:
            yield item.end, record


class _Theirs:
    """The log. `between` are the names of all records of theirs that are not of the main thread, so far."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self.between: set[str] = set()
        self.uuid = ""

    async def next(self) -> int:
        async for seq, record in self._told:
            row = named(record.raw)
            if row is not None and row.speaks and row.main:
                self.uuid = str(row.uuid)
                return seq
            self.between.add(name_of(row, record.raw))
        self.uuid = ""
        return 0
