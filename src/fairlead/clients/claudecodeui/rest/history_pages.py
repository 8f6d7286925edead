"""GET messages: a page of history, counted from its end. Pure."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.clients.claudecodeui.chat.frames import context_tokens, token_budget
from fairlead.clients.claudecodeui.chat.history import NAME, HistoryReducer, read_memory
from fairlead.clients.claudecodeui.rest.responses import not_found, query_number, refused
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.ids import SessionId, is_uuid
from fairlead.model.store import Entry
from fairlead.model.views import NewRow, ReplaceRow
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps

MOST: Final = 32 << 20
"""Maximum bytes of one answer: a request for all of a long history gets its last part, with `hasMore` set."""
STRIDE: Final = 500
PREVIEW_ROWS: Final = 100
"""Minimum number of a file's rows that are read for a page; not every row is a message."""
NAMES: Final = re.compile(r"[a-zA-Z0-9._-]{1,120}")

ROUTES: Final = Routes("claudecodeui.")


@ROUTES.get("/api/providers/sessions/{session}/messages", "view", "messages")
def messages(request: Request) -> Steps:
    name = request.params["session"]
    if NAMES.fullmatch(name) is None:
        return refused(400, "INVALID_SESSION_ID", "A session's id has 1 to 120 letters, digits and ._-")
    if not is_uuid(name.lower()):
        return not_found(name)
    session = SessionId(name.lower())
    limit, offset = query_number(request, "limit"), query_number(request, "offset") or 0
    try:
        # A session opens before its long transcript is fully read; reading starts at the file's beginning.
        if limit and not offset and not (yield q.WaitLoaded(session, wait=False)):
            preview = yield from do(q.PreviewTranscript(session, max(PREVIEW_ROWS, 4 * limit)))
            rows = last_rows(session, preview)
            if len(rows) >= limit:
                tokens = last_context_tokens(preview)
                return _page(rows[-limit:], len(rows) + 1, more=True, offset=0, limit=limit, tokens=tokens)
        yield q.WaitLoaded(session)
        head = yield from do(q.ReadRows(session, NAME, limit=1))
        total = head.head
        end = max(total - offset, 0)
        wanted = end if limit is None else min(limit, end)
        found: list[bytes] = []
        size = 0
        while wanted and size < MOST:
            page = yield from do(q.ReadRows(session, NAME, before=end + 1, limit=min(wanted, STRIDE)))
            if not page.rows:
                break
            found[:0] = [row.data for row in page.rows]
            size += sum(len(row.data) for row in page.rows)
            wanted -= len(page.rows)
            end = page.rows[0].ordinal - 1
        # The app takes the context size from the newest page, and takes a missing value for zero.
        tokens = None if offset else read_memory((yield q.ReadProjection(session, NAME))).tokens
    except NotFound:
        return not_found(name)
    return _page(found, total, more=end > 0, offset=offset, limit=limit, tokens=tokens)


def last_rows(session: SessionId, page: q.TranscriptPreview) -> list[bytes]:
    """The end of a session's file as rows; a result whose call lies before that part has no row."""
    fold, table = HistoryReducer(session), dict[str, bytes]()
    for number, line in enumerate(page.events, 1):
        event = ev.decode(line)
        for made in fold.step(Entry(number, number - 1, event.at, ev.kind_of(event), bytes(line))):
            if isinstance(made, NewRow | ReplaceRow):
                table[made.key] = made.data
    return list(table.values())


def last_context_tokens(page: q.TranscriptPreview) -> ev.TokenCount | None:
    """The size of the context at the end of a session's file."""
    for line in reversed(page.events):
        event = ev.decode(line)
        if isinstance(event, ev.Text | ev.Thinking | ev.ToolCalled) and (tokens := context_tokens(event)):
            return tokens
    return None


def _page(
    rows: Sequence[bytes], total: int, *, more: bool, offset: int, limit: int | None, tokens: ev.TokenCount | None
) -> Response:
    place = (total, b"true" if more else b"false", offset, b"null" if limit is None else b"%d" % limit)
    fields = b'"total":%d,"hasMore":%s,"offset":%d,"limit":%s' % place
    usage = b',"tokenUsage":%s' % msgspec.json.encode(token_budget(tokens)) if tokens else b""
    return Response(body=b'{"messages":[%s],%s%s}' % (b",".join(rows), fields, usage))
