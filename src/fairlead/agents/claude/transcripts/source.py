"""Claude's transcripts as a source for the core: combines index, watcher and reader. Implements
`model.transcripts.Transcripts`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from fairlead.agents.claude.transcripts import index
from fairlead.agents.claude.transcripts import reader as reading
from fairlead.agents.claude.transcripts.file_reader import changed_at, last_rows
from fairlead.agents.claude.transcripts.legacy_subagents import LegacySubagents
from fairlead.agents.claude.transcripts.mirror import WireTranscriptMatcher
from fairlead.agents.claude.transcripts.paths import find_transcript
from fairlead.agents.claude.transcripts.watcher import watch
from fairlead.agents.links.framing import OversizeSpill
from fairlead.model.agents import Record
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId
from fairlead.model.transcripts import FileMark, FoundTranscript, Shared, TranscriptGone, TranscriptProblem
from fairlead.system.clock import Clock
from fairlead.system.spill import SpillFiles, discard


def default_homes(env: Mapping[str, str], agents_home: str) -> list[Path]:
    """The folders where Claude Code keeps its files: for the agents that we start, and for a person on this machine."""
    home = env.get("HOME", "/")
    folders = [os.path.join(agents_home or home, ".claude")]
    if env.get("CLAUDE_CONFIG_DIR"):
        folders.append(env["CLAUDE_CONFIG_DIR"])
    return [Path(folder) for folder in dict.fromkeys(folders)]


def settings_files(env: Mapping[str, str], agents_home: str) -> list[str]:
    """Claude Code's files next to those folders. They hold prompts and keys; copies of them begin with their name."""
    homes = dict.fromkeys(home for home in (agents_home, env.get("HOME", "")) if home)
    return [os.path.join(home, ".claude.json") for home in homes]


class ClaudeTranscripts:
    def __init__(self, homes: Sequence[Path], clock: Clock, spill: str = "") -> None:
        self._homes = tuple(homes)
        self._clock = clock
        self._spill = spill
        self._paths: dict[SessionId, Path] = {}
        """The last written file of each session: copied folders and worktrees give a session several files."""
        self._legacy = LegacySubagents()

    @property
    def agent(self) -> str:
        return "claude"

    @property
    def folders(self) -> list[str]:
        return [str(folder) for folder in index.projects(self._homes)]

    async def scan(
        self, known: Mapping[str, FileMark]
    ) -> AsyncIterator[Sequence[FoundTranscript | TranscriptGone | TranscriptProblem]]:
        """Scan folder by folder, each in a thread, so that the event loop stays free."""
        paths: dict[SessionId, Path] = {}
        for root in index.projects(self._homes):
            for folder in await asyncio.to_thread(lambda root: list(index.list_entries(root, folders=True)), root):
                if isinstance(folder, TranscriptProblem):
                    yield [folder]
                    continue
                files, summaries = await asyncio.to_thread(index.scan_folder, folder, known)
                older = await asyncio.to_thread(_latest, paths, files)
                fresh = [
                    item for item in summaries if not isinstance(item, FoundTranscript) or item.session not in older
                ]
                if fresh:
                    yield fresh
        self._paths = paths
        gone = [TranscriptGone(SessionId(session)) for session in known if session not in paths]
        if gone:
            yield gone

    def changes(self) -> AsyncIterator[frozenset[SessionId]]:
        return watch(self._homes, self._clock, self._legacy, self._written)

    def _written(self, session: SessionId, path: Path) -> None:
        self._paths[session] = path

    async def look(self, session: SessionId) -> FoundTranscript | None:
        path = await self._find(session)
        found = None if path is None else await asyncio.to_thread(index.summarize_file, path, session)
        return found if isinstance(found, FoundTranscript) else None

    async def discard(self, session: SessionId) -> None:
        if self._spill:
            await asyncio.to_thread(discard, Path(self._spill), session)

    async def examine(self, path: str) -> FoundTranscript | TranscriptProblem:
        return await asyncio.to_thread(index.summarize_file, Path(path))

    async def reader(
        self,
        session: SessionId,
        place: bytes = b"",
        *,
        after: str = "",
        since: str = "",
        path: str = "",
        keep_large: bool = True,
    ) -> reading.SessionReader:
        file = Path(path) if path else await self._get(session)
        spill = partial(self._spill_of, session) if keep_large else lambda: None
        return await asyncio.to_thread(self._reader, session, file, place, after, since, bool(path), spill)

    def _reader(
        self,
        session: SessionId,
        file: Path,
        place: bytes,
        after: str,
        since: str,
        alone: bool,
        spill: Callable[[], OversizeSpill | None],
    ) -> reading.SessionReader:
        self._legacy.files(file.parent, session)  # read here, in the thread, and cached for the event loop
        return reading.SessionReader(
            session,
            file,
            place,
            after,
            since,
            spill,
            where=lambda: None if alone else self._paths.get(session),
            legacy=self._legacy,
        )

    async def shared(self, session: SessionId, records: reading.LogRecords, path: str = "") -> Shared | None:
        file = Path(path) if path else await self._get(session)
        try:
            return await reading.shared(file, records)
        except OSError:
            return None  # the reader will report the error

    def mirror_matcher(self, session: SessionId) -> WireTranscriptMatcher:
        return WireTranscriptMatcher(self._spill_of(session))

    async def last_rows(self, session: SessionId, limit: int) -> Sequence[Record]:
        return await asyncio.to_thread(last_rows, await self._get(session), limit)

    async def _get(self, session: SessionId) -> Path:
        path = await self._find(session)
        if path is None:
            raise NotFound("transcript of session", session)
        return path

    async def _find(self, session: SessionId) -> Path | None:
        known = self._paths.get(session)
        if known is not None and known.exists():
            return known
        found = await asyncio.to_thread(self._search, session)
        if found is None:
            self._paths.pop(session, None)
        else:
            self._paths[session] = found
        return found

    def _search(self, session: SessionId) -> Path | None:
        """Search all project folders: folders are renamed, and versions name them by different rules."""
        return next(filter(None, (find_transcript(home, session) for home in self._homes)), None)

    def _spill_of(self, session: SessionId) -> OversizeSpill | None:
        return SpillFiles(Path(self._spill), session) if self._spill else None


def _latest(paths: dict[SessionId, Path], files: Mapping[SessionId, Path]) -> set[SessionId]:
    """Add the files of a folder to `paths`; return the sessions for which `paths` has a newer file already."""
    older = set()
    for session, path in files.items():
        if session in paths and changed_at(path) <= changed_at(paths[session]):
            older.add(session)
        else:
            paths[session] = path
    return older
