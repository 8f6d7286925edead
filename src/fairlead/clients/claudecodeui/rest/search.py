"""Search over all sessions: titles first, then messages by project, as a short stream of server-sent events. Pure.

A browser cannot set a header when it reads such a stream, so the token may be in the query.
"""

import re
from typing import Final

import msgspec

from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER, Fields, project_fields
from fairlead.clients.claudecodeui.rest.responses import bounds, refused
from fairlead.clients.claudecodeui.rest.sessions import session_json
from fairlead.model import queries as q
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId
from fairlead.model.store import SearchHit, SessionFilter, Summary
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps

LIMIT: Final = 50
MOST: Final = 100
_MARK: Final = re.compile("\x02(.*?)\x03", re.DOTALL)

ROUTES: Final = Routes("claudecodeui.")


@ROUTES.get("/api/providers/search/sessions", "view", "search", token_query="token", query_first=True)
def search(request: Request) -> Steps:
    words = request.query.get("q", "").strip()
    if not words:
        return refused(400, "QUERY_REQUIRED", "q must have the words to search for.")
    limit, _ = bounds(request, LIMIT, MOST)
    titles = yield from do(q.ListSessions(SessionFilter(words=words, limit=limit)))
    result = yield from do(q.SearchText(words, limit=limit))
    found: dict[str, dict[SessionId, list[SearchHit]]] = {}
    summaries = {one.session: one for one in result.sessions if one.cwd and not one.archived}
    for hit in result.hits:
        summary = summaries.get(hit.session)
        if summary is None:
            continue
        found.setdefault(summary.cwd, {}).setdefault(hit.session, []).append(hit)
    events = [_event("title-results", {"titleResults": [session_json(one) for one in titles.sessions]})]
    matches = 0
    for number, (path, sessions) in enumerate(found.items(), 1):
        matches += sum(map(len, sessions.values()))
        shown = {**_project(path), "sessions": [_session(summaries[one], own) for one, own in sessions.items()]}
        progress = {"totalMatches": matches, "scannedProjects": number, "totalProjects": len(found)}
        events.append(_event("result", {"projectResult": shown, **progress}))
    events.append(_event("done", {"totalMatches": matches, "notSearched": result.not_searched}))
    return Response(body=b"".join(events), content_type="text/event-stream")


def _project(path: str) -> Fields:
    own = project_fields(path)
    return {"projectId": own["projectId"], "projectName": path, "projectDisplayName": own["displayName"]}


def _session(summary: Summary, hits: list[SearchHit]) -> Fields:
    title = session_json(summary)["summary"]
    matches = [_match(hit) for hit in hits]
    return {"sessionId": summary.session, "provider": PROVIDER, "sessionSummary": title, "matches": matches}


def _match(hit: SearchHit) -> Fields:
    text, highlights = highlighted(hit.snippet)
    role = "user" if hit.kind == "user.message" else "assistant"
    fields = {"role": role, "snippet": text, "highlights": highlights}
    return {**fields, "timestamp": iso_timestamp(hit.at), "provider": PROVIDER}


def highlighted(snippet: str) -> tuple[str, list[dict[str, int]]]:
    """The snippet without its marks, and their positions in UTF-16 code units, as JavaScript counts."""
    text, found = "", []
    for number, piece in enumerate(_MARK.split(snippet)):
        start = _length(text)
        text += piece.replace("\x02", "").replace("\x03", "")
        if number % 2:
            found.append({"start": start, "end": _length(text)})
    return text, found


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _event(name: str, data: Fields) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
