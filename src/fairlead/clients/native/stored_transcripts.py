"""REST for the transcripts that programs on the Agent SDK store. The key is in the query: its parts may have any
characters. Pure."""

from typing import Any, Final

import msgspec

from fairlead.clients.native.schemas import Body
from fairlead.model.web.routes import Param, Request, Routes, Steps, json_response
from fairlead.transcripts import api

PATH: Final = "/v1/transcripts/entries"
_KEY: Final = (
    Param("project", str, "The program's name of a project.", required=True),
    Param("session", str, "The session's id.", required=True),
    Param("subpath", str, "A further transcript of the session; omitted for the main one."),
)
routes = Routes()


class AppendBody(Body, frozen=True, kw_only=True):
    """Up to 1000 entries. `summary` replaces the summary; `revision` is the one that the transcript must have."""

    entries: tuple[msgspec.Raw, ...]
    summary: dict[str, Any] | None = None
    revision: int | None = None


def _key(request: Request) -> api.TranscriptKey:
    wanted = (request.query.get(name, "") for name in ("project", "session", "subpath"))
    return api.TranscriptKey(*wanted)


@routes.get(
    "/v1/transcripts",
    "view",
    "transcripts.list",
    answer=api.TranscriptList,
    query=(_KEY[0], Param("session", str, "All transcripts of this session, not the main ones of the project.")),
)
def list_transcripts(request: Request) -> Steps:
    """Your stored transcripts of a project."""
    project, session = (request.query.get(name, "") for name in ("project", "session"))
    return json_response((yield api.ListTranscripts(project=project, session=session)))


@routes.get(
    PATH,
    "view",
    "transcripts.load",
    answer=api.TranscriptEntries,
    query=(*_KEY, Param("after", int, "The position to begin at."), Param("limit", int, "Entries, up to 1000.")),
)
def load(request: Request) -> Steps:
    """The entries of a stored transcript, page by page."""
    after = request.query_int("after", 0, 0, 1 << 53)
    limit = request.query_int("limit", api.BATCH_ENTRIES, 1, api.BATCH_ENTRIES)
    return json_response((yield api.LoadEntries(key=_key(request), after=after, limit=limit)))


@routes.post(PATH, "chat", "transcripts.append", body=AppendBody, answer=api.TranscriptState, query=_KEY)
def append(request: Request) -> Steps:
    """Add entries to a stored transcript, which is created with the first; a repeated `uuid` counts once."""
    body = request.json(AppendBody)
    call = api.AppendEntries(key=_key(request), entries=body.entries, summary=body.summary, revision=body.revision)
    return json_response((yield call))


@routes.delete(PATH, "chat", "transcripts.delete", answer=api.DeletedTranscripts, query=_KEY)
def delete(request: Request) -> Steps:
    """Delete a stored transcript; the main one with all others of its session."""
    return json_response((yield api.DeleteTranscripts(key=_key(request))))
