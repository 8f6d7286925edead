"""One client on the subscribe socket: frames in, effects out. Never waits.

Like the original, it ignores a frame that it cannot decode or does not know. An error is sent only to the client that
sent the frame. The session's output comes through the projection (`fold`, `variants`).
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from fairlead.clients.mylifedb import permission_answers
from fairlead.clients.mylifedb.fold import NAME, read_memory
from fairlead.clients.mylifedb.kinds import read_version
from fairlead.clients.mylifedb.rest import SESSION_GONE
from fairlead.clients.mylifedb.variants import MSGPACK, MyLifeDbEncoder
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.content import TextBlock, ToolResultBlock
from fairlead.model.errors import AgentNotRunning, BadId, BadMode, FairleadError, NotFound
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, SessionId, session_id
from fairlead.model.web.requests import do
from fairlead.model.web.routes import json_response
from fairlead.model.web.sockets import Check, Effect, Flow, Handshake, RunFlow, Signal, Subscribe, Write
from fairlead.sessions.api.read_state import MarkRead

UNSENT: Final = 100
"""The maximum number of a socket's messages that wait for the previous one; a session's queue has the same size."""
ID_LENGTH: Final = 100
SEND_FAILED: Final = "Failed to send message to session"
NOT_RUNNING: Final = "Failed to interrupt session: Cannot interrupt: session not active (no running process)"
COMMANDS: Final = "commands"
REPLAY: Final = "replay"
READ_STATE: Final = "read state"
DELIVERY: Final = "delivery"
ANSWERS: Final = "answers"
"""Lanes: the flows of each run one after another."""


def check_session(opening: Handshake) -> Check:
    """Reject an unknown session before the upgrade."""
    try:
        yield q.GetSession(session_id(opening.params["session"]))
    except (NotFound, BadId):
        return json_response({"error": SESSION_GONE}, 404)
    return None


class MyLifeDbConversation:
    __slots__ = ("_query", "_session", "_unsent", "_variant", "_who")

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
        self._unsent = 0

    # --- SocketProtocol

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(self._open(), REPLAY),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        message = self._variant.read(data, text)
        return () if message is None else self._act(message)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return (self._error(error.message),)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (self._error("Internal server error", error),)

    # --- history

    def _open(self) -> Flow:
        view = yield from do(q.GetSession(self._session))
        # The path may contain the agent's own id of the session.
        self._session = view.summary.session
        yield RunFlow(self._mark_read(_ended_turns(view)), READ_STATE)
        query, last = self._query, self._query.get("last", "")
        if query.keys() & {"pages", "last"}:
            # Pages and the last records are counted from the end, so the session must be fully loaded.
            yield q.WaitLoaded(self._session)
        if "fromUuid" in query:
            yield from self._replay_from(query["fromUuid"])
        elif query.get("pages") == "1":
            pages = read_memory((yield q.ReadProjection(self._session, NAME))).pages
            yield from self._replay(
                (pages.ordinal_range(pages.lowest_burst) or (0,))[0],
                {"type": "session_info", "totalPages": pages.total, "lowestBurstPage": pages.lowest_burst},
            )
        elif last.isascii() and last.isdigit() and len(last) < 10:
            rows = yield from do(q.ReadRows(self._session, NAME, limit=1))
            yield from self._replay(max(0, rows.head - int(last)))
        else:
            yield from self._replay(0)

    def _replay_from(self, uuid: str) -> Flow:
        ordinal = yield from do(q.FindRow(self._session, NAME, uuid))
        verdict = "gap" if ordinal is None else "ok"
        yield from self._replay(ordinal or 0, {"type": "resume", "verdict": verdict, "fromUuid": uuid})

    def _replay(self, after: int, first: dict[str, Any] | None = None) -> Flow:
        """Subscribe from a row on, and send `first` before the rows. A running subscription is replaced."""
        yield Subscribe(self._session, Cursor(after), self._variant, NAME, lost=self.failed)
        if first is not None:
            yield self._write(first)

    # --- requests of the client

    def _act(self, message: dict[str, Any]) -> Sequence[Effect]:
        match message:
            case {"type": "user_message", "content": str(content)} if content:
                return self._user_message(content, message.get("id"))
            case {"type": "control_request", "request_id": str(), "request": {"subtype": "interrupt"}}:
                return (RunFlow(self._attempt(self._interrupt(), "interrupt session"), COMMANDS, ahead=True),)
            case {
                "type": "control_request",
                "request_id": str(asked),
                "request": {"subtype": "set_permission_mode", **rest},
            }:
                mode = rest.get("mode")
                return (RunFlow(self._set_mode(asked, mode if isinstance(mode, str) else ""), COMMANDS, ahead=True),)
            case {
                "type": "control_response",
                "request_id": str(asked),
                "response": {"response": {"behavior": "allow" | "deny"} as given},
            }:
                answer = permission_answers.answer(self._session, asked, given, message.get("always_allow") is True)
                return (RunFlow(self._attempt(answer, "answer the request"), ANSWERS),)
            case {"type": "tool_result", "tool_use_id": str(call), "content": str(content)}:
                steer = self._steer(ToolResultBlock(call, content))
                return (RunFlow(self._attempt(steer, "send tool result"), COMMANDS, ahead=True),)
            case {"type": "subscribe", "fromUuid": str(uuid)} if uuid:
                return (RunFlow(self._replay_from(uuid), REPLAY),)
            case {"type": "typing", "isTyping": bool(active)} if self._who.may("chat"):
                return (RunFlow(self._type(active)),)
            case {"type": "ack", "uuid": str(uuid)} if uuid:
                return (RunFlow(self._acknowledge(uuid), READ_STATE),)
            case _:
                return ()

    def _type(self, active: bool) -> Flow:
        with suppress(FairleadError):
            yield Signal(self._session, "typing", {"active": active})

    def _user_message(self, content: str, asked: Any) -> Sequence[Effect]:
        if self._unsent >= UNSENT:
            return (self._error(SEND_FAILED),)
        named = isinstance(asked, str | int) and not isinstance(asked, bool) and 0 < len(str(asked)) <= ID_LENGTH
        # The key includes the credential: clients of different users number their messages the same way.
        key = f"mylifedb:{self._who.credential}:{asked}" if named else ""
        send = cmd.Send(session=self._session, key=key, content=(TextBlock(content),))
        self._unsent += 1
        return (RunFlow(self._send(send, asked if named else None), COMMANDS),)

    def _send(self, send: cmd.Send, asked: Any) -> Flow:
        """Send one message at a time, so that two messages of one client are never reordered."""
        try:
            reply: cmd.Reply = yield send
        except FairleadError as error:
            yield self._error(SEND_FAILED, error)
            return
        finally:
            self._unsent -= 1
        if asked is not None:
            yield self._write({"type": "ack", "id": asked, "uuid": reply.message})
        if reply.message is not None and not reply.repeated:
            yield RunFlow(self._wait_delivered(reply.message), DELIVERY)
            yield RunFlow(self._unarchive())

    def _wait_delivered(self, message: MessageId) -> Flow:
        """Wait until the message reaches the agent; if that fails, its sender gets an error."""
        try:
            yield q.WaitDelivered(self._session, message)
        except FairleadError as error:
            yield self._error(SEND_FAILED, error)

    def _unarchive(self) -> Flow:
        with suppress(FairleadError):
            view = yield from do(q.GetSession(self._session))
            if view.summary.archived:
                yield cmd.ArchiveSession(session=self._session, archived=False)

    def _attempt(self, flow: Flow, what: str) -> Flow:
        try:
            yield from flow
        except FairleadError as error:
            yield self._error(f"Failed to {what}: {error.message}", error)

    def _interrupt(self) -> Flow:
        try:
            reply = yield from do(cmd.Interrupt(session=self._session))
        except AgentNotRunning as error:
            yield self._error(NOT_RUNNING, error)
        else:
            if (reply.data or {}).get("idle"):
                yield self._error(NOT_RUNNING)

    def _set_mode(self, asked: str, mode: str) -> Flow:
        answer = {"type": "control_response", "request_id": asked}
        try:
            reply = yield from do(cmd.SetMode(session=self._session, mode=mode, request=asked[:ID_LENGTH]))
        except BadMode:
            yield self._write({**answer, "error": f"Invalid permission mode: {mode}"})
        except FairleadError as error:
            yield self._write({**answer, "error": f"Failed to set permission mode: {error.message}"})
        else:
            # A change reaches every client by itself.
            if (reply.data or {}).get("unchanged"):
                yield self._write({**answer, "response": {"subtype": "set_permission_mode", "mode": mode}})

    def _steer(self, result: ToolResultBlock) -> Flow:
        yield cmd.Steer(session=self._session, content=(result,))

    # --- read state: the client expects no answer

    def _acknowledge(self, uuid: str) -> Flow:
        """Mark the ended turns as read if this record is not before their end."""
        with suppress(FairleadError):
            ordinal = yield from do(q.FindRow(self._session, NAME, uuid))
            if ordinal is not None:
                view = yield from do(q.GetSession(self._session))
                memory = read_memory((yield q.ReadProjection(self._session, NAME)))
                if ordinal >= memory.ended:
                    yield MarkRead(self._session, _ended_turns(view))

    def _mark_read(self, turns: int) -> Flow:
        with suppress(FairleadError):
            yield MarkRead(self._session, turns)

    # --- frames

    def _write(self, message: dict[str, Any]) -> Write:
        return Write(self._variant.frame(message))

    def _error(self, text: str, error: FairleadError | None = None) -> Write:
        gone = isinstance(error, NotFound) and error.data.get("what") == "session"
        return self._write({"type": "error", "error": SESSION_GONE if gone else text})


def _ended_turns(view: q.SessionView) -> int:
    return view.summary.turns - (view.turn is not None)
