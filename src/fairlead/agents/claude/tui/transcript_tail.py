"""Delivers the transcript of a CLI in a terminal as it grows: its own rows and its subagents', each once.

It waits for a file that does not exist yet (the CLI creates it at the first prompt). A fork's file has a copy of its
parent's rows, with the same ids: those are skipped. Rows are delivered with the place after them, from which the next
gateway reads on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Self

from fairlead.agents.claude.launch import PreparedLaunch
from fairlead.agents.claude.transcripts.file_reader import last_rows
from fairlead.agents.claude.transcripts.identity import identify
from fairlead.agents.claude.transcripts.ordering import REMEMBERED, RowOrdering, SubagentResultBuffer
from fairlead.agents.claude.transcripts.reader import SessionReader
from fairlead.agents.claude.tui.stored_state import TranscriptPlace
from fairlead.agents.claude.versions import Abilities
from fairlead.agents.claude.wire.records import as_text
from fairlead.agents.links.framing import OversizeSpill
from fairlead.model.agents import Record
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import TranscriptPage
from fairlead.system.clock import Clock, Timer
from fairlead.system.tail import FileTail

logger = logging.getLogger("fairlead.agents.claude")

LOOK_SECONDS: Final = 0.05
"""The least time between two reads, however often the screen changes."""

EARLY_SECONDS: Final = 3.0
"""How long a row may wait for its parent row."""


DeliverRows = Callable[[list[Record], TranscriptPlace | None], Awaitable[None]]
"""Delivers rows, with the place after them; None if rows before that place are held back."""


class TranscriptTail:
    """Calls `give` with the rows in order, one call at a time. `ordered`: the CLI writes them in order."""

    def __init__(
        self,
        session: SessionId,
        path: Path,
        clock: Clock,
        give: DeliverRows,
        *,
        ordered: bool,
        spill: OversizeSpill | None = None,
        place: bytes = b"",
    ) -> None:
        self.path = path
        self._order = RowOrdering(writes_in_order=ordered)
        self._results = SubagentResultBuffer()
        self._patience: Timer | None = None
        self._session = session
        self._clock = clock
        self._give = give
        self._spill = spill
        self._copied: set[str] | None = None
        self._has_own = False
        self._late = False
        self._looking = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._moved = asyncio.Event()
        self._reader = self._open(place)

    @classmethod
    def open(
        cls, prepared: PreparedLaunch, clock: Clock, give: DeliverRows, stored: TranscriptPlace | None = None
    ) -> Self:
        """The tail of a process that starts now. Rows that exist in the conversation which it resumes or forks are
        skipped: they are known already. `stored`: where an earlier gateway was."""
        ordered = Abilities(prepared.version).writes_in_order
        launch, path = prepared.launch, prepared.transcript if stored is None else Path(stored.path)
        place = b"" if stored is None else stored.place
        rows = cls(launch.session, path, clock, give, ordered=ordered, spill=prepared.spill, place=place)
        if launch.fork:
            begun = rows._reader.offset > 0 or path != prepared.transcript
            rows.skip_copies(prepared.transcript.with_name(f"{launch.resume}.jsonl"), begun=begun)
        elif launch.resume and stored is None:
            rows.skip_existing()
        if stored is not None:
            rows.note_read()
        return rows

    def _open(self, place: bytes = b"") -> SessionReader:
        return SessionReader(self._session, self.path, place, spill=lambda: self._spill)

    def place(self) -> TranscriptPlace:
        return TranscriptPlace(str(self.path), self._reader.place())

    def skip_existing(self) -> None:
        if self.path.exists():
            self._reader.to_end()
            self.note_read()

    def note_read(self) -> None:
        """Note the rows before the reader's place: rows that follow name them as their parents."""
        if self.path.exists():
            for row in last_rows(self.path, REMEMBERED, self._reader.offset):
                self._order.note_delivered(row)

    def skip_copies(self, parent: Path, *, begun: bool = False) -> None:
        """`begun`: rows of its own were delivered already."""
        self._copied = _ids(parent)
        self._has_own = begun

    def move(self, path: Path) -> None:
        """Continue with another file (a person cleared the conversation, or resumed another)."""
        self.path = path
        self._reader.close()
        self._reader = self._open()
        self._moved.set()
        self.nudge()

    def nudge(self) -> None:
        """Look for new rows soon: subagents' files are not watched, so any sign of activity may mean new rows."""
        self._wanted.set()

    async def look(self) -> bool:
        """Deliver all new rows. Return whether there were any."""
        # To its end, even if the caller is cancelled: rows that were read and not delivered would be lost.
        return await asyncio.shield(asyncio.ensure_future(self._look()))

    async def _look(self) -> bool:
        found = False
        async with self._looking:
            path = self.path
            while (rows := await self._read()) is not None:
                found = await self._deliver_page(rows, path) or found
                path = self.path
            if self._late and (early := self._flush_waiting()):
                await self._give(early, self.place())
                found = True
            self._late = False
        return found

    async def finish(self) -> None:
        """Deliver the rest after the CLI has ended, including a last line without a newline."""
        await self.look()
        async with self._looking:
            rows = await self._reader.finish()
            if rows is not None:
                await self._deliver_page(rows, self.path)
            if early := self._flush_waiting():
                await self._give(early, None)
            self._close()

    async def leave(self) -> None:
        """Stop reading; the CLI goes on. Rows that are being delivered are delivered to their end."""
        async with self._looking:
            self._close()

    def _close(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._reader.close()

    async def follow(self) -> None:
        """Deliver rows until cancelled."""
        while True:
            self._moved.clear()
            with FileTail(self.path, clock=self._clock) as tail:
                watching = asyncio.create_task(self._watch(tail))
                try:
                    while not self._moved.is_set():
                        self._wanted.clear()
                        await self.look()
                        await self._clock.sleep(LOOK_SECONDS)
                        await self._wanted.wait()
                finally:
                    watching.cancel()
                    await asyncio.wait({watching})

    async def _watch(self, tail: FileTail) -> None:
        while True:
            await tail.changed()
            self.nudge()

    async def _read(self) -> TranscriptPage | None:
        try:
            return await self._reader.read()
        except NotFound:
            return None

    async def _deliver_page(self, rows: TranscriptPage, path: Path) -> bool:
        records = [record for record in rows.records if not self._is_copy(record)]
        for problem in rows.problems:
            logger.warning("a transcript is damaged", extra={"path": problem.path, "problem": problem.kind})
        records = self._in_order(records)
        if records:
            # A gateway that dies while rows are held reads them again, and some that were delivered: they have names.
            held = self._order.is_waiting or self._results.is_waiting
            await self._give(records, None if held else TranscriptPlace(str(path), rows.place))
        return bool(records)

    def _in_order(self, records: list[Record]) -> list[Record]:
        for buffer in (self._order, self._results):
            records = [ready for record in records for ready in buffer.put(record)]
        if (self._order.is_waiting or self._results.is_waiting) and self._patience is None:
            self._patience = self._clock.call_later(EARLY_SECONDS, self._stop_waiting)
        return records

    def _flush_waiting(self) -> list[Record]:
        return [*self._results.flush(), *self._order.flush()]

    def _stop_waiting(self) -> None:
        self._patience = None
        self._late = True
        self.nudge()

    def _is_copy(self, record: Record) -> bool:
        """Whether a row is a copy from the parent. Some versions write a row of their own before the copies, so each
        copy is recognized by its id."""
        if self._copied is None:
            return False
        row = identify(record.raw)
        if isinstance(row.uuid, str) and row.uuid:
            copied = row.uuid in self._copied
            self._copied.discard(row.uuid)
            self._has_own = self._has_own or not copied
        else:
            copied = not self._has_own
        if copied:
            self._order.note_delivered(record)
        return copied


def _ids(path: Path) -> set[str]:
    try:
        with path.open("rb") as file:
            return {name for line in file if (name := as_text(identify(line).uuid))}
    except OSError:
        return set()
