"""Finds how far a session file repeats another session's log. Reads the file only that far.

A fork, and with older versions every resume, begins with a copy of the rows before it: the same uuids, another session
id. Only the main thread is compared, row by row; the rows in between (attachments, subagents, records that only the
wire has) may be present or not.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from fairlead.agents.claude.transcripts.file_reader import FileOffset, TranscriptFile, place_at
from fairlead.agents.claude.transcripts.identity import identify, name_of
from fairlead.agents.claude.transcripts.reader import MAIN, ReaderOffset
from fairlead.model.agents import Record
from fairlead.model.transcripts import Shared

LogRecords = AsyncIterator[tuple[int, Record]]


async def shared(path: Path, records: LogRecords) -> Shared | None:
    """Compare a file with the other session's records, each given with the last seq of its events. Raises OSError."""
    others: set[str] = set()  # the names of all records of the log outside the main thread so far

    async def next_of_log() -> tuple[str, int]:
        """The uuid and the seq of the log's next record of the main thread; empty at the end."""
        async for seq, record in records:
            row = identify(record.raw)
            if row.is_conversation and row.is_main_thread:
                return str(row.uuid), seq
            others.add(name_of(row, record.raw))
        return "", 0

    rows = _main_rows(path)
    between: list[Record] = []
    upto = end = 0
    while True:
        uuid, row_end, skipped = next(rows, ("", 0, []))
        their_uuid, seq = await next_of_log()
        if not uuid or uuid != their_uuid:
            break
        between.extend(record for name, record in skipped if name not in others)
        upto, end = seq, row_end
    if not upto:
        return None
    place = msgspec.msgpack.encode(ReaderOffset({MAIN: place_at(path, end)}))
    return Shared(seq=upto, place=place, between=tuple(between), goes_on=bool(uuid), they_go_on=bool(their_uuid))


def _main_rows(path: Path) -> Iterator[tuple[str, int, list[tuple[str, Record]]]]:
    """The uuid and the end offset of each row of the main thread, with the rows before it that are not, by name."""
    skipped: list[tuple[str, Record]] = []
    for item in TranscriptFile(path, "", FileOffset()).new_items():
        for record in item.records:
            row = identify(record.raw)
            if row.is_conversation and row.is_main_thread:
                yield str(row.uuid), item.end, skipped
                skipped = []
            else:
                skipped.append((name_of(row, record.raw), record))
