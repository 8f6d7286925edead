"""The transcripts port: files in which an agent stores its sessions, wherever they were started.

A source lists them without copying anything, reports changes, and reads a file as records from a given position. The
core decides which become logs. A position (`place`) is opaque here: bytes that only the source encodes and decodes.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from fairlead.model.agents import Record
from fairlead.model.ids import SessionId


class FileMark(msgspec.Struct, frozen=True):
    """The fingerprint by which an unchanged file is recognised."""

    path: str
    size: int
    mtime_ns: int


class FoundTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of a session file from its head and tail. `useful`: it contains messages; other files are not listed.

    Times are milliseconds since 1970; `active` is the time of the last message of a person. `prompts` and `cost_usd`
    are 0 if head and tail do not contain them. `root` names its first row: files with the same root are forks of each
    other, and `parent` is the session from which it was forked, according to the file."""

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
    """A file that was listed no longer exists."""

    session: SessionId


class TranscriptProblem(msgspec.Struct, frozen=True):
    """Damage in a transcript: its kind (see docs/how-to/import.md), the file, and the number of occurrences."""

    kind: str
    path: str
    count: int = 1
    detail: str = ""


class TranscriptPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of a session, in order. `place` is the position after them; `read` of `total` bytes are before it.

    `again`: a file was truncated or replaced and is read from its start, so rows that are in the log come again."""

    records: tuple[Record, ...]
    place: bytes
    problems: tuple[TranscriptProblem, ...] = ()
    read: int = 0
    total: int = 0
    again: bool = False


FOREIGN = "another program"


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """A file that begins like another session's log, up to `seq` of that log; `place` is the position in the file where
    they differ.

    `between`: records before that position that only the file has. `goes_on`: the file has more records after it,
    `they_go_on`: the log has."""

    seq: int
    place: bytes
    between: tuple[Record, ...] = ()
    goes_on: bool = False
    they_go_on: bool = False


class MirroredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that the log stores for its bytes. `of` names the wire record that it repeats, or else itself (`name`).

    `differs`: uuid, type, order or message.content, if that differs from the wire; `FOREIGN` if it is an answer that
    never came over the wire."""

    record: Record
    name: str
    kind: str
    subtype: str = ""
    of: str
    differs: str = ""


class MirrorMatcher(Protocol):
    """Matches rows of a transcript with the records that came over the wire. Pure."""

    def add_record(self, record: Record) -> None:
        """Take a record of the log, in log order: from the wire, our own, or a row of the transcript."""

    def match_row(self, record: Record) -> MirroredRow | None:
        """Match a row of the transcript, in file order; None for a row that is in the log already."""


class TranscriptReader(Protocol):
    """Reads one session's files (its own and its subagents') from a position on, each byte once. Not for two tasks."""

    async def read(self) -> TranscriptPage | None:
        """The next page; None: nothing more for now. NotFound when the file is gone."""

    def place(self) -> bytes:
        """The position after the last row that was read."""

    async def finish(self) -> TranscriptPage | None:
        """The rest of a file that is no longer written to: a last line without its newline."""

    def close(self) -> None: ...


class Transcripts(Protocol):
    """The source of an agent's transcripts."""

    @property
    def agent(self) -> str:
        """The kind of agent whose records these are."""

    @property
    def folders(self) -> Sequence[str]:
        """The folders of the files."""

    def scan(
        self, known: Mapping[str, FileMark]
    ) -> AsyncIterator[Sequence[FoundTranscript | TranscriptGone | TranscriptProblem]]:
        """All session files that are new or changed since `known`, in batches; deleted files come last."""

    def changes(self) -> AsyncIterator[frozenset[SessionId]]:
        """Sessions whose files changed, as it happens. The first batch comes when the file watch has started."""

    async def look(self, session: SessionId) -> FoundTranscript | None:
        """The current summary of the session's file."""

    async def reader(
        self,
        session: SessionId,
        place: bytes = b"",
        *,
        after: str = "",
        since: str = "",
        path: str = "",
        keep_large: bool = True,
    ) -> TranscriptReader:
        """Open a reader at `place`, and not before the prompt `after` (at the file's end, if it has no such prompt).

        `since`: start at that prompt; NotFound if the file does not have it yet. `path`: a file in another place.
        `keep_large` false: lines above the limit are not copied, only their beginning is read. NotFound."""

    async def shared(
        self, session: SessionId, records: AsyncIterator[tuple[int, Record]], path: str = ""
    ) -> Shared | None:
        """Compare the session's file with the `records` of another log, each with its last seq; None: nothing is
        shared."""

    def mirror_matcher(self, session: SessionId) -> MirrorMatcher:
        """A matcher for the rows of a session whose agent runs here."""

    async def discard(self, session: SessionId) -> None:
        """Delete the large pieces of a deleted session that were stored in files."""

    async def examine(self, path: str) -> FoundTranscript | TranscriptProblem:
        """Summarise a file at a given path."""

    async def last_rows(self, session: SessionId, limit: int) -> Sequence[Record]:
        """The last rows; the cost does not depend on the size of the file."""


class IndexedEvent(msgspec.Struct, frozen=True):
    """An encoded event of a transcript, for the search index."""

    at: int
    kind: str
    event: bytes


class TextHit(msgspec.Struct, frozen=True):
    """A text found in a transcript; `snippet` has the words between `\\x02` and `\\x03`."""

    session: SessionId
    at: int
    kind: str
    snippet: str


class TranscriptTexts(Protocol):
    """The search index of transcripts that have no log yet. It can be made again from the files at any time."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of events that have searchable text."""

    async def marks(self) -> dict[SessionId, FileMark | None]:
        """The sessions in the index, each with the mark of its file as of the last time that all of it was indexed."""

    async def place(self, session: SessionId) -> bytes:
        """The position up to which the session's files are indexed; empty if nothing is."""

    async def add(
        self, session: SessionId, events: Sequence[IndexedEvent], place: bytes, mark: FileMark | None = None
    ) -> None:
        """Store the texts of these events together with the position after them. `mark`: all of the file is indexed
        now."""

    async def remove(self, session: SessionId) -> None: ...

    async def size(self) -> int:
        """The bytes that the index takes on the disk."""

    async def search(
        self, words: str, limit: int, skip: int = 0, session: SessionId | None = None
    ) -> Sequence[TextHit]:
        """Texts with every word, best first; the last word may be a prefix. Whether a person may see a hit is for the
        caller to check."""
