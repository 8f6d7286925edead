"""REST for transcripts: previewing a session that was never opened, importing, and the consent to archive."""

from typing import Final

import msgspec

from fairlead.clients.native import schemas as b
from fairlead.clients.native.sessions import PATH
from fairlead.model import queries as q
from fairlead.model.ids import session_id
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response
from fairlead.sessions.api.transcripts import (
    Announced,
    AnnounceSession,
    ArchiveTranscripts,
    ArchiveView,
    Imported,
    ImportTranscript,
)

_SMALL: Final = 64 << 10
routes = Routes(body_limit=_SMALL)


class ImportBody(b.Body, frozen=True, kw_only=True):
    """Either `session`, a listed session, or `path`, a file on the gateway's machine."""

    session: str = ""
    path: str = ""


class SessionStartBody(msgspec.Struct, frozen=True, kw_only=True):
    """A SessionStart hook's input as the agent wrote it; other fields are ignored."""

    session_id: str
    transcript_path: str


class ArchiveBody(b.Body, frozen=True, kw_only=True):
    on: bool


@routes.get(
    f"{PATH}/glance",
    "view",
    "sessions.glance",
    answer=q.TranscriptPreview,
    query=(Param("limit", int, "Rows of the file, up to 1000."),),
)
def preview(request: Request) -> Steps:
    """The end of the session's transcript. The session is not opened, so this is quick for any length."""
    return json_response((yield q.PreviewTranscript(request.session, request.query_int("limit", 100, 1, 1000))))


@routes.post("/v1/transcripts/import", "admin", "transcripts.import", body=ImportBody, answer=Imported)
def import_transcript(request: Request) -> Steps:
    """Read a session's transcript into its log, damaged rows included. Repeated, it adds what is new."""
    body = request.json(ImportBody)
    return json_response((yield ImportTranscript(body.session, body.path)))


@routes.post("/v1/hooks/session-start", "chat", "hooks.session-start", body=SessionStartBody, answer=Announced)
def announce(request: Request) -> Steps:
    """Announce the session of a CLI that a person started (`fairlead hook --print-settings`)."""
    body = request.json(SessionStartBody)
    return json_response((yield AnnounceSession(session_id(body.session_id), body.transcript_path)))


@routes.get("/v1/transcripts/archive", "admin", "transcripts.archive", answer=ArchiveView)
def archive_state(request: Request) -> Steps:
    """Whether sessions are copied into the gateway's own store before the agent deletes them."""
    return json_response((yield ArchiveTranscripts()))


@routes.put("/v1/transcripts/archive", "admin", "transcripts.archive.set", body=ArchiveBody, answer=ArchiveView)
def archive(request: Request) -> Steps:
    """Enable or disable these copies."""
    return json_response((yield ArchiveTranscripts(request.json(ArchiveBody).on)))
