"""Mirrors the transcript of a session whose agent runs here: its rows are stored in the log next to the wire records.

Rule: the rows are stored for their bytes only (`RecordStored`) and never interpreted. History serves a record as the
transcript has it; only the wire determines what happened. The file is read when a turn is over, and when it changes
after that, never while the agent works.
"""

import logging

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import Record
from fairlead.model.ids import SessionId, event_id, is_uuid
from fairlead.model.transcripts import (
    FOREIGN,
    MirroredRow,
    MirrorMatcher,
    TranscriptPage,
    TranscriptReader,
    Transcripts,
)
from fairlead.sessions.commit import Commit, SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.paging import entries_after, entries_backwards

logger = logging.getLogger("fairlead.transcripts")

PLACE = "transcript"
"""Name of the checkpoint that stores how far a session's files were read."""
DIFFERS = "transcript.differs"
"""Kind of the notice about a copy that differs from its wire record, and name of the checkpoint that records that the
notice was emitted."""
_BEGINNINGS = ("session.forked", "session.resumed", "user.message")


class _MirrorState(msgspec.Struct):
    """State of a session while its agent runs. `seq`: how far the log was read. `held`: rows that were read after a
    turn had begun; that turn's rows may be in the file before their records came over the wire."""

    conversation: SessionId
    reader: TranscriptReader
    copies: MirrorMatcher
    seq: int
    reported: bool
    held: TranscriptPage | None = None


class TranscriptMirror:
    def __init__(self, services: CoreDependencies, source: Transcripts) -> None:
        self._services = services
        self._source = source
        self._states: dict[SessionId, _MirrorState] = {}

    async def catch_up(self, core: SessionCore, *, ended: bool = False) -> None:
        """Store all rows that the files have now in the log; during a turn they wait until it is over.

        `ended`: the agent's process has exited. One caller at a time for each session. Raises NotFound, OSError."""
        state = self._states.get(core.session)
        if state is not None and state.conversation != _conversation(core):
            # The agent continues under another id, in another file.
            self.forget(core.session)
            state = None
        if state is None:
            state = self._states[core.session] = await self._open(core)
        while (rows := state.held or await state.reader.read()) is not None:
            if not ended and await _in_turn(core):
                state.held = rows
                return
            # Only now: the records of a turn that ended while the file was read are in the log.
            await self._listen(core, state)
            state.held = None
            await self._log(core, state, rows)

    async def finish(self, core: SessionCore) -> None:
        """Store the rest after the agent has ended. All rows so far are its own; later rows are not."""
        await self.catch_up(core, ended=True)
        async with core.transaction() as transition:
            transition.save_offset(PLACE, self._states[core.session].reader.place())

    def forget(self, session: SessionId) -> None:
        state = self._states.pop(session, None)
        if state is not None:
            state.reader.close()

    def close(self) -> None:
        for session in list(self._states):
            self.forget(session)

    async def _open(self, core: SessionCore) -> _MirrorState:
        """Start where the files were last read; for a conversation that began elsewhere, at our first prompt."""
        session, store = core.session, self._services.store
        kept = await store.checkpoint(session, PLACE)
        since = "" if kept is not None else await self._first_prompt(core)
        place, seq = (b"", 0) if kept is None else (kept.data, kept.seq)
        reader = await self._source.reader(_conversation(core), place, since=since)
        reported = await store.checkpoint(session, DIFFERS) is not None
        return _MirrorState(_conversation(core), reader, self._source.mirror_matcher(session), seq, reported)

    async def _first_prompt(self, core: SessionCore) -> str:
        """Our first prompt in a session that continues another conversation; empty for a new conversation."""
        first, resumed = "", False
        async for entry in entries_backwards(self._services.store, core.session, _BEGINNINGS):
            event = ev.decode(entry.event)
            if isinstance(event, ev.SessionForked):
                return first
            if isinstance(event, ev.SessionResumed):
                resumed = True
            elif isinstance(event, ev.UserMessage) and event.via == "prompt" and event.subagent is None:
                first, resumed = event.message, False
        return first if resumed else ""

    async def _listen(self, core: SessionCore, state: _MirrorState) -> None:
        """Pass the log's new records to the matcher."""
        if state.seq < core.log.head:
            async for entry in entries_after(self._services.store, core.session, state.seq):
                if entry.raw is not None and entry.origin:
                    state.copies.add_record(Record(entry.raw, entry.origin))
                state.seq = entry.seq

    async def _log(self, core: SessionCore, state: _MirrorState, rows: TranscriptPage) -> None:
        # The others are our own markers that link subagents to calls: the wire has that already.
        written = [record for record in rows.records if record.origin == "transcript"]
        copies = [copy for record in written if (copy := state.copies.match_row(record)) is not None]
        known = await self._names(core.session) if rows.again else frozenset()
        async with core.transaction() as transition:
            for copy in copies:
                if copy.name not in known:
                    self._add(transition, copy)
                    self._report(transition, state, copy)
            transition.save_offset(PLACE, rows.place)

    def _add(self, transition: Commit, copy: MirroredRow) -> None:
        # A row without a uuid is named by a hash of its bytes: each process of a session may write the same row again.
        part = "copy" if is_uuid(copy.name) else f"copy-{transition.stage.seq}"
        event = ev.RecordStored(
            id=event_id(copy.name, "record", part), record=copy.kind, subtype=copy.subtype, of=copy.of
        )
        transition.add(event, copy.record.origin, copy.record.raw, copy.record.at)

    def _report(self, transition: Commit, state: _MirrorState, copy: MirroredRow) -> None:
        if not copy.differs or state.reported:
            return
        state.reported = True
        session = transition.state.session
        logger.warning("a transcript differs", extra={"session": session, "record": copy.of, "in": copy.differs})
        if copy.differs == FOREIGN:
            text = f"Another program writes to this session's file: {copy.of} was not sent here. Stop one of the two."
        else:
            text = f"The agent's file differs from its output in {copy.of}: {copy.differs}. The file's copy is shown."
        data = {"record": copy.of, "row": copy.name, "differs": copy.differs}
        transition.add(ev.Notice(id=event_id(session, "notice", DIFFERS), kind=DIFFERS, text=text, data=data))
        transition.save_offset(DIFFERS, b"1")

    async def _names(self, session: SessionId) -> frozenset[str]:
        """Names of the rows in the log. Needed only when a file was replaced, or its session continues in another."""
        found: set[str] = set()
        ours = False
        async for entry in entries_after(self._services.store, session):
            # A row's bytes are stored with its first event, whose id may come from another row (a turn's end).
            ours = entry.origin == "transcript" if entry.raw is not None else ours
            if ours:
                # An event's id begins with the name of the record that it comes from.
                found.add(ev.decode(entry.event).id.split("/", 1)[0])
        return frozenset(found)


async def _in_turn(core: SessionCore) -> bool:
    """Whether a turn runs. Waits for a commit in progress: the end of a turn counts when it is in the log."""
    async with core.transaction():
        return core.interpreter.turn is not None


def _conversation(core: SessionCore) -> SessionId:
    """The session id that the agent uses in its transcript."""
    return SessionId(core.state.agent_session or core.session)
