"""One client on the chat's socket: frames in, things to do out. Never waits.

What is asked of one conversation is done in the order in which it was asked: a message, an interrupt behind it, and so
on. A socket becomes a peer of a conversation by beginning it, by sending to it or by subscribing; what the conversation
says then comes through `chat_frames`, and errors go to the client whose frame it was.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.cognova import chat_frames as out
from fairlead.clients.cognova.chat_frames import VARIANT, error_frame, frame, number
from fairlead.clients.cognova.chat_messages import (
    AbortRun,
    BadFrame,
    DecidePermission,
    Ping,
    Said,
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
from fairlead.model.sockets import Do, Handshake, Perform, SocketRoute, Subscribe, Subscribed, Write

NOT_FOUND: Final = "Conversation not found"
NOTHING_RUNS: Final = "No active session to interrupt"
WAITING: Final = 100
"""What one socket may have asked of one conversation and not have got yet; a session's queue holds as many."""
TRIES: Final = 5
"""How often an interrupt may find its message on the way from the queue to the agent."""

Asked = SendMessage | AbortRun | SubscribeTo


class SessionQueue:
    """What was asked of a conversation, the first of it being done. `joined`: this socket is a peer."""

    __slots__ = ("asked", "joined", "tries")

    def __init__(self) -> None:
        self.asked: deque[Asked] = deque()
        self.joined = False
        self.tries = 0


class JoinedConversation(msgspec.Struct, frozen=True):
    """What a peer is told when it has joined: `status` of the conversation then, and frames before the log's own."""

    told: bytes = b""
    status: str = ""


class ChatConversation:
    """A step's tag is `(what for, conversation, ...)`."""

    __slots__ = ("_fresh", "_lines")

    def __init__(self, opening: Handshake) -> None:
        self._fresh = opening.fresh
        self._lines: dict[SessionId, SessionQueue] = {}

    # --- the conversation's port

    def opened(self) -> Sequence[Do]:
        return (Write(frame({"type": "chat:connected"})),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        try:
            said = read(data)
        except BadFrame as error:
            return (Write(error_frame(error.message, error.conversation)),)
        return () if said is None else self._act(said)

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
                    # It has all up to here or on its way: to begin anew would tell some of it twice.
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
                told = [_interrupted(session)] if state.get("background") else []
                return [*told, *self._done(session)]
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
                return (Write(error_frame(_words(error), session)), *self._done(session))
            case _:
                return (Write(error_frame(error.message)),)

    # --- what a client asks

    def _act(self, said: Said) -> Sequence[Do]:
        match said:
            case SendMessage(conversation=None):
                # Its line is new: nobody knows this id yet.
                return self._ask(session_id(self._fresh()), said)
            case SendMessage(conversation=session) | AbortRun(conversation=session) | SubscribeTo(conversation=session):
                assert session is not None
                return self._ask(session, said)
            case DecidePermission():
                return (Perform(("whose", said), q.FindPermission(said.request), said.request),)
            case Ping():
                return (Write(frame({"type": "pong"})),)
            case _:
                assert_never(said)

    def _ask(self, session: SessionId, asked: Asked) -> Sequence[Do]:
        line = self._lines.setdefault(session, SessionQueue())
        if len(line.asked) >= WAITING:
            return (Write(error_frame(f"{WAITING} messages of yours wait already: wait for the agent.", session)),)
        line.asked.append(asked)
        return self._begin(session) if len(line.asked) == 1 else ()

    def _begin(self, session: SessionId) -> Sequence[Do]:
        """The first of what waits."""
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
                # A connection may end between two frames of one entry.
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

    # --- peers

    def _subscribe(self, session: SessionId, cursor: Cursor, joined: JoinedConversation) -> Subscribe:
        return Subscribe(("joined", session, joined), session, cursor, VARIANT)

    def _resume(self, session: SessionId, join: SubscribeTo, page: q.EventPage) -> Subscribe:
        assert join.last is not None
        seq, told = divmod(join.last, out.FRAMES)
        rest = b""
        if page.events and _seq(page.events[0]) == seq:
            frames = out.numbered(session, seq, ev.decode(page.events[0]))
            rest = b"".join(map(frame, frames[told + 1 :]))
        return self._subscribe(session, Cursor(seq, join.log_id), JoinedConversation(rest))

    def _joined(self, session: SessionId, joined: JoinedConversation, answer: Subscribed) -> Sequence[Do]:
        line = self._lines[session]
        line.joined = True
        asked = line.asked[0]
        if isinstance(asked, SendMessage):
            return (*([Write(joined.told)] if joined.told else ()), *self._begin(session))
        assert isinstance(asked, SubscribeTo)
        ok = answer.verdict == "ok"
        place = number(answer.head) if asked.last is None else asked.last if ok else 0
        told = joined if ok else JoinedConversation()
        return (Write(_subscribed(session, answer.verdict, place, answer.log_id, told)), *self._done(session))

    # --- interrupts

    def _interrupt(self, session: SessionId) -> Sequence[Do]:
        self._lines[session].tries += 1
        return (Perform(("interrupt", session), cmd.Interrupt(session=session), session),)

    def _withdraw(self, session: SessionId, queue: Sequence[q.QueuedView]) -> Sequence[Do]:
        """No turn runs. A message whose agent is being started is taken back; it never reaches the agent."""
        if not queue:
            return (Write(error_frame(NOTHING_RUNS, session)), *self._done(session))
        step = cmd.CancelMessage(session=session, message=MessageId(queue[0].message))
        return (Perform(("cancel", session), step, session),)


def _present(session: SessionId, view: q.SessionView) -> JoinedConversation:
    """What somebody who comes now must know: what waits for a person."""
    waiting = [out.numbered(session, item.seq, ev.decode(item.event)) for item in view.pending]
    told = b"".join(frame(message) for messages in waiting for message in messages)
    return JoinedConversation(told, "streaming" if view.turn is not None else "idle")


def _subscribed(session: SessionId, verdict: str, place: int | None, log_id: str, joined: JoinedConversation) -> bytes:
    """`place`: what comes next is what follows it; None: it goes on as it was."""
    told: out.Frame = {"type": "chat:subscribed", "conversationId": session, "verdict": verdict, "logId": log_id}
    if place is not None:
        told["lastSeq"] = place
    if joined.status:
        told["status"] = joined.status
    return frame(told) + joined.told


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


def _words(error: FairleadError) -> str:
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
