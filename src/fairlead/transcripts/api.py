"""Requests and answers for stored transcripts. Pure.

A transcript is a list of JSON objects under a key that its program chooses. The gateway does not interpret them. Each
user has transcripts of their own.
"""

from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import ServiceCall

KEY_CHARACTERS: Final = 500
"""Limit of each part of a key."""
BATCH_ENTRIES: Final = 1000
"""Entries in one request, and on one page."""
PAGE_BYTES: Final = 4 << 20
"""A page ends with the entry that exceeds this."""
SUMMARY_BYTES: Final = 64 << 10
USER_TRANSCRIPTS: Final = 20_000
USER_BYTES: Final = 2 << 30
"""Limits per user. Nothing is deleted to make room: the program decides what it no longer needs."""


class TranscriptKey(msgspec.Struct, frozen=True):
    """`subpath` is empty for the main transcript of a session."""

    project: str
    session: str
    subpath: str = ""

    def __post_init__(self) -> None:
        if not self.project or not self.session:
            raise BadRequest("A transcript has a project and a session.")
        if max(map(len, (self.project, self.session, self.subpath))) > KEY_CHARACTERS:
            raise BadRequest(f"The parts of a transcript's key have at most {KEY_CHARACTERS} characters.")


class TranscriptState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored transcript. `at`: the time of its last change in milliseconds since 1970. `revision` grows with every
    change. `summary`: the program's own summary of a main transcript."""

    session: str
    subpath: str = ""
    at: int
    entries: int
    bytes: int
    revision: int
    summary: dict[str, Any] | None = None


class TranscriptList(msgspec.Struct, frozen=True):
    transcripts: tuple[TranscriptState, ...]


class TranscriptEntries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of entries in the order of their arrival. `next`: the position of the next page, if any."""

    entries: tuple[msgspec.Raw, ...]
    next: int | None = None


class DeletedTranscripts(msgspec.Struct, frozen=True):
    deleted: int


class AppendEntries(ServiceCall[TranscriptState], frozen=True, kw_only=True):
    """-> `TranscriptState`. An entry whose `uuid` the transcript has already is left out. With `revision`, Stale unless
    the transcript has that revision (0: there is none yet); `summary` replaces the stored one. BadRequest, TooLarge,
    TooMany, Stale, Unavailable"""

    key: TranscriptKey
    entries: tuple[msgspec.Raw, ...]
    summary: dict[str, Any] | None = None
    revision: int | None = None


class LoadEntries(ServiceCall[TranscriptEntries], frozen=True, kw_only=True):
    """-> `TranscriptEntries` from a position on. NotFound, Unavailable"""

    key: TranscriptKey
    after: int = 0
    limit: int = BATCH_ENTRIES


class ListTranscripts(ServiceCall[TranscriptList], frozen=True, kw_only=True):
    """-> `TranscriptList`: the main transcripts of a project, or all transcripts of one of its sessions. Unavailable"""

    project: str
    session: str = ""


class DeleteTranscripts(ServiceCall[DeletedTranscripts], frozen=True, kw_only=True):
    """-> `DeletedTranscripts`. A main transcript is deleted with all others of its session. Unavailable"""

    key: TranscriptKey
