"""One client on the chat's socket: takes frames and returns effects. Never waits.

The requests for one conversation run in the order in which they arrived: a message, an interrupt after it, and so on.
A socket joins a conversation by starting it, by sending to it or by subscribing; from then on it receives the
conversation's output through `chat_frames`. An error goes to the client that sent the frame.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, assert_never

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
from fairlead.model.web.sockets import Do, Handshake, Perform, SocketRoute, Subscribe, Subscribed, Write

NOT_FOUND: Final = "Conversation not found"
NOTHING_RUNS: Final = "No active session to interrupt"
WAITING: Final = 100
"""Maximum number of unfinished requests of one socket to one conversation; a session's message queue has the same
limit."""
TRIES: Final = 5
"""Number of attempts of an interrupt whose message is on its way from the queue to the agent."""

Asked = SendMessage | AbortRun | SubscribeTo


class SessionQueue:
    """The requests for one conversation; the first one is in progress. `joined`: this socket has joined it."""

    __slots__ = ("asked", "joined", "tries")

    def __init__(self) -> None:
        self.asked: deque[Asked] = deque()
        self.joined = False
        self.tries = 0


class JoinedConversation(msgspec.Struct, frozen=True):
    """Sent to a client that has joined: the conversation's `status` at that time, and frames before those of the
    log."""

    frames: bytes = b""
    status: str = ""


class ChatConversation:
    """Implements `model.web.sockets.SocketProtocol`. A step's tag is `(purpose, conversation, ...)`."""

    __slots__ = ("_fresh", "_lines")

    def __init__(self, opening: Handshake) -> None:
        self._fresh = opening.fresh
        self._lines: dict[SessionId, SessionQueue] = {}

    # --- SocketProtocol

    def opened(self) -> Sequence[Do]:
        return (Write(frame({"type": "chat:connected"})),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        try:
            message = read(data)
        except BadFrame as error:
            return (Write(error_frame(error.message, error.conversation)),)
        return () if message is None else self._act(message)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return (Write(error_frame(error.message)),)

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        match tag:
            case ("create", session):
                created = frame({"type": "chat:session_created", "conversationId": session})
                return (Write(created), self._subscribe(session, Cursor(0), JoinedConversation()))
            case ("place", session):
                present = _present(session, answer)
                if self._lines[session].joined:
                    # Everything up to here has been sent or is on its way: a new subscription would send some of it
                    # twice.
                    return (Write(_subscribed(session, "ok", None, answer.log_id, present)), *self._done(session))
                return (self._subscribe(session, Cursor(answer.head, answer.log_id), present),)
            case ("rest", session, SubscribeTo() as join):
                return (self._resume(session, join, answer),)
            case ("joined", session, JoinedConversation() as joined):
                return self._joined(session, joined, answer)
            case ("send", session) | ("cancel", session):
                done = self._done(session)
                return [_interrupted(session), *done] if tag[0] == "cancel" else done
            case ("interrupt", session):
                state = answer.data or {}
                if state.get("idle"):
                    return (Perform(("queue", session), q.ReadQueue(session), session),)
                notices = [_interrupted(session)] if state.get("background") else []
                return [*notices, *self._done(session)]
            case ("queue", session):
                return self._withdraw(session, answer)
            case ("whose", DecidePermission() as given):
                return (_answer(given, answer.session),)
            case _:
                return ()

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        match tag:
            case ("create", session):
                return (Write(error_frame(error.message)), *self._done(session))
            case ("cancel", session) if isinstance(error, NotFound) and self._lines[session].tries < TRIES:
                return self._interrupt(session)
            case ("interrupt" | "queue" | "cancel", session) if isinstance(error, NotFound):
                return (Write(error_frame(NOTHING_RUNS, session)), *self._done(session))
            case ("whose", _):
                return (Write(error_frame(error.message)),)
            case ("decide", session):
                return (Write(error_frame(error.message, session)),)
            case (_, session, *_):
                return (Write(error_frame(_error_text(error), session)), *self._done(session))
            case _:
                return (Write(error_frame(error.message)),)

    # --- requests of the client

    def _act(self, message: ClientMessage) -> Sequence[Do]:
        match message:
            case SendMessage(conversation=None):
                # Its queue is new: the id has just been made.
                return self._ask(session_id(self._fresh()), message)
            case SendMessage(conversation=session) | AbortRun(conversation=session) | SubscribeTo(conversation=session):
                assert session is not None
                return self._ask(session, message)
            case DecidePermission():
                return (Perform(("whose", message), q.FindPermission(message.request), message.request),)
            case Ping():
                return (Write(frame({"type": "pong"})),)
            case _:
                assert_never(message)

    def _ask(self, session: SessionId, asked: Asked) -> Sequence[Do]:
        line = self._lines.setdefault(session, SessionQueue())
        if len(line.asked) >= WAITING:
            return (Write(error_frame(f"{WAITING} messages of yours wait already: wait for the agent.", session)),)
        line.asked.append(asked)
        return self._begin(session) if len(line.asked) == 1 else ()

    def _begin(self, session: SessionId) -> Sequence[Do]:
        """Start the first waiting request."""
        line = self._lines[session]
        line.tries = 0
        asked = line.asked[0]
        match asked:
            case SendMessage():
                if line.joined:
                    return (Perform(("send", session), cmd.Send(session=session, content=asked.content), session),)
                if asked.conversation is None:
                    return (Perform(("create", session), cmd.Create(session=session, title=asked.title), session),)
                return (Perform(("place", session), q.GetSession(session), session),)
            case SubscribeTo(last=None):
                return (Perform(("place", session), q.GetSession(session), session),)
            case SubscribeTo():
                # A connection may end between two frames of one entry: read that entry again.
                step = q.ReadEvents(session, max((asked.last or 0) // out.FRAMES - 1, 0), 1)
                return (Perform(("rest", session, asked), step, session),)
            case AbortRun():
                return self._interrupt(session)
            case _:
                assert_never(asked)

    def _done(self, session: SessionId) -> Sequence[Do]:
        line = self._lines[session]
        line.asked.popleft()
        if line.asked:
            return self._begin(session)
        if not line.joined:
            del self._lines[session]
        return ()

    # --- joining

    def _subscribe(self, session: SessionId, cursor: Cursor, joined: JoinedConversation) -> Subscribe:
        return Subscribe(("joined", session, joined), session, cursor, ENCODER)

    def _resume(self, session: SessionId, join: SubscribeTo, page: q.EventPage) -> Subscribe:
        assert join.last is not None
        seq, index = divmod(join.last, out.FRAMES)
        rest = b""
        if page.events and _seq(page.events[0]) == seq:
            frames = out.numbered_frames(session, seq, ev.decode(page.events[0]))
            rest = b"".join(map(frame, frames[index + 1 :]))
        return self._subscribe(session, Cursor(seq, join.log_id), JoinedConversation(rest))

    def _joined(self, session: SessionId, joined: JoinedConversation, answer: Subscribed) -> Sequence[Do]:
        line = self._lines[session]
        line.joined = True
        asked = line.asked[0]
        if isinstance(asked, SendMessage):
            return (*([Write(joined.frames)] if joined.frames else ()), *self._begin(session))
        assert isinstance(asked, SubscribeTo)
        ok = answer.verdict == "ok"
        place = number(answer.head) if asked.last is None else asked.last if ok else 0
        initial = joined if ok else JoinedConversation()
        return (Write(_subscribed(session, answer.verdict, place, answer.log_id, initial)), *self._done(session))

    # --- interrupts

    def _interrupt(self, session: SessionId) -> Sequence[Do]:
        self._lines[session].tries += 1
        return (Perform(("interrupt", session), cmd.Interrupt(session=session), session),)

    def _withdraw(self, session: SessionId, queue: Sequence[q.QueuedView]) -> Sequence[Do]:
        """No turn runs: withdraw a message whose agent is still starting; it never reaches the agent."""
        if not queue:
            return (Write(error_frame(NOTHING_RUNS, session)), *self._done(session))
        step = cmd.CancelMessage(session=session, message=MessageId(queue[0].message))
        return (Perform(("cancel", session), step, session),)


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


def _answer(given: DecidePermission, session: SessionId) -> Perform:
    step = cmd.AnswerPermission(
        session=session,
        request=RequestId(given.request),
        behavior="allow" if given.allow else "deny",
        message=given.message,
    )
    return Perform(("decide", session), step, given.request)


def _error_text(error: FairleadError) -> str:
    gone = isinstance(error, NotFound) and error.data.get("what") == "session"
    return NOT_FOUND if gone else error.message


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
