"""A core with a Claude home: real store, files and inotify; the clock advances only on command."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from agents.claude_transcripts.transcript_files import SESSION as WRITTEN
from agents.claude_transcripts.transcript_files import Home
from fairlead.agents.claude.transcripts.source import ClaudeTranscripts
from fairlead.model import events as ev
from fairlead.model.ids import SessionId
from fairlead.model.queries import EventPage, GetSession, ListSessions, ReadMessages, SessionView
from fairlead.model.store import SessionFilter, SessionPage, Summary
from fairlead.model.web.session_changes import What
from fairlead.sessions.gateway import SessionGateway
from fairlead.sessions.registry import Registry
from fairlead.sessions.transcripts.archive import TranscriptArchive
from fairlead.sessions.transcripts.importer import TranscriptImporter
from fairlead.sessions.transcripts.text_index import TranscriptTextIndex
from fairlead.stores.transcript_texts import SqliteTranscriptTexts
from sessions.harness import ANN, CoreHarness

FOUND = SessionId(WRITTEN)


class TranscriptHarness(CoreHarness):
    """`watch=False`: files are read only when a test asks for it. `texts`: with the search index of files."""

    texts: SqliteTranscriptTexts
    index: TranscriptTextIndex

    def __init__(
        self, folder: Path, *, watch: bool = True, archive: bool = False, texts: bool = False, **policy: Any
    ) -> None:
        super().__init__(folder, **policy)
        self.kind.name = "claude"
        self.home = Home(folder)
        self.importer: TranscriptImporter
        self.archiver: TranscriptArchive
        self.watch = watch
        self.archive = archive
        self.archive_bytes = 1 << 30
        self.with_texts = texts
        self.index_bytes = 1 << 30

    async def start(self, *, kill_children: bool = False) -> "TranscriptHarness":
        await super().start(kill_children=kill_children)
        # Replace the harness's registry by one with a real source of transcripts and the agent's real name.
        await self.registry.stop()
        source = ClaudeTranscripts([self.home.folder], self.clock, str(self.folder / "data" / "oversize"))
        if self.with_texts:
            self.texts = await SqliteTranscriptTexts.open(self.folder / "data")
        self.services = msgspec.structs.replace(
            self.services,
            transcript_texts=self.texts if self.with_texts else None,
            limits=msgspec.structs.replace(self.services.limits, transcript_index_bytes=self.index_bytes),
            on_change=self._changed,
            kinds={"claude": self.kind},
            default_agent="claude",
            transcripts=source,
            agent_ended=lambda session: self.importer.agent_ended(session),
            turn_ended=lambda session: self.importer.turn_ended(session),
        )
        self.registry = Registry(self.services)
        self.gateway = SessionGateway(self.services, self.registry)
        self.importer = self.registry.opener = TranscriptImporter(self.services, source, self.registry)
        self.archiver = TranscriptArchive(self.services, self.importer, on=self.archive, limit=self.archive_bytes)
        if self.importer.text_index is not None:
            self.index = self.importer.text_index
        await self.registry.start(kill_children=kill_children)
        if self.watch:
            self.importer.start()
            self.archiver.start()
            await self.importer.watching.wait()
        return self

    def _changed(self, session: SessionId, what: What) -> None:
        if what == "deleted":
            self.importer.forget_texts(session)

    async def stop(self) -> None:
        await self._stop_importer()
        await super().stop()

    async def crash(self) -> None:
        await self._stop_importer()
        await super().crash()

    async def _stop_importer(self) -> None:
        await self.importer.stop()
        if self.with_texts:
            await self.texts.close()

    # --- shortcuts

    async def listed(self, **wanted: Any) -> Sequence[Summary]:
        page: SessionPage = await self.gateway.ask(ANN, ListSessions(SessionFilter(**wanted)))
        return page.sessions

    async def view(self, session: SessionId = FOUND) -> SessionView:
        view: SessionView = await self.gateway.ask(ANN, GetSession(session))
        return view

    async def messages(self, session: SessionId = FOUND) -> list[str]:
        """The messages of the conversation, as history shows them."""
        page: EventPage = await self.gateway.ask(ANN, ReadMessages(session, None, 1000))
        words = []
        for line in page.events:
            event = ev.decode(bytes(line))
            if isinstance(event, ev.Text):
                words.append(event.text)
            elif isinstance(event, ev.UserMessage):
                words.append("> " + "".join(getattr(block, "text", "") for block in event.content))
        return words
