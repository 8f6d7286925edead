"""Detects files that begin like another session: their logs refer to the other's beginning instead of copying it.

The session that is opened first holds the shared part, be it the parent or the fork: files come in any order. The
parent is determined separately: by the file's own statement, or by which of the two continues after the shared part.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import Record
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId, is_uuid
from fairlead.model.store import TRANSCRIPT, Store, Summary
from fairlead.model.transcripts import FoundTranscript, Shared, Transcripts
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.loading import is_copy
from fairlead.sessions.paging import entries_after

ROOTS: Final = "transcript-roots"
"""The document that names each session's first row; a session whose file is gone stays in it while it has a log."""
MOST_COMPARED: Final = 8
"""How many sessions of a fork family are compared, the most recent first: the last fork shares most with the next."""

_OWN: Final = ("session.", "agent.", "message.", "handover.", "permission.", "mode.", "model.", "interrupt.", "rewound")
"""Kinds of events that belong to one session only; a fork does not repeat them."""


class ForkBranch(msgspec.Struct, frozen=True):
    """`holder` has the shared beginning in its log; `parent` is the session that this one was forked from, if any."""

    holder: SessionId
    shared: Shared
    parent: SessionId | None


class ForkDetector:
    def __init__(self, services: CoreDependencies, source: Transcripts) -> None:
        self._services = services
        self._source = source
        self._roots: dict[str, str] = {}
        self._families: dict[str, set[SessionId]] = {}

    # --- families: files with the same first row

    async def load(self) -> bool:
        """Load the stored roots. False if nothing was stored yet, so that every file must be read."""
        kept = await self._services.store.here.get(ROOTS, ROOTS)
        for session, root in msgspec.convert(kept or {}, dict[str, str]).items():
            self._put(SessionId(session), root)
        return kept is not None

    async def keep(self) -> None:
        await self._services.store.here.put(ROOTS, ROOTS, self._roots)

    def note(self, found: Sequence[FoundTranscript]) -> None:
        for item in found:
            if item.root:
                self._put(item.session, item.root)

    async def gone(self, session: SessionId) -> None:
        """Forget a session whose file is gone. One with a log stays: it can still hold the beginning of a fork."""
        if await self._services.store.session_of(session) is None:
            root = self._roots.pop(session, "")
            self._families.get(root, set()).discard(session)

    def _put(self, session: SessionId, root: str) -> None:
        self._families.get(self._roots.get(session, ""), set()).discard(session)
        self._roots[session] = root
        self._families.setdefault(root, set()).add(session)

    def family(self, found: FoundTranscript) -> set[SessionId]:
        """The other sessions whose file begins with the same row."""
        return self._families.get(found.root, set()) - {found.session}

    # --- what is shared

    async def find(self, found: FoundTranscript, path: str = "") -> ForkBranch | None:
        """The log that shares the longest beginning with a file; None if no log shares any."""
        best: tuple[Summary, Shared] | None = None
        for holder in await self._holders(found):
            shared = await self._source.shared(found.session, log_records(self._services.store, holder.session), path)
            if shared is not None and (best is None or shared.seq > best[1].seq):
                best = (holder, shared)
        if best is None:
            return None
        holder, shared = best
        return ForkBranch(holder.session, shared, await self._parent(found, holder, shared))

    async def _holders(self, found: FoundTranscript) -> list[Summary]:
        store, holders = self._services.store, []
        for name in self.family(found):
            session = await store.session_of(name)
            summary = None if session is None else await store.summary(session)
            if summary is not None and not summary.deleted and summary.state != TRANSCRIPT:
                holders.append(summary)
        latest = sorted(holders, key=lambda summary: summary.updated, reverse=True)
        return [summary for summary in latest if summary.agent == self._source.agent][:MOST_COMPARED]

    async def _parent(self, found: FoundTranscript, holder: Summary, shared: Shared) -> SessionId | None:
        named = await self.parent_of(found)
        if named is not None:
            return named
        if holder.parent == found.session or (shared.they_go_on and not shared.goes_on):
            return None
        return holder.session

    async def parent_of(self, found: FoundTranscript) -> SessionId | None:
        """The session that the file names as its parent."""
        if not is_uuid(found.parent) or found.parent == found.session:
            return None
        return await self._services.store.session_of(found.parent) or SessionId(found.parent)


async def log_records(store: Store, session: SessionId) -> AsyncIterator[tuple[int, Record]]:
    """The records of a log, each with the last seq of its events, without the session's own kinds of events."""
    end, open_ = 0, False
    record: Record | None = None
    try:
        async for entry in entries_after(store, session):
            copy = entry.kind == "record" and is_copy(ev.decode(entry.event))
            if entry.raw is not None and entry.origin and not copy and entry.kind != "interrupt.asked":
                if record is not None:
                    yield end, record
                record, end, open_ = Record(entry.raw, entry.origin), entry.seq, True
            elif open_ and not entry.kind.startswith(_OWN):
                end = entry.seq
            else:
                open_ = False
    except NotFound:
        return
    if record is not None:
        yield end, record
