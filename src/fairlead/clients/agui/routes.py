"""The route of AG-UI: a run is a POST, and its response is the stream of the run's events. Pure.

Only user messages at the end of the client's history whose ids are new are sent to the agent. So a repeated request
joins the turn that the first one began. The response is a function of the log: see `encoder.RunEncoder`.
"""

import contextlib
from collections.abc import Generator
from typing import Any, Final

import msgspec

from fairlead.clients.agui.comparison import our_id, snapshot
from fairlead.clients.agui.encoder import RunEncoder
from fairlead.clients.agui.history import NAME, HistoryState, Message, message_of_row, read_state, request_key
from fairlead.clients.agui.input import RunAgentInput, content_of, read_input
from fairlead.clients.agui.interrupts import answer_of, interrupt_of
from fairlead.clients.agui.state import snapshot_event
from fairlead.clients.agui.wire import (
    BEAT,
    CONTENT_TYPE,
    VERSION,
    Event,
    encode_events,
    event,
    message_of,
    session_of,
)
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.content import Content
from fairlead.model.errors import BadRequest, NotFound, RequestRejected, Stale
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.queries import FindRow, GetSession, ReadProjection, ReadQueue, ReadRows, SessionView
from fairlead.model.scopes import require_scope
from fairlead.model.store import ProjectionRow
from fairlead.model.web.requests import Response, Step, do
from fairlead.model.web.routes import Request, Routes, SessionStream, Steps

routes = Routes()

MOST_NEW: Final = 20
"""Maximum number of new messages in one run."""
_PAGE: Final = 500
_HISTORY_ROWS: Final = 2000
_HISTORY_BYTES: Final = 4 << 20
"""Limits of the history that a client is sent: its newest messages."""


class InterruptPending(RequestRejected, code="interrupt_pending", status=409):
    """`resume` does not answer every open interrupt."""


class Past(msgspec.Struct, frozen=True):
    """A session's history when the run was requested. `seq`: the last entry that it has. `whole`: no row is missing."""

    state: HistoryState
    rows: tuple[ProjectionRow, ...]
    seq: int
    whole: bool

    def messages(self, up_to: int) -> list[Message]:
        found = (message_of_row(row.data, up_to) for row in self.rows if row.seq <= up_to)
        return [message for message in found if message is not None]


class Plan(msgspec.Struct, frozen=True):
    """Where a run begins. `past`: the client has, or is sent, the messages up to this seq. `start` and `sent_up_to` are
    those of the encoder."""

    past: int
    start: int
    target: str = ""
    sent_up_to: int = 0


@routes.post("/v1/agui", "chat", "agui.run", body=RunAgentInput)
@routes.post("/v1/agui/{agent}", "chat", "agui.run-agent", body=RunAgentInput)
def run(request: Request) -> Steps:
    """Run a thread of AG-UI. The answer is a stream of its events; `resume` needs the scope approve.

    A new thread becomes a session of the agent that the path names, or of the default agent."""
    given = read_input(request.body)
    if given.resume:
        require_scope(request.who, "approve")
    session = session_of(request.who.credential, given.thread)
    create = cmd.Create(session=session, cwd=given.cwd, agent=request.params.get("agent", ""), key=f"agui/{session}")
    view = yield from _opened(create)
    past = yield from _read_past(session)
    resumed = yield from _resume(session, given, view)
    fresh, target = yield from _new_messages(session, given, view)
    for answer in () if resumed is None else resumed[2]:
        with contextlib.suppress(Stale, NotFound):  # another client was first: the stream shows the result
            yield answer
    for name, blocks in fresh:
        sent = yield from do(cmd.Send(session=session, content=blocks, message=name, key=f"agui/{name}"))
        if sent.repeated and (yield from _is_withdrawn(session, name)):
            target = ""
    plan = yield from _plan(session, past, target, bool(fresh), resumed)
    first = _first_events(session, given, view, past, plan)
    if plan is None:
        return Response(body=encode_events([*first, _at_once(given, view)]), content_type=CONTENT_TYPE)
    history, kept = _client_history(given, first)
    encoder = RunEncoder(
        thread=given.thread,
        run=given.run,
        start=plan.start,
        target=plan.target,
        sent_up_to=plan.sent_up_to,
        state_from=view.head,
        own=tuple(our_id(session, message) for message in history if message["role"] == "user"),
        kept=() if given.resume else kept,
        queue=tuple(queued.message for queued in view.queue),
    )
    return SessionStream(
        session=session,
        cursor=Cursor(plan.start),
        encoder=encoder,
        first=encode_events(first),
        beat=BEAT,
        content_type=CONTENT_TYPE,
    )


def _opened(create: cmd.Create) -> Generator[Step, Any, SessionView]:
    """The session of the thread, created if it is new."""
    known = GetSession(create.session)
    try:
        return (yield from do(known))
    except NotFound:
        yield from do(create)
    try:
        return (yield from do(known))
    except NotFound:
        # The key was used, but the gateway died before it created the session.
        yield from do(msgspec.structs.replace(create, key=""))
        return (yield from do(known))


def _read_past(session: SessionId) -> Generator[Step, Any, Past]:
    # Before the rows: so they have all messages up to the turn that runs.
    state = read_state((yield from do(ReadProjection(session, NAME))))
    page = yield from do(ReadRows(session, NAME, limit=_PAGE))
    rows, size = list(page.rows), sum(len(row.data) for row in page.rows)
    while rows and rows[0].ordinal > 1 and len(rows) < _HISTORY_ROWS and size < _HISTORY_BYTES:
        earlier = yield from do(ReadRows(session, NAME, before=rows[0].ordinal, limit=_PAGE))
        if not earlier.rows:
            break
        rows, size = [*earlier.rows, *rows], size + sum(len(row.data) for row in earlier.rows)
    return Past(state, tuple(rows), page.seq, not rows or rows[0].ordinal == 1)


_Resumed = tuple[int, int, list[cmd.AnswerPermission]]
"""The seq before the turn of the requests, the seq of the last of them, and the answers to those that still wait."""


def _resume(session: SessionId, given: RunAgentInput, view: SessionView) -> Generator[Step, Any, _Resumed | None]:
    """Check every answer before the first is given. A request that another client settled is no error."""
    if not given.resume:
        return None
    waiting = {
        str(asked.request): (pending.seq, asked) for pending in view.pending for asked in [_asked(pending.event)]
    }
    answers: list[cmd.AnswerPermission] = []
    places: list[tuple[int, int]] = []
    for entry in given.resume:
        row = yield from _find(session, request_key(entry.interrupt))
        if row is None:
            raise NotFound("interrupt", entry.interrupt)
        places.append((msgspec.json.decode(row.data)["start"], row.seq))
        if entry.interrupt in waiting:
            answers.append(answer_of(session, entry, waiting[entry.interrupt][1]))
    last = max(seq for _, seq in places)
    named = {entry.interrupt for entry in given.resume}
    missing = [request for request, (seq, _) in waiting.items() if seq <= last and request not in named]
    if missing:
        message = f"resume must answer every open interrupt: {', '.join(missing)[:400]} is missing."
        raise InterruptPending(message, missing=missing)
    return min(start for start, _ in places), last, answers


def _asked(data: msgspec.Raw) -> ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed:
    found = ev.decode(bytes(data))
    assert isinstance(found, ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed)
    return found


def _new_messages(
    session: SessionId, given: RunAgentInput, view: SessionView
) -> Generator[Step, Any, tuple[list[tuple[MessageId, tuple[Content, ...]]], str]]:
    """The messages to send, by our ids; and the message whose turn the client waits for, known or new."""
    queued = {one.message for one in view.queue}
    fresh: list[tuple[MessageId, tuple[Content, ...]]] = []
    trailing = given.trailing
    if len(trailing) > MOST_NEW:
        raise BadRequest(f"A run has at most {MOST_NEW} new messages.", limit=MOST_NEW)
    for message in trailing:
        name = message_of(session, message["id"])
        if name not in queued and (yield from _find(session, name)) is None:
            fresh.append((name, content_of(message)))
    return fresh, message_of(session, trailing[-1]["id"]) if trailing else ""


def _is_withdrawn(session: SessionId, message: str) -> Generator[Step, Any, bool]:
    """Whether a message that was sent before has left the queue and was not delivered."""
    queue = yield from do(ReadQueue(session))
    return all(queued.message != message for queued in queue) and (yield from _find(session, message)) is None


def _plan(
    session: SessionId, past: Past, target: str, sends: bool, resumed: _Resumed | None
) -> Generator[Step, Any, Plan | None]:
    """Where the run begins; None if there is nothing to wait for."""
    row = (yield from _find(session, target)) if target and not sends else None
    if resumed is not None:
        start, last, _ = resumed
        return Plan(past=last, start=start, target="" if row is not None else target, sent_up_to=last)
    if row is not None:
        # The client lost its connection before it had any of the answer.
        return Plan(past=row.seq, start=row.seq - 1, target=target)
    if past.state.running:
        return Plan(past=past.state.start, start=past.state.start, target=target)
    return Plan(past=past.seq, start=past.seq, target=target) if target else None


def _find(session: SessionId, key: str) -> Generator[Step, Any, ProjectionRow | None]:
    ordinal = yield from do(FindRow(session, NAME, key))
    if ordinal is None:
        return None
    page = yield from do(ReadRows(session, NAME, after=ordinal - 1, limit=1))
    return page.rows[0] if page.rows else None


def _first_events(
    session: SessionId, given: RunAgentInput, view: SessionView, past: Past, plan: Plan | None
) -> list[Event]:
    events = [event("RUN_STARTED", threadId=given.thread, runId=given.run, protocolVersion=VERSION)]
    ours = past.messages(past.seq if plan is None else plan.past)
    events += snapshot(session, given, ours, whole=past.whole, resumed=bool(given.resume))
    events.append(snapshot_event(given.state, view))
    if given.tools:
        names = [str(tool.get("name", ""))[:200] for tool in given.tools[:100]]
        events.append(event("CUSTOM", name="fairlead.ignored_tools", value={"tools": names}))
    return events


def _client_history(given: RunAgentInput, first: list[Event]) -> tuple[list[Message], tuple[str, ...]]:
    """The messages that the client has after the first events; and the reasoning that it keeps, although a snapshot
    does not have it: one without any reasoning replaces none."""
    replaced = next((one["messages"] for one in reversed(first) if one["type"] == "MESSAGES_SNAPSHOT"), None)
    if replaced is None:
        return given.messages, ()
    if any(message["role"] == "reasoning" for message in replaced):
        return replaced, ()
    return replaced, tuple(message["id"] for message in given.messages if message["role"] == "reasoning")


def _at_once(given: RunAgentInput, view: SessionView) -> Event:
    """The end of a run that has nothing to wait for but requests."""
    interrupts = [interrupt_of(_asked(pending.event)) for pending in view.pending]
    outcome: Event = {"type": "interrupt", "interrupts": interrupts} if interrupts else {"type": "success"}
    return event("RUN_FINISHED", threadId=given.thread, runId=given.run, outcome=outcome)
