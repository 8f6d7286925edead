"""One editor on the socket /acp: takes JSON-RPC messages and returns effects. Never waits.

The calls about one session run in the order in which they arrived. A message that is malformed, or comes too early, is
answered with an error and changes nothing.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from fairlead.clients.acp.open_sessions import OpenSessions
from fairlead.clients.acp.params import (
    CancelRequestParams,
    InitializeParams,
    ListParams,
    ModeParams,
    NewParams,
    OpenParams,
    OptionParams,
    PromptParams,
    SessionParams,
    read_features,
    read_params,
)
from fairlead.clients.acp.requests import split_id
from fairlead.clients.acp.session_list import listed_session
from fairlead.clients.acp.wire import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION,
    BadMessage,
    ClientAnswer,
    ClientCall,
    Fields,
    error_frame,
    read_message,
    result_frame,
)
from fairlead.model import queries as q
from fairlead.model.errors import FairleadError, TooMany
from fairlead.model.ids import SessionId
from fairlead.model.store import SessionFilter
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, Flow, Handshake, RunFlow, Write

UNFINISHED: Final = 200
"""Maximum number of unfinished calls of one socket; an open prompt does not count."""
PAGE: Final = 50


class AcpConversation:
    """Implements `model.web.sockets.SocketProtocol`. Each session has a lane."""

    __slots__ = ("_initialized", "_sessions", "_unfinished", "_version", "_who")

    def __init__(self, opening: Handshake) -> None:
        self._who = opening.who
        self._version = opening.version
        self._sessions = OpenSessions(opening)
        self._initialized = False
        self._unfinished = 0

    # --- SocketProtocol

    def opened(self) -> Sequence[Effect]:
        return ()

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        if not text:
            return ()
        try:
            message = read_message(data)
        except BadMessage as error:
            return (Write(error_frame(error.id, error)),)
        if isinstance(message, ClientAnswer):
            return self._take_answer(message)
        try:
            return self._act(message)
        except FairleadError as error:
            return _refuse(message, error)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return ()

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        try:
            message = read_message(data)
        except BadMessage:
            return ()
        return _refuse(message, error) if isinstance(message, ClientCall) else ()

    # --- calls

    def _act(self, call: ClientCall) -> Sequence[Effect]:
        if call.notification:
            return self._notified(call)
        if call.method == "initialize":
            return self._initialize(call)
        if not self._initialized:
            raise BadMessage(INVALID_REQUEST, "The first call is initialize.")
        if call.method == "session/list":
            return self._run(call, self._list(call, read_params(call, ListParams)))
        session, flow = self._session_flow(call)
        return self._run(call, flow, session)

    def _session_flow(self, call: ClientCall) -> tuple[SessionId, Flow]:
        """The session that a call is about, and the flow of the call."""
        sessions = self._sessions
        match call.method:
            case "session/new":
                return SessionId(""), sessions.new(call.id, read_params(call, NewParams))
            case "session/load":
                opening = read_params(call, OpenParams)
                return opening.session, sessions.load(call.id, opening)
            case "session/resume":
                opening = read_params(call, OpenParams)
                return opening.session, sessions.resume(call.id, opening)
            case "session/prompt":
                prompt = read_params(call, PromptParams)
                return prompt.session, sessions.prompt(call.id, prompt)
            case "session/set_mode":
                mode = read_params(call, ModeParams)
                return mode.session, sessions.set_mode(call.id, mode)
            case "session/set_config_option":
                option = read_params(call, OptionParams)
                return option.session, sessions.set_option(call.id, option)
            case "session/close":
                session = read_params(call, SessionParams).session
                return session, sessions.close(call.id, session)
            case "session/delete":
                session = read_params(call, SessionParams).session
                return session, sessions.delete(call.id, session)
            case _:
                raise BadMessage(METHOD_NOT_FOUND, f"There is no method {call.method[:40]!r}.")

    def _notified(self, call: ClientCall) -> Sequence[Effect]:
        """Unknown notifications are ignored, as the protocol wants it."""
        if call.method == "session/cancel":
            session = read_params(call, SessionParams).session
            return self._run(call, self._sessions.cancel(session), session)
        if call.method == "$/cancel_request":
            # For a prompt like `session/cancel`; the answer to any other call is on its way.
            wanted = read_params(call, CancelRequestParams).requestId
            found = self._sessions.find_prompt(wanted)
            return () if found is None else self._run(call, self._sessions.cancel(found, wanted), found)
        return ()

    def _take_answer(self, answer: ClientAnswer) -> Sequence[Effect]:
        """An answer to a request that is not ours, or of a session that is not open, has no effect."""
        named = split_id(answer.id)
        if named is None or named[0] not in self._sessions or self._unfinished >= UNFINISHED:
            return ()
        call = ClientCall(answer.id, "", {}, notification=True)
        return self._run(call, self._sessions.decide(*named, answer.result), named[0])

    def _run(self, call: ClientCall, flow: Flow, lane: str = "") -> Sequence[Effect]:
        if self._unfinished >= UNFINISHED:
            raise TooMany(f"{UNFINISHED} of your calls are unfinished: wait for their answers.", limit=UNFINISHED)
        self._unfinished += 1
        return (RunFlow(self._answering(call, flow), lane),)

    def _answering(self, call: ClientCall, flow: Flow) -> Flow:
        """Run the flow of a call; if it fails, its error is the answer."""
        try:
            yield from flow
        except FairleadError as error:
            yield from _refuse(call, error)
        finally:
            self._unfinished -= 1

    def _initialize(self, call: ClientCall) -> Sequence[Effect]:
        given = read_params(call, InitializeParams)
        features = read_features(given.clientCapabilities, self._who)
        self._sessions.encoder = structs.replace(self._sessions.encoder, features=features)
        self._initialized = True
        own: Fields = {"list": {}, "resume": {}, "close": {}, "additionalDirectories": {}}
        if self._who.may("chat"):
            own["delete"] = {}
        capabilities = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": own,
        }
        info = {"name": "fairlead", "title": "Fairlead", "version": self._version}
        answer = {"protocolVersion": PROTOCOL_VERSION, "agentInfo": info, "agentCapabilities": capabilities}
        return (Write(result_frame(call.id, {**answer, "authMethods": []})),)

    def _list(self, call: ClientCall, given: ListParams) -> Flow:
        wanted = SessionFilter(cwd=given.cwd or "", before=given.cursor or "", limit=PAGE)
        page = yield from do(q.ListSessions(wanted))
        sessions = [listed_session(summary) for summary in page.sessions]
        yield Write(result_frame(call.id, {"sessions": sessions, **({"nextCursor": page.next} if page.next else {})}))


def _refuse(call: ClientCall, error: FairleadError) -> Sequence[Effect]:
    return () if call.notification else (Write(error_frame(call.id, error)),)
