"""Loads a session from the store: its state and its interpreter's state, from the checkpoints and the entries after
them.

The cost depends on the entries since the last checkpoint, never on the whole log. `load` becomes the owner of the log;
`peek` only reads it, so that a query can be answered while another gateway owns the session.
"""

from typing import NamedTuple

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import AgentKind, Interpreter, Record
from fairlead.model.auth import Identity
from fairlead.model.commands import Fork, Settings
from fairlead.model.errors import NotFound
from fairlead.model.ids import MessageId, SessionId, event_id
from fairlead.model.scopes import inherited
from fairlead.model.store import TRANSCRIPT, Entry, ForkPoint, Store
from fairlead.sessions.commit import INTERPRETER, STATE, SessionCore
from fairlead.sessions.dependencies import CoreDependencies
from fairlead.sessions.fanout.hub import Hub
from fairlead.sessions.log import SessionLog
from fairlead.sessions.paging import PAGE, entries_after
from fairlead.sessions.state import SessionState, clean_title, evolve

_TAKEN_OVER = ("first_prompt", "last_prompt", "turn", "turns", "cost_usd", "model")
"""State that a session takes over from the log that it shares its beginning with."""


class StoredSession(NamedTuple):
    """A session as its log has it up to `head`."""

    state: SessionState
    log_id: str
    head: int


async def peek(store: Store, session: SessionId) -> StoredSession:
    """Read a session's state without owning its log and without an interpreter. NotFound for a session without a
    log."""
    state, seq = SessionState(session=session), 0
    if (checkpoint := await store.checkpoint(session, STATE)) is not None:
        state, seq = msgspec.msgpack.decode(checkpoint.data, type=SessionState), checkpoint.seq
    while True:
        page = await store.read(session, seq, PAGE)
        for entry in page.entries:
            state = evolve(state, ev.decode(entry.event), entry.seq, entry.event)
            seq = entry.seq
        if not page.entries or seq >= page.head:
            return StoredSession(state, page.log_id, page.head)


async def load(services: CoreDependencies, session: SessionId, feed: Hub) -> SessionCore:
    """Load a session that has a log. NotFound if it does not exist, was deleted, or is only a listed transcript file
    without a log."""
    store = services.store
    summary = await store.summary(session)
    if summary is None or summary.deleted or summary.state == TRANSCRIPT:
        raise NotFound("session", session)
    interpreter = services.kind(summary.agent).interpreter(session)
    log = await _open_log(services, session, feed)
    state, state_seq, interpreter_seq = SessionState(session=session), 0, 0
    if (checkpoint := await store.checkpoint(session, STATE)) is not None:
        state = msgspec.msgpack.decode(checkpoint.data, type=SessionState)
        state_seq = checkpoint.seq
    if (checkpoint := await store.checkpoint(session, INTERPRETER)) is not None:
        interpreter.restore(checkpoint.data)
        interpreter_seq = checkpoint.seq
    async for entry in entries_after(store, session, min(state_seq, interpreter_seq)):
        event = ev.decode(entry.event)
        if entry.seq > state_seq:
            state = evolve(state, event, entry.seq, entry.event)
        if entry.seq > interpreter_seq:
            _replay(interpreter, entry, event)
    feed.head = max(feed.head, log.head)
    return SessionCore(services, log, state, interpreter)


async def _open_log(
    services: CoreDependencies, session: SessionId, feed: Hub, point: ForkPoint | None = None
) -> SessionLog:
    """Claim a session's log; with `point`, a new log that begins with another log's entries."""
    lease, log_id, head = await services.store.claim(session, point)
    # The state does not have the last entry's time: a delta or a stored record does not change the state.
    last = (await services.store.tail(session, None, 1)).entries
    return SessionLog(services.store, lease, log_id, head, last[-1].at if last else 0, services.clock, feed)


def _replay(interpreter: Interpreter, entry: Entry, event: ev.Event) -> None:
    """Feed the interpreter a stored record; the resulting events are in the log already."""
    if entry.raw is not None and entry.origin and not is_copy(event):
        interpreter.step(Record(entry.raw, entry.origin))
    if isinstance(event, ev.AgentExited):
        interpreter.exited(event.reason, event.id)
    interpreter.assign_seq(event, entry.seq)


def is_copy(event: ev.Event) -> bool:
    """Whether the entry holds the transcript's copy of a wire record: stored for its bytes, never interpreted."""
    return isinstance(event, ev.RecordStored) and bool(event.of)


async def create(
    services: CoreDependencies,
    feed: Hub,
    session: SessionId,
    opened: ev.SessionOpened,
    settings: Settings | None = None,
    resume: str = "",
    at: int = 0,
    parent: SessionId | None = None,
    found: int | None = None,
    point: ForkPoint | None = None,
) -> SessionCore:
    """Create a session with its first entries; `resume` is the agent's id of a conversation to continue.

    `at`: the time it began, if in the past. `parent`: the session that it was forked from, if any. `found`: the time of
    its last change, if it is read from a file. `point`: the file begins like another session's log: this session shows
    that log's entries up to there as its own, and continues the turn that was open there."""
    kind = services.kind(opened.agent)
    log = await _open_log(services, session, feed, point)
    state, interpreter = SessionState(session=session), kind.interpreter(session)
    if point is not None:
        known, memory = await _recall(services.store, session, kind, point.parent)
        interpreter.restore(memory)
        # The other session's title, requests and decisions are not taken over.
        state = msgspec.structs.replace(state, **{name: getattr(known, name) for name in _TAKEN_OVER})
        at = log.last_at + 1
    core = SessionCore(services, log, state, interpreter)
    core.found_at = found
    first: list[ev.Event] = [opened]
    if parent is not None:
        # After shared entries the fork comes first: it ends the other session's part of the log.
        name, seq = event_id(session, "session.forked"), 0 if point is None else point.seq
        first.insert(1 if point is None else 0, ev.SessionForked(id=name, parent=parent, seq=seq))
    async with core.client_transaction() as transition:
        for event in first:
            transition.add(event, at=at)
        if settings is not None and settings != Settings():
            name, changes = event_id(session, "session.changed"), msgspec.to_builtins(settings)
            transition.add(ev.SessionChanged(id=name, settings=changes, by=opened.by))
        if resume:
            transition.add(ev.SessionResumed(id=event_id(session, "session.resumed"), agent_session=resume), at=at)
    return core


async def fork(
    services: CoreDependencies, feed: Hub, parent: SessionState, command: Fork, point: ForkPoint, at: str, who: Identity
) -> SessionCore:
    """Create a fork: its log shows the parent's entries up to `point` as its own."""
    child = command.child
    kind = services.kind(parent.agent)
    log = await _open_log(services, child, feed, point)
    state = SessionState(
        session=child,
        cwd=parent.cwd,
        agent=parent.agent,
        title=clean_title(command.title) or f"{parent.title or parent.first_prompt[:60]} (fork)",
        first_prompt=parent.first_prompt,
        agent_session=parent.agent_session,
        settings=inherited(who, parent.settings),
        rules=parent.rules if who.may("approve") else (),
        model=parent.model,
        started_depth=parent.started_depth,
        depth=parent.depth,
    )
    core = SessionCore(services, log, state, kind.interpreter(child))
    name, message = event_id(services.new_uuid(), "session.forked"), MessageId(at) if at else None
    forked = ev.SessionForked(
        id=name, parent=parent.session, seq=point.seq, message=message, by=who.name, owner=who.user
    )
    async with core.client_transaction() as transition:
        transition.add(forked)
    return core


async def _recall(store: Store, session: SessionId, kind: AgentKind, holder: SessionId) -> tuple[SessionState, bytes]:
    """The state and the interpreter's snapshot at the end of the entries that a new log shows of other sessions.

    Turn ids depend on the session that began the turn: each part is replayed with that session's interpreter."""
    state, interpreter, owner = SessionState(session=session), kind.interpreter(holder), str(holder)
    async for entry in entries_after(store, session):
        event = ev.decode(entry.event)
        state = evolve(state, event, entry.seq)
        named = event.id.split("/", 1)[0]
        if isinstance(event, ev.SessionOpened) or (isinstance(event, ev.SessionForked) and named != owner):
            owner = named if isinstance(event, ev.SessionOpened) else holder
            memory, interpreter = interpreter.snapshot(), kind.interpreter(SessionId(owner))
            interpreter.restore(memory)
        _replay(interpreter, entry, event)
        if isinstance(event, ev.TurnEnded) and interpreter.turn == event.turn:
            # No record ended this turn: it ended after a period of silence, or because its process was lost.
            interpreter.end_quiet_turn()
        if isinstance(event, ev.TurnEnded) and interpreter.turn == event.turn:
            interpreter.exited(event.reason, event.id)
    return state, interpreter.snapshot()
