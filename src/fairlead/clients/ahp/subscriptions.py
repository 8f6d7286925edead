"""One socket's subscriptions to sessions and chats. Pure.

A session and its chat are read by one subscription to the log. Its encoder says from which entry on each channel is
sent, so that a snapshot and the actions after it fit together without a gap and without a repeat:

1. The channel's actions begin to be sent, if the log is subscribed already.
2. The snapshot is read; it has all entries up to its own seq, which is not before 1.
3. From now on the channel gets only actions after that seq. A client drops the ones of 1 that the snapshot has.
"""

from collections.abc import Generator
from typing import Any, Final

import msgspec

from fairlead.clients.ahp.channels import chat_uri, session_uri
from fairlead.clients.ahp.encoder import AhpEncoder
from fairlead.clients.ahp.session_config import session_schema
from fairlead.clients.ahp.session_list import removed_frame
from fairlead.clients.ahp.snapshots import (
    NAME,
    AhpMemory,
    chat_snapshot,
    read_memory,
    session_snapshot,
    snapshot,
)
from fairlead.clients.ahp.wire import Fields
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.queries import ReadProjection, ReadRows, WaitLoaded
from fairlead.model.store import ProjectionRow
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, Subscribe, Unsubscribe, Write
from fairlead.sessions.api.folders import ReadSessionChoices

Steps = Generator[Any, Any, Any]

TURNS: Final = 500
TURN_BYTES: Final = 8 << 20
"""Finished turns in a snapshot, and their bytes; the client loads the earlier ones when it wants them."""
PAGE_TURNS: Final = 50
"""Finished turns of one `fetchTurns`."""
ACTIVE_CLIENTS: Final = 100
ACTIVE_CLIENT_BYTES: Final = 256 << 10
"""Sessions for which a socket's own entry as an active client is remembered, and the size of an entry."""


class Subscriptions:
    """`_encoders`: for each session that is read, what its channels receive. `_active`: this client's own entries in
    `activeClients`; they are shown to itself, and offered to no agent."""

    def __init__(self) -> None:
        self._encoders: dict[SessionId, AhpEncoder] = {}
        self._active: dict[SessionId, Fields] = {}

    def subscribe(self, session: SessionId, *, chat: bool) -> Steps:
        """Subscribe to a channel of a session; return its snapshot."""
        yield WaitLoaded(session)
        before = self._encoders.get(session)
        if before is not None:
            yield self._continue(session, before, chat, 0)
        memory = read_memory((yield ReadProjection(session, NAME)))
        if memory.session != session:
            raise NotFound("session", session)
        state = yield from self._state(memory, chat=chat)
        encoder = _with(before or AhpEncoder(), chat, memory.seq)
        if before is None:
            cursor = Cursor(memory.seq, context=memory.context)
            yield Subscribe(session, cursor, encoder, lost=lambda error: self._lost(session, error))
        else:
            yield self._continue(session, encoder, chat, memory.seq)
        self._encoders[session] = encoder
        return snapshot(chat_uri(session) if chat else session_uri(session), state, memory.at)

    def _continue(self, session: SessionId, encoder: AhpEncoder, chat: bool, after: int) -> Subscribe:
        wanted = _with(encoder, chat, after)
        return Subscribe(session, None, wanted, keep=True, lost=lambda error: self._lost(session, error))

    def _lost(self, session: SessionId, error: FairleadError) -> list[Effect]:
        self._encoders.pop(session, None)
        return [Write(removed_frame(session))] if isinstance(error, NotFound) else []

    def unsubscribe(self, session: SessionId, *, chat: bool) -> Steps:
        encoder = self._encoders.get(session)
        if encoder is None:
            return
        left = _with(encoder, chat, None)
        if left == AhpEncoder():
            del self._encoders[session]
            self._active.pop(session, None)
            yield Unsubscribe(session)
        else:
            self._encoders[session] = left
            yield Subscribe(session, None, left, keep=True, lost=lambda error: self._lost(session, error))

    # --- states

    def _state(self, memory: AhpMemory, *, chat: bool) -> Steps:
        session = SessionId(memory.session)
        if chat:
            turns, cursor = yield from read_turns(session, memory.seq, None, TURNS)
            return chat_snapshot(memory, turns, cursor)
        choices = yield from do(ReadSessionChoices())
        state = session_snapshot(memory, session_schema(choices.modes))
        return {**state, "activeClients": [self._active[session]] if session in self._active else []}

    # --- active clients

    def set_active(self, session: SessionId, client: Fields) -> None:
        if len(msgspec.json.encode(client)) <= ACTIVE_CLIENT_BYTES:
            keep_newest(self._active, session, client, ACTIVE_CLIENTS)

    def remove_active(self, session: SessionId) -> None:
        self._active.pop(session, None)


def _with(encoder: AhpEncoder, chat: bool, after: int | None) -> AhpEncoder:
    changed = {"chat": after} if chat else {"session": after}
    return msgspec.structs.replace(encoder, **changed)


def read_turns(session: SessionId, seq: int | None, before: int | None, most: int) -> Steps:
    """The last finished turns before an ordinal, as JSON, and the cursor of the earlier ones (empty: there are none).
    `seq`: only turns that ended up to that entry."""
    rows: list[ProjectionRow] = []
    size = 0
    while len(rows) < most and size < TURN_BYTES:
        page = yield from do(ReadRows(session, NAME, before=before, limit=min(most - len(rows), 100)))
        if not page.rows:
            break
        rows[:0] = page.rows
        before = page.rows[0].ordinal
        size += sum(len(row.data) for row in page.rows)
        if before <= 1:
            break
    shown = [row for row in rows if seq is None or row.seq <= seq]
    first = shown[0].ordinal if shown else 1
    return [row.data for row in shown], str(first) if first > 1 else ""
