"""Transcripts that a person imports, archives or announces."""

import msgspec

from fairlead.model.transcripts import TranscriptProblem
from fairlead.model.web.requests import ServiceCall


class ImportTranscript(ServiceCall["Imported"], frozen=True):
    """-> `Imported`. `session`: the id of a listed session. `path`: a file anywhere inside the homes or the roots."""

    session: str = ""
    path: str = ""


class ArchiveTranscripts(ServiceCall["ArchiveView"], frozen=True):
    """-> `ArchiveView`. `on`: copy sessions into our own store before the agent deletes them; None only reads."""

    on: bool | None = None


class AnnounceSession(ServiceCall["Announced"], frozen=True):
    """-> `Announced`. Sent by an agent that a person started: its session and file, inside the agent's own homes."""

    session: str
    path: str


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """`listed`: it already contains messages. Else it will be listed when its file appears."""

    session: str
    listed: bool


class DamageView(TranscriptProblem, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of damage, the file, and the number of occurrences."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import. `events` is the number of new events in the log: 0 if all were there before."""

    session: str
    title: str = ""
    events: int = 0
    bytes: int = 0
    problems: tuple[DamageView, ...] = ()


class ArchiveView(msgspec.Struct, frozen=True, kw_only=True):
    """`on` null: not decided yet. Number of archived sessions, and the bytes of their files: at most `limit`; the
    oldest are deleted first."""

    on: bool | None = None
    sessions: int = 0
    bytes: int = 0
    limit: int = 0
