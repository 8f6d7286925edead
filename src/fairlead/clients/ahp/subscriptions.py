"""One socket's subscriptions to sessions and chats. Pure.

A session and its chat are read by one subscription to the log. Its encoder says from which entry on each channel is
sent, so that a snapshot and the actions after it fit together without a gap and without a repeat:

1. The channel's actions begin to be sent, if the log is subscribed already.
2. The snapshot is read; it has all entries up to its own seq, which is not before 1.
3. From now on the channel gets only actions after that seq. A client drops the ones of 1 that the snapshot has.

The channels of an `initialize` and of a `reconnect` are subscribed together at the end (`start`), when all snapshots
were read: nothing is sent of a channel before the answer, so step 1 would have no effect for them.
"""

from collections.abc import Generator
from typing import Any, Final

from msgspec import structs

from fairlead.clients.ahp.channels import chat_uri, session_uri
from fairlead.clients.ahp.client_record import ClientRecord
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
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.queries import ReadProjection, ReadRows, WaitLoaded
from fairlead.model.store import ProjectionRow
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, Subscribe, Subscribed, Unsubscribe, Write
from fairlead.sessions.api.folders import ReadSessionChoices

Steps = Generator[Any, Any, Any]

TURNS: Final = 500
TURN_BYTES: Final = 8 << 20
"""Finished turns in a snapshot, and their bytes; the client loads the earlier ones when it wants them."""
PAGE_TURNS: Final = 50
"""Finished turns of one `fetchTurns`."""


class Subscriptions:
    """`_record` has the encoder and the position of each session; `_waiting` are those that are not subscribed yet."""

    def __init__(self, record: ClientRecord) -> None:
        self._record = record
        self._waiting: set[SessionId] = set(record.encoders)

    def subscribe(self, session: SessionId, *, chat: bool, wait: bool = False) -> Steps:
        """Subscribe to a channel of a session; return its snapshot. `wait`: it is subscribed by `start`."""
        record = self._record
        yield WaitLoaded(session)
        before = record.encoders.get(session)
        if before is not None and not wait:
            yield from self._continue(session, _with(before, chat, 0))
        memory = read_memory((yield ReadProjection(session, NAME)))
        if memory.session != session:
            raise NotFound("session", session)
        state = yield from self._state(memory, chat=chat)
        encoder = _with(record.encoders.get(session) or AhpEncoder(), chat, memory.seq)
        if session not in record.encoders:
            record.cursors[session] = Cursor(memory.seq, context=memory.context)
            self._waiting.add(session)
        record.encoders[session] = encoder
        channel = chat_uri(session) if chat else session_uri(session)
        if not wait:
            yield from self._continue(session, encoder)
            record.opened(channel)
        return snapshot(channel, state, memory.at)

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def start(self) -> Steps:
        """Subscribe what waits; return the sessions that cannot be subscribed any more."""
        lost: set[SessionId] = set()
        while self._waiting:
            session = min(self._waiting)
            try:
                yield from self._continue(session, self._record.encoders[session])
            except FairleadError:
                lost.add(session)
        return lost

    def _continue(self, session: SessionId, encoder: AhpEncoder) -> Steps:
        """Subscribe at the recorded position, or go on with another encoder."""
        record, keep = self._record, session not in self._waiting
        self._waiting.discard(session)
        try:
            answer: Subscribed = yield Subscribe(
                session,
                None if keep else record.cursors[session],
                encoder,
                keep=keep,
                lost=lambda error: self._lost(session, error),
                sent=lambda frames, cursor: record.pushed(session, frames, cursor),
            )
        except FairleadError:
            self._drop(session)
            raise
        if answer.verdict == "gap":
            # The position means nothing in the log that is there now.
            self._drop(session)
            yield Unsubscribe(session)
            raise NotFound("session", session)
        record.cursors[session] = structs.replace(record.cursors[session], log_id=answer.log_id)

    def _drop(self, session: SessionId) -> None:
        self._waiting.discard(session)
        for table in (self._record.encoders, self._record.cursors, self._record.active):
            table.pop(session, None)

    def _lost(self, session: SessionId, error: FairleadError) -> list[Effect]:
        return [Write(removed_frame(session))] if isinstance(error, NotFound) else []

    def unsubscribe(self, session: SessionId, *, chat: bool) -> Steps:
        record = self._record
        encoder = record.encoders.get(session)
        if encoder is None:
            return
        record.closed(chat_uri(session) if chat else session_uri(session))
        left = _with(encoder, chat, None)
        if left != AhpEncoder():
            record.encoders[session] = left
            yield from self._continue(session, left)
            return
        yield Unsubscribe(session)
        self._drop(session)

    # --- states

    def _state(self, memory: AhpMemory, *, chat: bool) -> Steps:
        session = SessionId(memory.session)
        if chat:
            turns, cursor = yield from read_turns(session, memory.seq, None, TURNS)
            return chat_snapshot(memory, turns, cursor)
        choices = yield from do(ReadSessionChoices())
        state = session_snapshot(memory, session_schema(choices.modes))
        own = self._record.active.get(session)
        return {**state, "activeClients": [] if own is None else [own]}


def _with(encoder: AhpEncoder, chat: bool, after: int | None) -> AhpEncoder:
    return structs.replace(encoder, chat=after) if chat else structs.replace(encoder, session=after)


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
