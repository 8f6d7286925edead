"""The rows of the transcript that a driver waits for: those of a call whose hook has come, and of prompts."""

import asyncio
from collections.abc import Sequence
from typing import Final

from fairlead.agents.claude.tui.transcript_tail import TranscriptTail
from fairlead.agents.claude.wire.decode import decode_row
from fairlead.agents.claude.wire.records import UserRecord
from fairlead.model.agents import Record
from fairlead.model.content import content_blocks, plain_text
from fairlead.model.ids import CallId
from fairlead.system.clock import Clock, ends_within
from fairlead.terminals.api import Terminal

ROW_SECONDS: Final = 10.0
"""How long a hook waits for the row of its call, which may come later; it follows within tenths of a second."""


class AwaitedRows:
    def __init__(self, rows: TranscriptTail, terminal: Terminal, clock: Clock) -> None:
        self._rows = rows
        self._terminal = terminal
        self._clock = clock
        self._calls: dict[str, None] = {}
        self._some = asyncio.Event()

    def arrived(self, batch: Sequence[Record]) -> None:
        """Note the rows that were delivered."""
        for record in batch:
            for call in [call for call in self._calls if call.encode() in record.raw]:
                del self._calls[call]
        self._some.set()

    async def row_of(self, call: CallId) -> None:
        """Wait for the row of a call, so that clients see the call before its permission request."""
        if not call:
            return
        self._calls[call] = None

        async def arrived() -> None:
            while call in self._calls and self._terminal.running:
                self._some.clear()
                await self._rows.look()
                if call in self._calls:
                    await self._some.wait()

        await ends_within(self._clock, ROW_SECONDS, arrived())
        self._calls.pop(call, None)


def prompt_in(record: Record) -> str | None:
    """The text of a prompt's row; None if the record is another one."""
    row = decode_row(record.raw) if b'"user"' in record.raw and record.origin == "transcript" else None
    if not isinstance(row, UserRecord) or row.isSidechain is True or row.isMeta:
        return None
    return plain_text(content_blocks(row.message.content))
