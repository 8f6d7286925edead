"""One client on the socket: requests and actions in, answers and actions out. Never waits. Pure.

The requests and actions of one session run in the order in which they arrived. A client that comes back gets exactly
the actions that it has not seen (`replay`). If these cannot be told, it is answered like by a host that was restarted:
it initializes again, gets exact snapshots, and sends again what was not confirmed. Repeats of what was done already are
recognised and rejected.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.ahp.channels import PROVIDER, ROOT, chat_of, file_uri, path_of, session_named, session_of
from fairlead.clients.ahp.client_record import ClientRecord
from fairlead.clients.ahp.context import MODE, MODEL, ActionOrigin
from fairlead.clients.ahp.dispatch import Dispatched, perform
from fairlead.clients.ahp.encoder import action_envelope, action_frame
from fairlead.clients.ahp.prompts import client_id
from fairlead.clients.ahp.replay import Replay, replay
from fairlead.clients.ahp.resources import HANDLERS as RESOURCES
from fairlead.clients.ahp.resources import WRITING, refuse_writing
from fairlead.clients.ahp.session_config import AGENT, text_value, thinking_value
from fairlead.clients.ahp.session_list import CODEC, current_frame, root_state
from fairlead.clients.ahp.session_requests import HANDLERS as SESSION_REQUESTS
from fairlead.clients.ahp.session_requests import check_provider
from fairlead.clients.ahp.snapshots import snapshot, time_of
from fairlead.clients.ahp.subscriptions import PAGE_TURNS, Subscriptions, read_turns
from fairlead.clients.ahp.versions import choose_version
from fairlead.clients.ahp.wire import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
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
from fairlead.model.web.sockets import (
    Effect,
    EnterChannel,
    Flow,
    Handshake,
    HoldSubscriptions,
    KeepState,
    Pause,
    RecallState,
    RunFlow,
    Write,
)
from fairlead.sessions.api.folders import ReadSessionChoices

Steps = Generator[Any, Any, Any]

MOST_SUBSCRIPTIONS: Final = 200
"""Channels in one `initialize`."""
ANSWER_S: Final = 1.0
"""Seconds that a client has to apply the answer to `initialize` and `reconnect`, if it sends nothing after it."""
CHANGED_SESSIONS: Final = 100
NOTICE_MS: Final = 10_000
"""A client that comes back gets the sessions of its list that changed since the last action that it has, and the
milliseconds before: at most so many."""


class AhpConversation:
    """Implements `model.web.sockets.SocketProtocol`. Each session has a lane."""

    def __init__(self, opening: Handshake) -> None:
        self._now = opening.now
        self._version = opening.version
        self._name = opening.who.name
        self._client = ""
        self._listed = False
        self._record = ClientRecord()
        self._subscriptions = Subscriptions(self._record)
        self._holding = False
        """Actions wait until the client has applied the answer that was written."""
        self._seen_until = 0
        """The time of the last action that the client had when it came back; 0: it did not come back."""
        self._handlers: dict[str, Callable[[Fields], Steps]] = {
            "initialize": self._initialize,
            "reconnect": self._reconnect,
            "subscribe": self._subscribe,
            "createSession": self._create_session,
            "disposeSession": self._dispose_session,
            "fetchTurns": self._fetch_turns,
            **SESSION_REQUESTS,
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
        self._record.heard()
        effects = () if message is None else self._act(message)
        return (*self._release(), *effects)

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
                if session is None or not self._client:
                    return ()
                chat = chat_of(message.params["channel"]) is not None
                return (RunFlow(self._subscriptions.unsubscribe(session, chat=chat), lane),)
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
            yield from self._after_answer()

    def _after_answer(self) -> Flow:
        """A client that begins or comes back has old states of its channels, and actions must not reach it before it
        has applied the answer. VS Code applies it after all messages that it gets together with it, and then sends
        something; another client may be silent."""
        if self._seen_until and self._listed:
            since, self._seen_until = self._seen_until - NOTICE_MS, 0
            page = yield from do(q.ListSessions(SessionFilter(archived=None, limit=CHANGED_SESSIONS)))
            changed = [current_frame(summary) for summary in page.sessions if summary.updated >= since]
            if changed:
                yield Write(b"".join(changed))
        if self._holding:
            yield Pause(ANSWER_S)
            yield from self._release()

    def _release(self) -> Sequence[Effect]:
        held, self._holding = self._holding, False
        return (HoldSubscriptions(False),) if held else ()

    def _begin(self) -> Steps:
        """Subscribe the channels of an answer; return the sessions that are gone."""
        if not self._subscriptions.waiting:
            return set()
        yield HoldSubscriptions(True)
        lost = yield from self._subscriptions.start()
        self._holding = True
        return lost

    def _result(self, method: str, params: Fields) -> Steps:
        match method:
            case "ping":
                return {}
            case "completions" | "sessionConfigCompletions":
                return {"items": []}
        if method in WRITING:
            raise refuse_writing(method)
        handler = self._handlers.get(method)
        if handler is None:
            raise AhpError(METHOD_NOT_FOUND, f"This host does not know the method {method[:80]}.")
        if not self._client and method not in ("initialize", "reconnect"):
            raise AhpError(INVALID_REQUEST, "Send initialize first.")
        return (yield from handler(params))

    # --- the connection and its subscriptions

    def _initialize(self, params: Fields) -> Steps:
        self._check_new()
        version = choose_version(texts_of(params, "protocolVersions", MOST_SUBSCRIPTIONS))
        client = client_id(params, "clientId")
        snapshots = []
        for channel in texts_of(params, "initialSubscriptions", MOST_SUBSCRIPTIONS):
            try:
                snapshots.append((yield from self._snapshot(channel, wait=True)))
            except FairleadError:
                # The channel is gone, or was never ours: the client sees that its snapshot is missing.
                continue
        choices = yield from do(ReadSessionChoices())
        lost = yield from self._begin()
        snapshots = [one for one in snapshots if session_named(one["resource"]) not in lost]
        number = self._record.next_number(self._now())
        self._record.initialized(number, [one["resource"] for one in snapshots])
        yield from self._open(client)
        return {
            "protocolVersion": version,
            "serverSeq": number,
            "serverInfo": {"name": "fairlead", "version": self._version},
            "defaultDirectory": file_uri(choices.roots[0]),
            "snapshots": snapshots,
        }

    def _reconnect(self, params: Fields) -> Steps:
        client, number = client_id(params, "clientId"), _number(params, "lastSeenServerSeq")
        channels = texts_of(params, "subscriptions", MOST_SUBSCRIPTIONS)
        self._check_new()
        if number is None:
            raise AhpError(INVALID_PARAMS, "lastSeenServerSeq must be a number of this host.")
        self._seen_until = time_of(number)
        old = yield from do(RecallState(_record_key(client)))
        found: Replay | None = None
        if isinstance(old, ClientRecord):
            found = yield from replay(old, number, channels)
        if found is None:
            # Not the other form of the answer, with snapshots: VS Code would then forget the actions that it has sent
            # and that were not confirmed.
            raise AhpError(NOT_FOUND, "What this client has seen is not known here: initialize again.")
        self._record, self._subscriptions = found.record, Subscriptions(found.record)
        if ROOT in channels:
            yield from self._enter_root()
        lost = yield from self._begin()
        missing = [*found.missing, *(channel for channel in channels if session_named(channel) in lost)]
        yield from self._open(client)
        return {"type": "replay", "actions": found.actions, "missing": missing}

    def _open(self, client: str) -> Steps:
        """From now on the client may send other requests. It does so after the answer."""
        self._client = client
        yield KeepState(_record_key(client), self._record)

    def _check_new(self) -> None:
        if self._record.begun:
            raise AhpError(INVALID_REQUEST, "This connection is initialized already.")

    def _subscribe(self, params: Fields) -> Steps:
        return {"snapshot": (yield from self._snapshot(text_of(params, "channel")))}

    def _snapshot(self, channel: str, *, wait: bool = False) -> Steps:
        if channel == ROOT:
            yield from self._enter_root()
            return snapshot(ROOT, root_state(), self._now())
        session, chat = session_of(channel), chat_of(channel)
        if session is not None:
            return (yield from self._subscriptions.subscribe(session, chat=False, wait=wait))
        if chat is not None:
            return (yield from self._subscriptions.subscribe(chat, chat=True, wait=wait))
        raise AhpError(NOT_FOUND, f"There is no channel {channel[:200]}.")

    def _enter_root(self) -> Steps:
        if not self._listed:
            self._listed = True
            yield EnterChannel((yield JoinChannel(CODEC)))

    # --- sessions

    def _create_session(self, params: Fields) -> Steps:
        check_provider(params)
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
            self._record.set_active(session, {**active, "clientId": self._client})
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
        yield Write(self._own_frame(channel, action))
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
                self._record.active.pop(given.session, None)
                confirmed = [given.action]
            else:
                confirmed = yield from perform(given)
        except FairleadError as error:
            yield from self._rejected(params, error)
            return
        frames = [self._own_frame(params["channel"], action, given.origin) for action in confirmed]
        if frames:
            yield Write(b"".join(frames))

    def _own_frame(self, channel: str, action: Fields, origin: ActionOrigin | None = None, rejected: str = "") -> bytes:
        """An action that only this client gets."""
        number = self._record.next_number(self._now())
        frame = action_frame(action_envelope(channel, action, number, origin, rejected))
        self._record.wrote(frame)
        return frame

    def _set_active(self, given: Dispatched) -> list[Fields]:
        active = {**object_of(given.action, "activeClient"), "clientId": self._client}
        self._record.set_active(given.session, active)
        return [{**given.action, "activeClient": active}]

    def _rejected(self, params: Fields, error: FairleadError) -> Sequence[Effect]:
        """The action goes back to its client with the reason: the client takes it back."""
        channel, number, action = params.get("channel"), _number(params), params.get("action")
        if not isinstance(channel, str) or number is None or not isinstance(action, dict):
            return ()
        origin = ActionOrigin(self._client, number)
        return (Write(self._own_frame(channel, action, origin, error.message)),)


def _record_key(client: str) -> str:
    return f"ahp:{client}"


def _session_of(params: Fields) -> SessionId | None:
    """The session whose channel, or whose chat's channel, a message is about."""
    channel = params.get("channel")
    return session_named(channel) if isinstance(channel, str) else None


def _number(params: Fields, name: str = "clientSeq") -> int | None:
    """The client's number of its action, or another number of the protocol."""
    number = params.get(name)
    valid = isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LARGEST_NUMBER
    return number if valid else None
