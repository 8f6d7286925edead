"""One client on the chat's socket: takes frames and returns effects. Never waits.

The requests for one conversation run in the order in which they arrived: a message, an interrupt after it, and so on.
A socket joins a conversation by starting it, by sending to it or by subscribing; from then on it receives the
conversation's output through `chat_frames`. An error goes to the client that sent the frame.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairlead.clients.cognova.chat_frames import ENCODER, Frame, error_frame, numbered_frames
from fairlead.clients.cognova.chat_messages import read_answer, read_content, read_conversation, read_frame, read_place
from fairlead.clients.cognova.rest import NOT_FOUND
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.content import Content
from fairlead.model.errors import BadRequest, FairleadError, NotFound
from fairlead.model.formats.frames import json_frame
from fairlead.model.formats.numbered_frames import FRAMES, number
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, SessionId, session_id
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, Flow, Handshake, RunFlow, SocketRoute, Subscribe, Subscribed, Write

NOTHING_RUNS: Final = "No active session to interrupt"
WAITING: Final = 100
"""Maximum number of unfinished requests of one socket to one conversation; a session's message queue has the same
limit."""
TRIES: Final = 5
"""Number of attempts of an interrupt whose message is on its way from the queue to the agent."""


class ChatConversation:
    """Implements `model.web.sockets.SocketProtocol`. Each conversation has a lane."""

    __slots__ = ("_fresh", "_joined", "_unfinished")

    def __init__(self, opening: Handshake) -> None:
        self._fresh = opening.fresh
        self._joined: set[SessionId] = set()
        self._unfinished: dict[SessionId, int] = {}

    # --- SocketProtocol

    def opened(self) -> Sequence[Effect]:
        return (Write(json_frame({"type": "chat:connected"})),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        conversation = SessionId("")
        try:
            message = read_frame(data)
            kind = message.get("type")
            starts = kind == "chat:send" and message.get("conversationId") in (None, "")
            if kind in ("chat:send", "chat:interrupt", "chat:subscribe") and not starts:
                conversation = read_conversation(message)
            return self._act(kind, message, conversation)
        except BadRequest as error:
            return (Write(error_frame(error.message, conversation)),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return (Write(error_frame(error.message)),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(error_frame(error.message)),)

    # --- requests of the client

    def _act(self, kind: Any, message: Mapping[str, Any], conversation: SessionId) -> Sequence[Effect]:
        """`conversation`: empty for a message that starts one."""
        match kind:
            case "chat:send":
                content, title = read_content(message)
                session = conversation or session_id(self._fresh())
                return self._ask(session, self._send(session, content, None if conversation else title))
            case "chat:interrupt":
                return self._ask(conversation, _interrupt(conversation))
            case "chat:subscribe":
                return self._ask(conversation, self._subscribe_to(conversation, *read_place(message)))
            case "chat:permission_response":
                answer = read_answer(message)
                return (RunFlow(_decide(answer), answer.request),)
            case "ping":
                return (Write(json_frame({"type": "pong"})),)
            case _:
                return ()

    def _ask(self, session: SessionId, flow: Flow) -> Sequence[Effect]:
        unfinished = self._unfinished.get(session, 0)
        if unfinished >= WAITING:
            text = f"{WAITING} of your messages are already waiting: wait for the agent."
            return (Write(error_frame(text, session)),)
        self._unfinished[session] = unfinished + 1
        return (RunFlow(self._counted(session, flow), session),)

    def _counted(self, session: SessionId, flow: Flow) -> Flow:
        try:
            yield from flow
        except FairleadError as error:
            yield Write(_session_error(session, error))
        finally:
            self._unfinished[session] -= 1
            if not self._unfinished[session]:
                del self._unfinished[session]

    def _send(self, session: SessionId, content: tuple[Content, ...], title: str | None) -> Flow:
        """Send a message; with a title, start the conversation first."""
        if session not in self._joined:
            if title is not None:
                try:
                    yield cmd.Create(session=session, title=title)
                except FairleadError as error:
                    yield Write(error_frame(error.message))
                    return
                yield Write(json_frame({"type": "chat:session_created", "conversationId": session}))
                yield _subscribe(session, Cursor(0))
            else:
                view = yield from do(q.GetSession(session))
                yield _subscribe(session, Cursor(view.head, view.log_id))
                if frames := _open_requests(session, view):
                    yield Write(frames)
            self._joined.add(session)
        yield cmd.Send(session=session, content=content)

    # --- joining

    def _subscribe_to(self, session: SessionId, last: int | None, log_id: str) -> Flow:
        view = yield from do(q.GetSession(session))
        frames, status = b"", ""
        if last is None:
            frames, status = _open_requests(session, view), "idle" if view.turn is None else "streaming"
            if session in self._joined:
                # Everything up to here has been sent or is on its way: a new subscription would send some of it twice.
                yield Write(_subscribed(session, "ok", None, view.log_id, status) + frames)
                return
            cursor = Cursor(view.head, view.log_id)
        else:
            seq = last // FRAMES
            # A connection may end between two frames of one entry: read that entry again. A position after the log's
            # end is not valid here: the replay then starts at the first entry.
            cursor = Cursor(max(seq - 1, 0) if seq <= view.head else seq, log_id, last)
        answer: Subscribed = yield _subscribe(session, cursor)
        self._joined.add(session)
        ok = answer.verdict == "ok"
        place = number(answer.head) if last is None else last if ok else 0
        reply = _subscribed(session, answer.verdict, place, answer.log_id, status if ok else "")
        yield Write(reply + frames if ok else reply)


def _subscribe(session: SessionId, cursor: Cursor) -> Subscribe:
    return Subscribe(session, cursor, ENCODER, lost=lambda error: (Write(_session_error(session, error)),))


def _interrupt(session: SessionId) -> Flow:
    """End the turn. If none runs, withdraw a message whose agent is still starting; it never reaches the agent."""
    for _ in range(TRIES):
        try:
            reply = yield from do(cmd.Interrupt(session=session))
            state = reply.data or {}
            if not state.get("idle"):
                if state.get("background"):
                    yield _interrupted(session)
                return
            queue = yield from do(q.ReadQueue(session))
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


def _decide(answer: cmd.AnswerPermission) -> Flow:
    try:
        yield answer
    except FairleadError as error:
        yield Write(error_frame(error.message, error.data.get("session", "")))


def _open_requests(session: SessionId, view: q.SessionView) -> bytes:
    """The requests that wait for a person, for a client that joins now."""
    waiting = [numbered_frames(session, item.seq, ev.decode(item.event)) for item in view.pending]
    return b"".join(json_frame(message) for messages in waiting for message in messages)


def _subscribed(session: SessionId, verdict: str, place: int | None, log_id: str, status: str) -> bytes:
    """The frame `chat:subscribed`. `place`: the next frames follow this number; None: the subscription continues
    unchanged. `status`: the conversation's, for a client that joins now."""
    fields: Frame = {"type": "chat:subscribed", "conversationId": session, "verdict": verdict, "logId": log_id}
    if place is not None:
        fields["lastSeq"] = place
    if status:
        fields["status"] = status
    return json_frame(fields)


def _interrupted(session: SessionId) -> Write:
    return Write(json_frame({"type": "chat:interrupted", "conversationId": session}))


def _session_error(session: SessionId, error: FairleadError) -> bytes:
    gone = isinstance(error, NotFound) and error.data.get("what") == "session"
    return error_frame(NOT_FOUND["session"] if gone else error.message, session)


SOCKET: Final = SocketRoute(path="/_ws/chat", access="view", name="cognova.chat", open=ChatConversation)
