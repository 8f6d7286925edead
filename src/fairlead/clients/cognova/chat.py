"""One client on the chat's socket: takes frames and returns effects. Never waits.

The requests for one conversation run in the order in which they arrived: a message, an interrupt after it, and so on.
A socket joins a conversation by starting it, by sending to it or by subscribing; from then on it receives the
conversation's output through `chat_frames`. An error goes to the client that sent the frame.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from fairlead.clients.cognova import chat_frames as out
from fairlead.clients.cognova.chat_frames import ENCODER, error_frame, frame, number
from fairlead.clients.cognova.chat_messages import (
    AbortRun,
    BadFrame,
    ClientMessage,
    DecidePermission,
    Ping,
    SendMessage,
    SubscribeTo,
    read,
)
from fairlead.clients.cognova.rest import TOKEN_HEADER
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, RequestId, SessionId, session_id
from fairlead.model.web.sockets import Effect, Flow, Handshake, RunFlow, SocketRoute, Subscribe, Subscribed, Write

NOT_FOUND: Final = "Conversation not found"
NOTHING_RUNS: Final = "No active session to interrupt"
WAITING: Final = 100
"""Maximum number of unfinished requests of one socket to one conversation; a session's message queue has the same
limit."""
TRIES: Final = 5
"""Number of attempts of an interrupt whose message is on its way from the queue to the agent."""

Asked = SendMessage | AbortRun | SubscribeTo


class JoinedConversation(msgspec.Struct, frozen=True):
    """Sent to a client that has joined: the conversation's `status` at that time, and frames before those of the
    log."""

    frames: bytes = b""
    status: str = ""


class ChatConversation:
    """Implements `model.web.sockets.SocketProtocol`. Each conversation has a lane."""

    __slots__ = ("_fresh", "_joined", "_unfinished")

    def __init__(self, opening: Handshake) -> None:
        self._fresh = opening.fresh
        self._joined: set[SessionId] = set()
        self._unfinished: dict[SessionId, int] = {}

    # --- SocketProtocol

    def opened(self) -> Sequence[Effect]:
        return (Write(frame({"type": "chat:connected"})),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        try:
            message = read(data)
        except BadFrame as error:
            return (Write(error_frame(error.message, error.conversation)),)
        return () if message is None else self._act(message)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return (Write(error_frame(error.message)),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(error_frame(error.message)),)

    # --- requests of the client

    def _act(self, message: ClientMessage) -> Sequence[Effect]:
        match message:
            case SendMessage(conversation=None):
                return self._ask(session_id(self._fresh()), message)
            case SendMessage(conversation=session) | AbortRun(conversation=session) | SubscribeTo(conversation=session):
                assert session is not None
                return self._ask(session, message)
            case DecidePermission():
                return (RunFlow(_decide(message), message.request),)
            case Ping():
                return (Write(frame({"type": "pong"})),)
            case _:
                assert_never(message)

    def _ask(self, session: SessionId, asked: Asked) -> Sequence[Effect]:
        unfinished = self._unfinished.get(session, 0)
        if unfinished >= WAITING:
            return (Write(error_frame(f"{WAITING} messages of yours wait already: wait for the agent.", session)),)
        self._unfinished[session] = unfinished + 1
        return (RunFlow(self._handle(session, asked), session),)

    def _handle(self, session: SessionId, asked: Asked) -> Flow:
        try:
            match asked:
                case SendMessage():
                    yield from self._send(session, asked)
                case SubscribeTo():
                    yield from self._subscribe_to(session, asked)
                case AbortRun():
                    yield from _interrupt(session)
                case _:
                    assert_never(asked)
        except FairleadError as error:
            yield Write(_session_error(session, error))
        finally:
            self._unfinished[session] -= 1
            if not self._unfinished[session]:
                del self._unfinished[session]

    def _send(self, session: SessionId, asked: SendMessage) -> Flow:
        if session not in self._joined:
            if asked.conversation is None:
                try:
                    yield cmd.Create(session=session, title=asked.title)
                except FairleadError as error:
                    yield Write(error_frame(error.message))
                    return
                yield Write(frame({"type": "chat:session_created", "conversationId": session}))
                yield _subscribe(session, Cursor(0))
            else:
                view: q.SessionView = yield q.GetSession(session)
                yield _subscribe(session, Cursor(view.head, view.log_id))
                if frames := _present(session, view).frames:
                    yield Write(frames)
            self._joined.add(session)
        yield cmd.Send(session=session, content=asked.content)

    # --- joining

    def _subscribe_to(self, session: SessionId, asked: SubscribeTo) -> Flow:
        if asked.last is None:
            view: q.SessionView = yield q.GetSession(session)
            joined = _present(session, view)
            if session in self._joined:
                # Everything up to here has been sent or is on its way: a new subscription would send some of it twice.
                yield Write(_subscribed(session, "ok", None, view.log_id, joined))
                return
            cursor = Cursor(view.head, view.log_id)
        else:
            seq, index = divmod(asked.last, out.FRAMES)
            # A connection may end between two frames of one entry: read that entry again.
            page: q.EventPage = yield q.ReadEvents(session, max(seq - 1, 0), 1)
            joined = JoinedConversation(_remaining_frames(session, seq, index, page))
            cursor = Cursor(seq, asked.log_id)
        answer: Subscribed = yield _subscribe(session, cursor)
        self._joined.add(session)
        ok = answer.verdict == "ok"
        place = number(answer.head) if asked.last is None else asked.last if ok else 0
        initial = joined if ok else JoinedConversation()
        yield Write(_subscribed(session, answer.verdict, place, answer.log_id, initial))


def _subscribe(session: SessionId, cursor: Cursor) -> Subscribe:
    return Subscribe(session, cursor, ENCODER, lost=lambda error: (Write(_session_error(session, error)),))


def _interrupt(session: SessionId) -> Flow:
    """End the turn. If none runs, withdraw a message whose agent is still starting; it never reaches the agent."""
    for _ in range(TRIES):
        try:
            reply: cmd.Reply = yield cmd.Interrupt(session=session)
            state = reply.data or {}
            if not state.get("idle"):
                if state.get("background"):
                    yield _interrupted(session)
                return
            queue: Sequence[q.QueuedView] = yield q.ReadQueue(session)
        except NotFound:
            break
        if not queue:
            break
        try:
            yield cmd.CancelMessage(session=session, message=MessageId(queue[0].message))
        except NotFound:
            continue  # the message was on its way to the agent, so its turn should have started by now
        yield _interrupted(session)
        return
    yield Write(error_frame(NOTHING_RUNS, session))


def _decide(given: DecidePermission) -> Flow:
    pending: q.PendingView = yield q.FindPermission(given.request)
    try:
        yield cmd.AnswerPermission(
            session=pending.session,
            request=RequestId(given.request),
            behavior="allow" if given.allow else "deny",
            message=given.message,
        )
    except FairleadError as error:
        yield Write(error_frame(error.message, pending.session))


def _remaining_frames(session: SessionId, seq: int, index: int, page: q.EventPage) -> bytes:
    """The frames of the entry `seq` after the frame `index`."""
    if not page.events or _seq(page.events[0]) != seq:
        return b""
    frames = out.numbered_frames(session, seq, ev.decode(page.events[0]))
    return b"".join(map(frame, frames[index + 1 :]))


def _present(session: SessionId, view: q.SessionView) -> JoinedConversation:
    """The state that a client which joins now needs: the requests that wait for a person."""
    waiting = [out.numbered_frames(session, item.seq, ev.decode(item.event)) for item in view.pending]
    frames = b"".join(frame(message) for messages in waiting for message in messages)
    return JoinedConversation(frames, "streaming" if view.turn is not None else "idle")


def _subscribed(session: SessionId, verdict: str, place: int | None, log_id: str, joined: JoinedConversation) -> bytes:
    """The frame `chat:subscribed`. `place`: the next frames follow this number; None: the subscription continues
    unchanged."""
    fields: out.Frame = {"type": "chat:subscribed", "conversationId": session, "verdict": verdict, "logId": log_id}
    if place is not None:
        fields["lastSeq"] = place
    if joined.status:
        fields["status"] = joined.status
    return frame(fields) + joined.frames


def _interrupted(session: SessionId) -> Write:
    return Write(frame({"type": "chat:interrupted", "conversationId": session}))


def _session_error(session: SessionId, error: FairleadError) -> bytes:
    gone = isinstance(error, NotFound) and error.data.get("what") == "session"
    return error_frame(NOT_FOUND if gone else error.message, session)


class _Seq(msgspec.Struct):
    seq: int


def _seq(line: bytes) -> int:
    return msgspec.json.decode(line, type=_Seq).seq


SOCKET: Final = SocketRoute(
    path="/_ws/chat",
    access="view",
    name="cognova.chat",
    open=ChatConversation,
    about="Conversations: what is said in them as it is said, and what a client says to them.",
    token_query="token",
    token_header=TOKEN_HEADER,
)
