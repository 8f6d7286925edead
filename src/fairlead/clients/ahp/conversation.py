"""One client on the socket: requests and actions in, answers and actions out. Never waits. Pure.

The requests and actions of one session run in the order in which they arrived. Nothing is known of a client that comes
back: `reconnect` is answered like a host that was restarted, so that the client initializes again, gets exact
snapshots, and sends again what was not confirmed. Repeats of what was done already are recognised and rejected.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.ahp.channels import PROVIDER, ROOT, chat_of, file_uri, path_of, session_of
from fairlead.clients.ahp.context import MODE, MODEL, ActionOrigin
from fairlead.clients.ahp.dispatch import Dispatched, perform
from fairlead.clients.ahp.encoder import action_frame
from fairlead.clients.ahp.prompts import client_id
from fairlead.clients.ahp.resources import HANDLERS as RESOURCES
from fairlead.clients.ahp.resources import WRITING, refuse_writing
from fairlead.clients.ahp.session_config import AGENT, new_session_schema, text_value, thinking_value, values_of
from fairlead.clients.ahp.session_list import CODEC, root_state, session_summary
from fairlead.clients.ahp.snapshots import server_seq, snapshot
from fairlead.clients.ahp.subscriptions import PAGE_TURNS, Subscriptions, read_turns
from fairlead.clients.ahp.versions import choose_version
from fairlead.clients.ahp.wire import (
    ALREADY_EXISTS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    PROVIDER_NOT_FOUND,
    SESSION_EXISTS,
    SESSION_NOT_FOUND,
    AhpError,
    Fields,
    RpcMessage,
    error_frame,
    object_of,
    read_message,
    result_frame,
    text_of,
    texts_of,
)
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import FairleadError, Stale
from fairlead.model.formats.numbered_frames import LARGEST_NUMBER
from fairlead.model.ids import SessionId
from fairlead.model.store import SessionFilter
from fairlead.model.web.broadcast import JoinChannel
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, EnterChannel, Flow, Handshake, RunFlow, Write
from fairlead.sessions.api.folders import ReadSessionChoices

Steps = Generator[Any, Any, Any]

MOST_SUBSCRIPTIONS: Final = 200
"""Channels in one `initialize`."""
SESSIONS: Final = 500
"""Sessions in one page of a list."""


class AhpConversation:
    """Implements `model.web.sockets.SocketProtocol`. Each session has a lane."""

    def __init__(self, opening: Handshake) -> None:
        self._now = opening.now
        self._version = opening.version
        self._name = opening.who.name
        self._client = ""
        self._listed = False
        self._subscriptions = Subscriptions()
        self._handlers: dict[str, Callable[[Fields], Steps]] = {
            "initialize": self._initialize,
            "subscribe": self._subscribe,
            "listSessions": self._list_sessions,
            "resolveSessionConfig": self._resolve_config,
            "createSession": self._create_session,
            "disposeSession": self._dispose_session,
            "createChat": self._create_chat,
            "fetchTurns": self._fetch_turns,
            **RESOURCES,
        }

    # --- SocketProtocol

    def opened(self) -> Sequence[Effect]:
        return ()

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        try:
            message = read_message(data)
        except AhpError as error:
            return (Write(error_frame(error.request, error)),)
        return () if message is None else self._act(message)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(error_frame(None, error)),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        try:
            message = read_message(data)
        except AhpError:
            return self.failed(error)
        if message is None:
            return ()
        if message.method == "dispatchAction":
            return self._rejected(message.params, error)
        return () if message.id is None else (Write(error_frame(message.id, error)),)

    # --- messages

    def _act(self, message: RpcMessage) -> Sequence[Effect]:
        session = _session_of(message.params)
        lane = session or ""
        match message:
            case RpcMessage(method="dispatchAction"):
                return self._dispatched(message.params, session)
            case RpcMessage(method="unsubscribe"):
                return () if session is None else (RunFlow(self._unsubscribe(message.params, session), lane),)
            case RpcMessage(id=None):
                return ()
            case _:
                return (RunFlow(self._answer(message), lane),)

    def _answer(self, message: RpcMessage) -> Flow:
        assert message.id is not None
        missing = SESSION_NOT_FOUND if _session_of(message.params) is not None else NOT_FOUND
        try:
            result = yield from self._result(message.method, message.params)
        except FairleadError as error:
            yield Write(error_frame(message.id, error, missing))
        else:
            yield Write(result_frame(message.id, result))

    def _result(self, method: str, params: Fields) -> Steps:
        match method:
            case "ping":
                return {}
            case "reconnect":
                raise AhpError(NOT_FOUND, "This host keeps no state of a client that has left: initialize again.")
            case "completions" | "sessionConfigCompletions":
                return {"items": []}
        if method in WRITING:
            raise refuse_writing(method)
        handler = self._handlers.get(method)
        if handler is None:
            raise AhpError(METHOD_NOT_FOUND, f"This host does not know the method {method[:80]}.")
        if not self._client and method != "initialize":
            raise AhpError(INVALID_REQUEST, "Send initialize first.")
        return (yield from handler(params))

    # --- the connection and its subscriptions

    def _initialize(self, params: Fields) -> Steps:
        version = choose_version(texts_of(params, "protocolVersions", MOST_SUBSCRIPTIONS))
        self._client = client_id(params, "clientId")
        snapshots = []
        for channel in texts_of(params, "initialSubscriptions", MOST_SUBSCRIPTIONS):
            try:
                snapshots.append((yield from self._snapshot(channel)))
            except FairleadError:
                # The channel is gone, or was never ours: the client sees that its snapshot is missing.
                continue
        choices = yield from do(ReadSessionChoices())
        return {
            "protocolVersion": version,
            "serverSeq": server_seq(self._now()),
            "serverInfo": {"name": "fairlead", "version": self._version},
            "defaultDirectory": file_uri(choices.roots[0]),
            "snapshots": snapshots,
        }

    def _subscribe(self, params: Fields) -> Steps:
        return {"snapshot": (yield from self._snapshot(text_of(params, "channel")))}

    def _snapshot(self, channel: str) -> Steps:
        if channel == ROOT:
            if not self._listed:
                self._listed = True
                yield EnterChannel((yield JoinChannel(CODEC)))
            return snapshot(ROOT, root_state(), self._now())
        session, chat = session_of(channel), chat_of(channel)
        if session is not None:
            return (yield from self._subscriptions.subscribe(session, chat=False))
        if chat is not None:
            return (yield from self._subscriptions.subscribe(chat, chat=True))
        raise AhpError(NOT_FOUND, f"There is no channel {channel[:200]}.")

    def _unsubscribe(self, params: Fields, session: SessionId) -> Flow:
        yield from self._subscriptions.unsubscribe(session, chat=chat_of(params["channel"]) is not None)

    # --- sessions

    def _list_sessions(self, params: Fields) -> Steps:
        limit, cursor = params.get("limit"), params.get("cursor")
        most = limit if isinstance(limit, int) and 0 < limit <= SESSIONS else SESSIONS
        before = cursor if isinstance(cursor, str) else ""
        page = yield from do(q.ListSessions(SessionFilter(limit=most, before=before)))
        more = {"nextCursor": page.next} if page.next else {}
        return {"items": [session_summary(summary) for summary in page.sessions], **more}

    def _resolve_config(self, params: Fields) -> Steps:
        _check_provider(params)
        choices, agents = (yield from do(ReadSessionChoices())), (yield from do(q.ListAgents()))
        schema = new_session_schema(choices.modes, agents)
        return {"schema": schema, "values": values_of(schema, object_of(params, "config"))}

    def _create_session(self, params: Fields) -> Steps:
        _check_provider(params)
        session = session_of(text_of(params, "channel"))
        if session is None:
            raise AhpError(INVALID_PARAMS, f"The channel of a session is {PROVIDER}:/ and a UUID.")
        folders, config = texts_of(params, "workingDirectories", 100), object_of(params, "config")
        create = cmd.Create(
            session=session,
            cwd=path_of(folders[0]) if folders else "",
            agent=text_value(config, AGENT),
            settings=cmd.Settings(
                mode=text_value(config, MODE) or "default",
                model=text_value(config, MODEL),
                thinking=thinking_value(config),
            ),
        )
        try:
            yield create
        except Stale as error:
            raise AhpError(SESSION_EXISTS, error.message) from None
        if active := object_of(params, "activeClient"):
            self._subscriptions.set_active(session, {**active, "clientId": self._client})
        return None

    def _dispose_session(self, params: Fields) -> Steps:
        """A session without a message, which no other person watches, is deleted: clients create one for each new chat.
        Another is archived: it is gone from the lists, and all that others see of it stays."""
        session = session_of(text_of(params, "channel"))
        if session is None:
            raise AhpError(SESSION_NOT_FOUND, "There is no such session.")
        view = yield from do(q.GetSession(session))
        used = view.summary.turns or view.queue or view.turn or set(view.watchers) - {self._name}
        yield cmd.ArchiveSession(session=session) if used else cmd.Delete(session=session)
        return None

    def _create_chat(self, params: Fields) -> Steps:
        session, chat = session_of(text_of(params, "channel")), chat_of(text_of(params, "chat"))
        if session is None:
            raise AhpError(SESSION_NOT_FOUND, "There is no such session.")
        yield q.GetSession(session)
        if chat == session:
            raise AhpError(ALREADY_EXISTS, "This is the session's own chat.")
        raise AhpError(INVALID_PARAMS, "A session of this host has one chat: create another session.")

    def _fetch_turns(self, params: Fields) -> Steps:
        channel, cursor = text_of(params, "channel"), params.get("cursor")
        session = chat_of(channel)
        if session is None:
            raise AhpError(NOT_FOUND, "There is no such chat.")
        if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdigit() or len(cursor) > 15:
            raise AhpError(INVALID_PARAMS, "The cursor is not one of this host.")
        turns, more = yield from read_turns(session, None, int(cursor), PAGE_TURNS)
        action: Fields = {"type": "chat/turnsLoaded", "turns": [msgspec.Raw(turn) for turn in turns]}
        if more:
            action["turnsNextCursor"] = more
        yield Write(action_frame(channel, action, server_seq(self._now())))
        return {}

    # --- actions

    def _dispatched(self, params: Fields, session: SessionId | None) -> Sequence[Effect]:
        action = params.get("action")
        if not isinstance(action, dict) or str(action.get("type")).startswith("root/"):
            # VS Code reports dozens of its settings as root/configChanged: they are not ours to store.
            return ()
        number = _number(params)
        if not self._client or session is None or number is None:
            return self._rejected(params, AhpError(INVALID_PARAMS, "There is no such channel."))
        given = Dispatched(session, action, ActionOrigin(self._client, number))
        return (RunFlow(self._dispatch(params, given), session),)

    def _dispatch(self, params: Fields, given: Dispatched) -> Flow:
        try:
            if given.action.get("type") == "session/activeClientSet":
                confirmed = self._set_active(given)
            elif given.action.get("type") == "session/activeClientRemoved":
                self._subscriptions.remove_active(given.session)
                confirmed = [given.action]
            else:
                confirmed = yield from perform(given)
        except FairleadError as error:
            yield from self._rejected(params, error)
            return
        number = server_seq(self._now())
        frames = [action_frame(params["channel"], action, number, given.origin) for action in confirmed]
        if frames:
            yield Write(b"".join(frames))

    def _set_active(self, given: Dispatched) -> list[Fields]:
        active = {**object_of(given.action, "activeClient"), "clientId": self._client}
        self._subscriptions.set_active(given.session, active)
        return [{**given.action, "activeClient": active}]

    def _rejected(self, params: Fields, error: FairleadError) -> Sequence[Effect]:
        """The action goes back to its client with the reason: the client takes it back."""
        channel, number, action = params.get("channel"), _number(params), params.get("action")
        if not isinstance(channel, str) or number is None or not isinstance(action, dict):
            return ()
        origin = ActionOrigin(self._client, number)
        return (Write(action_frame(channel, action, server_seq(self._now()), origin, error.message)),)


def _session_of(params: Fields) -> SessionId | None:
    """The session whose channel, or whose chat's channel, a message is about."""
    channel = params.get("channel")
    return (session_of(channel) or chat_of(channel)) if isinstance(channel, str) else None


def _number(params: Fields) -> int | None:
    """The client's number of its action."""
    number = params.get("clientSeq")
    valid = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LARGEST_NUMBER
    return number if valid else None


def _check_provider(params: Fields) -> None:
    if params.get("provider") != PROVIDER:
        raise AhpError(PROVIDER_NOT_FOUND, f"The one provider of this host is {PROVIDER}.")
