"""REST for transcripts: previewing a session that was never opened, importing, and the consent to archive."""

from typing import Final

import msgspec

from fairlead.clients.native import schemas as b
from fairlead.clients.native.sessions import PATH, session_of
from fairlead.model import queries as q
from fairlead.model.ids import session_id
from fairlead.model.web.routes import Param, Request, Route, Steps, json_response
from fairlead.sessions.api.transcripts import (
    Announced,
    AnnounceSession,
    ArchiveTranscripts,
    ArchiveView,
    Imported,
    ImportTranscript,
)

_SMALL: Final = 64 << 10


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


def preview(request: Request) -> Steps:
    return json_response((yield q.PreviewTranscript(session_of(request), request.query_int("limit", 100, 1, 1000))))


def import_transcript(request: Request) -> Steps:
    body = request.json(ImportBody)
    return json_response((yield ImportTranscript(body.session, body.path)))


def announce(request: Request) -> Steps:
    body = request.json(SessionStartBody)
    return json_response((yield AnnounceSession(session_id(body.session_id), body.transcript_path)))


def archive_state(request: Request) -> Steps:
    return json_response((yield ArchiveTranscripts()))


def archive(request: Request) -> Steps:
    return json_response((yield ArchiveTranscripts(request.json(ArchiveBody).on)))


ROUTES: Final = (
    Route(
        method="GET",
        path=f"{PATH}/glance",
        access="view",
        name="sessions.glance",
        handle=preview,
        about="The end of the session's own file, without opening it: quick, however long it is.",
        query=(Param("limit", int, "Rows of the file, up to 1000."),),
        answer=q.TranscriptPreview,
    ),
    Route(
        method="POST",
        path="/v1/transcripts/import",
        access="admin",
        name="transcripts.import",
        handle=import_transcript,
        about="Read a session's own file into its log, damage and all; repeated, it adds what is new.",
        body=ImportBody,
        answer=Imported,
        body_limit=_SMALL,
    ),
    Route(
        method="POST",
        path="/v1/hooks/session-start",
        access="chat",
        name="hooks.session-start",
        handle=announce,
        about="A CLI that was started by hand tells of its session (`fairlead hook --print-settings`).",
        body=SessionStartBody,
        answer=Announced,
        body_limit=_SMALL,
    ),
    Route(
        method="GET",
        path="/v1/transcripts/archive",
        access="admin",
        name="transcripts.archive",
        handle=archive_state,
        about="Whether sessions are copied into the gateway's own store before the agent deletes them.",
        answer=ArchiveView,
    ),
    Route(
        method="PUT",
        path="/v1/transcripts/archive",
        access="admin",
        name="transcripts.archive.set",
        handle=archive,
        about="Agree to that, or no longer.",
        body=ArchiveBody,
        answer=ArchiveView,
        body_limit=_SMALL,
    ),
)
