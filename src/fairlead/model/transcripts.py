"""The transcripts port: files in which an agent writes its sessions down, wherever they were started.

A source lists them without copying anything, tells which have changed, and reads one as records from a place on.
The core decides which become logs. A place is opaque here: bytes that the source made and understands again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from fairlead.model.agents import Record
from fairlead.model.ids import SessionId


class FileMark(msgspec.Struct, frozen=True):
    """By what a file that was looked at before is known to be the same still."""

    path: str
    size: int
    mtime_ns: int


class FoundTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """A session file as its head and tail tell it. `useful`: something was said in it; others are not listed.

    Times are milliseconds since 1970; `active` is the last time a person said something. `prompts` and `cost_usd` are
    0 where the two ends do not tell them. `root` names its first row: files that have the same are forks of each other,
    and `parent` is the session that it says it was forked from."""

    session: SessionId
    mark: FileMark
    useful: bool = True
    title: str = ""
    cwd: str = ""
    branch: str = ""
    first_prompt: str = ""
    model: str = ""
    version: str = ""
    created: int = 0
    updated: int = 0
    active: int = 0
    prompts: int = 0
    cost_usd: float = 0.0
    sidechain: bool = False
    root: str = ""
    parent: str = ""


class TranscriptGone(msgspec.Struct, frozen=True):
    """A file that was there is not any more."""

    session: SessionId


class TranscriptProblem(msgspec.Struct, frozen=True):
    """What could not be read as it should be: a kind of damage (see docs/how-to/import.md), where, and how often."""

    kind: str
    path: str
    count: int = 1
    detail: str = ""


class TranscriptPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of a session, in order. `place` is where to go on after them; `read` of `total` bytes are behind it.

    `again`: a file was cut short or replaced and is read from its start: what is in the log already comes again."""

    records: tuple[Record, ...]
    place: bytes
    problems: tuple[TranscriptProblem, ...] = ()
    read: int = 0
    total: int = 0
    again: bool = False


FOREIGN = "another program"


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """A file that begins as another session's log does, up to its `seq`; `place` is where the file goes its own way.

    `between`: what only the file has before that. `goes_on`: the file has more, `they_go_on`: the log has."""

    seq: int
    place: bytes
    between: tuple[Record, ...] = ()
    goes_on: bool = False
    they_go_on: bool = False


class MirroredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that the log keeps for its bytes. `of` names the record of the wire that it is, or else itself (`name`).

    `differs`: uuid, type, order or message.content, if that is not as the wire had it; `FOREIGN` if it is an answer
    that the wire never had."""

    record: Record
    name: str
    kind: str
    subtype: str = ""
    of: str
    differs: str = ""


class MirrorMatcher(Protocol):
    """Tells which rows of a transcript are records that came over the wire. Pure."""

    def told(self, record: Record) -> None:
        """A record of the log, in its order: of the wire, our own, or a row of the transcript."""
        ...

    def row(self, record: Record) -> MirroredRow | None:
        """A row of the transcript, in its order; None for one that is in the log already."""
        ...


class TranscriptReader(Protocol):
    """One session's files (its own and its subagents'), read from a place on, each byte once. Not for two tasks."""

    async def read(self) -> TranscriptPage | None:
        """What comes next; None: nothing more for now. NotFound when the file is gone."""
        ...

    def place(self) -> bytes:
        """Behind what was read."""
        ...

    async def finish(self) -> TranscriptPage | None:
        """What is left at the end of a file that nobody writes to: a last line without its newline."""
        ...

    def close(self) -> None: ...


class Transcripts(Protocol):
    """Where an agent's sessions are written down."""

    @property
    def agent(self) -> str:
        """The kind of agent whose records these are."""
        ...

    @property
    def folders(self) -> Sequence[str]:
        """Where the files lie."""
        ...

    def scan(
        self, known: Mapping[str, FileMark]
    ) -> AsyncIterator[Sequence[FoundTranscript | TranscriptGone | TranscriptProblem]]:
        """Every session file that is new or has changed since `known`, in portions; those that are gone last."""
        ...

    def changes(self) -> AsyncIterator[frozenset[SessionId]]:
        """Sessions whose files have changed, as it happens. The first portion comes when watching has begun."""
        ...

    async def look(self, session: SessionId) -> FoundTranscript | None:
        """The session's file as it is now."""
        ...

    async def reader(
        self, session: SessionId, place: bytes = b"", *, after: str = "", since: str = "", path: str = ""
    ) -> TranscriptReader:
        """From `place` on, and not before the prompt `after` (the file's end, where that is not in it).

        `since`: from that prompt on, and NotFound where it is not there yet. `path`: a file that lies elsewhere.
        NotFound."""
        ...

    async def shared(
        self, session: SessionId, told: AsyncIterator[tuple[int, Record]], path: str = ""
    ) -> Shared | None:
        """How far the session's file repeats another's records, each given with the last seq that it came to."""
        ...

    def copies(self, session: SessionId) -> MirrorMatcher:
        """For the rows of a session whose agent runs here."""
        ...

    async def discard(self, session: SessionId) -> None:
        """A session is deleted: so are the large pieces of it that were put into files."""
        ...

    async def examine(self, path: str) -> FoundTranscript | TranscriptProblem:
        """A file that somebody named."""
        ...

    async def glance(self, session: SessionId, limit: int) -> Sequence[Record]:
        """The last rows, whatever the size of the file."""
        ...
