"""One client on the subscribe socket: frames in, effects out. Never waits.

Like the original, it ignores a frame that it cannot decode or does not know. An error is sent only to the client that
sent the frame. The session's output comes through the projection (`fold`, `variants`).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from fairlead.clients.mylifedb.fold import NAME, read_memory
from fairlead.clients.mylifedb.kinds import read_version
from fairlead.clients.mylifedb.permission_answers import PermissionAnswers
from fairlead.clients.mylifedb.rest import SESSION_GONE
from fairlead.clients.mylifedb.variants import MSGPACK, MyLifeDbEncoder
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.content import TextBlock, ToolResultBlock
from fairlead.model.errors import AgentNotRunning, BadId, BadMode, FairleadError, NotFound, Stale
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId, session_id
from fairlead.model.web.routes import json_response
from fairlead.model.web.sockets import Check, Do, Handshake, Perform, Signal, Subscribe, Write
from fairlead.sessions.api.read_state import MarkRead

UNSENT: Final = 100
"""The maximum number of a socket's messages that wait for the previous one; a session's queue has the same size."""
ID_LENGTH: Final = 100
SEND_FAILED: Final = "Failed to send message to session"
NOT_RUNNING: Final = "Failed to interrupt session: Cannot interrupt: session not active (no running process)"
COMMANDS: Final = "commands"
REPLAY: Final = "replay"
READ_STATE: Final = "shown"
DELIVERY: Final = "delivery"
"""Lanes: within each lane, answers come in the order of their steps."""


def check_session(opening: Handshake) -> Check:
    """Reject an unknown session before the upgrade."""
    try:
        yield q.GetSession(session_id(opening.params["session"]))
    except (NotFound, BadId):
        return json_response({"error": SESSION_GONE}, 404)
    return None


class MyLifeDbConversation:
    """One client's connection. A step's `tag` is a tuple: its purpose, then the values needed to handle its answer."""

    __slots__ = ("_answering", "_delivering", "_query", "_session", "_undelivered", "_unsent", "_variant", "_who")

    def __init__(self, opening: Handshake) -> None:
        self._who = opening.who
        self._session = SessionId(opening.params["session"].lower())
        self._query = {name: opening.query[name] for name in ("pages", "last", "fromUuid") if name in opening.query}
        self._variant = MyLifeDbEncoder(
            packed=opening.subprotocol == MSGPACK,
            strip=opening.query.get("pages") == "1",
            state=opening.query.get("state") == "1",
            records=read_version(opening.query.get("records", "")),
        )
        self._answering = PermissionAnswers(self._session)
        self._unsent: deque[tuple[Any, cmd.Send]] = deque()
        """Messages to send, in order. The first one is already being sent."""
        self._undelivered: deque[str] = deque()
        self._delivering = False

    # --- SocketProtocol

    def opened(self) -> Sequence[Do]:
        return (Perform(("opened",), q.GetSession(self._session), REPLAY),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        message = self._variant.read(data, text)
        return () if message is None else self._act(message)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return self._error(error.message)

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        match tag:
            case ("opened",):
                # The path may contain the agent's own id of the session.
                self._session = answer.summary.session
                # Pages and the last records are counted from the end, so the session must be fully loaded.
                counted = self._query.keys() & {"pages", "last"}
                begin = (Perform(("whole",), q.WaitLoaded(self._session), REPLAY),) if counted else self._begin()
                return (*begin, *self._mark(None, answer))
            case ("whole",):
                return self._begin()
            case ("pages",):
                return self._burst(answer)
            case ("last", int() as count):
                return self._replay(max(0, answer.head - count))
            case ("from", str() as uuid):
                verdict = "gap" if answer is None else "ok"
                return self._replay(answer or 0, {"type": "resume", "verdict": verdict, "fromUuid": uuid})
            case ("history", first):
                return () if first is None else (self._write(first),)
            case ("send", asked):
                return self._sent(asked, answer)
            case ("delivered",):
                return self._deliver()
            case ("unarchive",):
                return self._unarchive(answer)
            case ("interrupt",):
                return self._error(NOT_RUNNING) if (answer.data or {}).get("idle") else ()
            case ("mode", str() as request, str() as mode):
                if not (answer.data or {}).get("unchanged"):
                    return ()  # every client gets the change itself
                response = {"subtype": "set_permission_mode", "mode": mode}
                return (self._write({"type": "control_response", "request_id": request, "response": response}),)
            case ("pending", given):
                return self._answering.answer_pending(given, answer)
            case ("shown", int() as ordinal):
                return self._mark(ordinal, answer)
            case ("acked", str()):
                return () if answer is None else (Perform(("shown", answer), q.GetSession(self._session), READ_STATE),)
            case ("ends", ordinal, turns):
                memory = read_memory(answer)
                return self._marked(turns) if ordinal >= memory.ended else ()
            case _:
                return ()

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        match tag:
            case ("send", _):
                self._unsent.popleft()
                return (*self._error(SEND_FAILED, error), *self._send_next())
            case ("delivered",):
                return (*self._error(SEND_FAILED, error), *self._deliver())
            case ("interrupt",):
                text = (
                    NOT_RUNNING
                    if isinstance(error, AgentNotRunning)
                    else f"Failed to interrupt session: {error.message}"
                )
                return self._error(text, error)
            case ("mode", str() as request, str() as mode):
                text = f"Failed to set permission mode: {error.message}"
                if isinstance(error, BadMode):
                    text = f"Invalid permission mode: {mode}"
                return (self._write({"type": "control_response", "request_id": request, "error": text}),)
            case ("answer", _) if isinstance(error, Stale):
                return ()  # settled meanwhile: every client has received the outcome
            case ("answer", given):
                again = self._answering.retry_narrower(given, error)
                return again or self._error(f"Failed to answer the request: {error.message}", error)
            case ("tool_result",):
                return self._error(f"Failed to send tool result: {error.message}", error)
            case ("shown", _) | ("acked", _) | ("ends", _, _) | ("typing",) | ("unarchive",):
                return ()  # the client expects no answer
            case _:
                return self._error("Internal server error", error)

    # --- history

    def _begin(self) -> Sequence[Do]:
        query = self._query
        if "fromUuid" in query:
            return self._from(query["fromUuid"])
        if query.get("pages") == "1":
            return (Perform(("pages",), q.ReadProjection(self._session, NAME), REPLAY),)
        last = query.get("last", "")
        if last.isascii() and last.isdigit() and len(last) < 10:
            return (Perform(("last", int(last)), q.ReadRows(self._session, NAME, limit=1), REPLAY),)
        return self._replay(0)

    def _from(self, uuid: str) -> Sequence[Do]:
        return (Perform(("from", uuid), q.FindRow(self._session, NAME, uuid), REPLAY),)

    def _burst(self, memory: bytes) -> Sequence[Do]:
        pages = read_memory(memory).pages
        first = {"type": "session_info", "totalPages": pages.total, "lowestBurstPage": pages.lowest_burst}
        stretch = pages.ordinal_range(pages.lowest_burst)
        return self._replay(0 if stretch is None else stretch[0], first)

    def _replay(self, after: int, first: dict[str, Any] | None = None) -> Sequence[Do]:
        """Subscribe from a row on, and send `first` before the rows. A running subscription is replaced."""
        return (Subscribe(("history", first), self._session, Cursor(after), self._variant, NAME),)

    # --- requests of the client

    def _act(self, message: dict[str, Any]) -> Sequence[Do]:
        match message.get("type"):
            case "user_message":
                return self._user_message(message)
            case "control_request":
                return self._control(message)
            case "control_response":
                return self._answering.received(message)
            case "tool_result":
                return self._tool_result(message)
            case "subscribe":
                uuid = message.get("fromUuid")
                return self._from(uuid) if isinstance(uuid, str) and uuid else ()
            case "typing":
                typing = message.get("isTyping")
                if not isinstance(typing, bool) or not self._who.may("chat"):
                    return ()
                return (Signal(("typing",), self._session, "typing", {"active": typing}),)
            case "ack":
                uuid = message.get("uuid")
                if not isinstance(uuid, str) or not uuid:
                    return ()
                return (Perform(("acked", uuid), q.FindRow(self._session, NAME, uuid), READ_STATE),)
            case _:
                return ()

    def _user_message(self, message: dict[str, Any]) -> Sequence[Do]:
        content, asked = message.get("content"), message.get("id")
        if not isinstance(content, str) or not content:
            return ()
        if len(self._unsent) >= UNSENT:
            return self._error(SEND_FAILED)
        named = isinstance(asked, str | int) and not isinstance(asked, bool) and 0 < len(str(asked)) <= ID_LENGTH
        # The key includes the credential: clients of different users number their messages the same way.
        key = f"mylifedb:{self._who.credential}:{asked}" if named else ""
        send = cmd.Send(session=self._session, key=key, content=(TextBlock(content),))
        self._unsent.append((asked if named else None, send))
        return self._send_next() if len(self._unsent) == 1 else ()

    def _send_next(self) -> Sequence[Do]:
        """Send one message at a time, so that two messages of one client are never reordered."""
        if not self._unsent:
            return ()
        asked, send = self._unsent[0]
        return (Perform(("send", asked), send, COMMANDS),)

    def _sent(self, asked: Any, reply: cmd.Reply) -> Sequence[Do]:
        self._unsent.popleft()
        done: list[Do] = []
        if asked is not None:
            done.append(self._write({"type": "ack", "id": asked, "uuid": reply.message}))
        if reply.message is not None and not reply.repeated:
            self._undelivered.append(reply.message)
            if not self._delivering:
                done.extend(self._deliver())
            done.append(Perform(("unarchive",), q.GetSession(self._session), COMMANDS))
        return (*done, *self._send_next())

    def _deliver(self) -> Sequence[Do]:
        """Wait until the next message reaches the agent; if that fails, its sender gets an error."""
        self._delivering = bool(self._undelivered)
        if not self._undelivered:
            return ()
        return (Perform(("delivered",), q.WaitDelivered(self._session, self._undelivered.popleft()), DELIVERY),)

    def _unarchive(self, view: Any) -> Sequence[Do]:
        if not isinstance(view, q.SessionView) or not view.summary.archived:
            return ()
        return (Perform(("unarchive",), cmd.ArchiveSession(session=self._session, archived=False), COMMANDS),)

    def _control(self, message: dict[str, Any]) -> Sequence[Do]:
        request, asked = message.get("request"), message.get("request_id")
        if not isinstance(request, dict) or not isinstance(asked, str):
            return ()
        match request.get("subtype"):
            case "interrupt":
                return (Perform(("interrupt",), cmd.Interrupt(session=self._session), COMMANDS),)
            case "set_permission_mode":
                mode = request.get("mode")
                mode = mode if isinstance(mode, str) else ""
                step = cmd.SetMode(session=self._session, mode=mode, request=asked[:ID_LENGTH])
                return (Perform(("mode", asked, mode), step, COMMANDS),)
            case _:
                return ()

    def _tool_result(self, message: dict[str, Any]) -> Sequence[Do]:
        call, content = message.get("tool_use_id"), message.get("content")
        if not isinstance(call, str) or not isinstance(content, str):
            return ()
        blocks = (ToolResultBlock(call, content),)
        return (Perform(("tool_result",), cmd.Steer(session=self._session, content=blocks), COMMANDS),)

    # --- read state

    def _mark(self, ordinal: int | None, view: q.SessionView) -> Sequence[Do]:
        """Mark the ended turns as read: always on connecting; on an `ack`, if its record is not before their end."""
        turns = view.summary.turns - (view.turn is not None)
        if ordinal is None:
            return self._marked(turns)
        return (Perform(("ends", ordinal, turns), q.ReadProjection(self._session, NAME), READ_STATE),)

    def _marked(self, turns: int) -> Sequence[Do]:
        return (Perform(("marked",), MarkRead(self._session, turns), READ_STATE),)

    # --- frames

    def _write(self, message: dict[str, Any]) -> Write:
        return Write(self._variant.frame(message))

    def _error(self, text: str, error: FairleadError | None = None) -> Sequence[Do]:
        gone = isinstance(error, NotFound) and error.data.get("what") == "session"
        return (self._write({"type": "error", "error": SESSION_GONE if gone else text}),)
