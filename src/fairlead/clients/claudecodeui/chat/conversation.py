"""One client on the socket /ws: takes frames and returns effects. Never waits.

The requests for one session run in the order in which they arrived. Sending to a session, aborting it or subscribing
to it attaches the socket to that session, and the socket stays attached: from then on every attached socket receives
the output of the session's runs through `chat.frames`. An error goes to the client that sent the frame.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.claudecodeui.chat import messages
from fairlead.clients.claudecodeui.chat.frames import FRAMES, ChatEncoder, frame, number
from fairlead.clients.claudecodeui.chat.history import NAME, HistoryMemory, read_memory
from fairlead.clients.claudecodeui.chat.messages import (
    AbortRun,
    ChatError,
    ClientMessage,
    DecidePermission,
    SendMessage,
    SubscribeTo,
    SubscribeToAll,
)
from fairlead.clients.claudecodeui.chat.prompts import decision, prompt, setting_commands
from fairlead.clients.claudecodeui.chat.session_list import CODEC
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER, Fields
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import Busy, FairleadError, NotAllowed, NotFound, OutsideRoots, Stale
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, SessionId, is_uuid
from fairlead.model.policy import BadRule
from fairlead.model.store import Summary
from fairlead.model.web.broadcast import JoinChannel
from fairlead.model.web.sockets import Do, EnterChannel, Handshake, Perform, SocketRoute, Subscribe, Write
from fairlead.uploads.api import ClaimedUpload, ClaimUploads

WAITING: Final = 100
"""Maximum number of unfinished requests of one socket to one session; a session's message queue has the same limit."""
TRIES: Final = 5
"""Number of attempts of an abort whose message is on its way from the queue to the agent."""

Asked = SendMessage | AbortRun | SubscribeTo


class SessionQueue:
    """The requests for one session; the first one is in progress.

    `since`: this socket has received, or will receive, every log entry after this position; None: it is not attached.
    `whole`: texts are sent whole, not as deltas; `stream` is the client's own choice of that. `last`: the number of the
    last frame of a run when the client last subscribed. `refused`: the rejected rules that the client was last notified
    of, each with its reason."""

    __slots__ = ("asked", "last", "refused", "since", "stream", "tries", "whole")

    def __init__(self) -> None:
        self.asked: deque[Asked] = deque()
        self.since: int | None = None
        self.stream: bool | None = None
        self.whole = False
        self.tries = 0
        self.last = 0
        self.refused: dict[str, str] = {}


class ChatConversation:
    """Implements `model.web.sockets.SocketProtocol`. A step's tag is `(purpose, session, ...)`."""

    __slots__ = ("_focus", "_lines", "_notes", "_now")

    def __init__(self, opening: Handshake) -> None:
        self._now = opening.now
        self._focus: frozenset[str] = frozenset()
        self._lines: dict[SessionId, SessionQueue] = {}
        self._notes = 0

    # --- SocketProtocol

    def opened(self) -> Sequence[Do]:
        return (Perform(("hall",), JoinChannel(CODEC), "hall"),)

    def received(self, data: bytes, text: bool) -> Sequence[Do]:
        try:
            asked = messages.read(data)
            return () if asked is None else self._act(asked)
        except ChatError as error:
            return (self._write_error(error),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Do]:
        return (self._write_error(messages.failed(error, None)),)

    def answered(self, tag: Any, answer: Any) -> Sequence[Do]:
        match tag:
            case ("hall",):
                return (EnterChannel(answer),)
            case ("whole", session):
                return (Perform(("fold", session), q.ReadProjection(session, NAME), session),)
            case ("fold", session):
                return self._on_state(session, read_memory(answer))
            case ("joined", session, HistoryMemory() as memory, place):
                return self._joined(session, memory, place)
            case ("kept", session, HistoryMemory() as memory):
                return self._attached(session, memory)
            case ("settings", session):
                return self._configure(session, msgspec.convert(answer.settings, cmd.Settings))
            case ("set", session, list() as steps):
                return self._prepared(session, steps)
            case ("brought", session, list() as steps):
                refused = (answer.data or {}).get("refused", {})
                return (*self._report_rejected(session, refused), *self._prepared(session, steps))
            case ("taken", session):
                return self._send(session, answer)
            case ("sent", session):
                return self._sent(session)
            case ("stopped" | "withdrawn", session):
                return self._done(session)
            case ("ended", session):
                return (*self._upserted(answer.summary), *self._done(session))
            case ("whose", DecidePermission() as given):
                return (_answer(given, answer),)
            case _:
                return ()

    def failed(self, tag: Any, error: FairleadError) -> Sequence[Do]:
        match tag:
            case ("hall",):
                return (self._write_error(messages.failed(error, None)),)
            case ("whose", DecidePermission() as given):
                stale = isinstance(error, NotFound)
                return (
                    self._expired(given, None, error) if stale else self._write_error(messages.failed(error, None)),
                )
            case ("decided", session, DecidePermission() as given, pending):
                return self._undecided(session, given, pending, error)
            case ("left", _):
                return ()
            case (_, session, *_) if not self._lines[session].asked:
                # The subscribed session is gone, and the socket is closed with it.
                return ()
            case ("whole" | "fold" | "joined", session, *_) if isinstance(error, NotFound):
                return self._unknown(session)
            case ("sent", session) if isinstance(error, Busy):
                return (self._write_error(messages.in_progress(session)), *self._done(session))
            case ("brought", session, list() as steps) if isinstance(error, NotAllowed):
                # A user without the right to approve cannot set rules, but may still send the prompt.
                return (
                    *self._report_rejected(session, self._rejected_rules(session, error)),
                    *self._prepared(session, steps),
                )
            case ("withdrawn", session) if isinstance(error, NotFound):
                return self._retry_abort(session)
            case ("ended", session):
                return self._done(session)
            case (_, session, *_):
                return (self._write_error(messages.failed(error, session)), *self._done(session))
            case _:
                return (self._write_error(messages.failed(error, None)),)

    # --- requests of the client

    def _act(self, asked: ClientMessage) -> Sequence[Do]:
        match asked:
            case SendMessage(session=session):
                return (*self._look_at(session), *self._ask(session, asked))
            case AbortRun(session=session):
                return self._ask(session, asked)
            case SubscribeToAll():
                away = self._look_at(*(join.session for join in asked.sessions))
                return [*away, *(do for join in asked.sessions for do in self._ask(join.session, join))]
            case DecidePermission():
                return (Perform(("whose", asked), q.FindPermission(asked.request), asked.request),)
            case _:
                assert_never(asked)

    def _ask(self, session: SessionId, asked: Asked) -> Sequence[Do]:
        if isinstance(asked, SubscribeTo) and not is_uuid(session):
            return (Write(self._subscribed(session, HistoryMemory())),)
        line = self._lines.setdefault(session, SessionQueue())
        if len(line.asked) >= WAITING:
            text = f"{WAITING} messages of yours wait already: wait for the agent."
            return (self._write_error(ChatError("INTERNAL_ERROR", text, session)),)
        line.asked.append(asked)
        return self._begin(session) if len(line.asked) == 1 else ()

    def _begin(self, session: SessionId) -> Sequence[Do]:
        """Start the first waiting request. Every kind of request begins by reading the session's current state."""
        self._lines[session].tries = 0
        return (self._read_state(session),)

    def _read_state(self, session: SessionId) -> Perform:
        # Before a long transcript is fully loaded into the log, its old entries would be sent as if they were live.
        return Perform(("whole", session), q.WaitLoaded(session), session)

    def _done(self, session: SessionId) -> Sequence[Do]:
        line = self._lines[session]
        line.asked.popleft()
        if line.asked:
            return self._begin(session)
        if line.since is None:
            del self._lines[session]
        return ()

    def _unknown(self, session: SessionId) -> Sequence[Do]:
        if isinstance(self._lines[session].asked[0], SubscribeTo):
            return (Write(self._subscribed(session, HistoryMemory())), *self._done(session))
        return (self._write_error(messages.not_found(session)), *self._done(session))

    # --- the sessions that the client shows

    def _look_at(self, *sessions: SessionId) -> Sequence[Do]:
        """Note the sessions that the client shows, and stop deltas of the others.

        The app concatenates deltas without regard to their session, so it must get none of a session that it does not
        show."""
        if not sessions:
            return ()
        self._focus = frozenset(sessions)
        away = []
        for name, line in self._lines.items():
            if line.since is not None and line.stream is None and not line.whole and name not in self._focus:
                line.whole = True
                away.append(self._go_on(("left", name), name, line))
        return away

    def _go_on(self, tag: Any, session: SessionId, line: SessionQueue) -> Subscribe:
        """Continue the subscription at its position, with or without deltas."""
        return Subscribe(tag, session, None, ChatEncoder(whole=line.whole), keep=True)

    # --- attaching to a session

    def _on_state(self, session: SessionId, memory: HistoryMemory) -> Sequence[Do]:
        line = self._lines[session]
        asked = line.asked[0]
        ours = SessionId(memory.session)
        if ours != session:
            # The client used the agent's own session id.
            self._focus |= {ours}
            return (*self._done(session), *self._ask(ours, msgspec.structs.replace(asked, session=ours)))
        if line.since is not None and (not isinstance(asked, SubscribeTo) or line.since <= _wanted(asked, memory)):
            # Everything up to here has been sent or is on its way: a new subscription would send some of it twice.
            if line.whole and line.stream is None and not memory.processing and not isinstance(asked, AbortRun):
                # The client shows this session again. During a run, deltas would lack the first half of a text.
                line.whole = False
                return (self._go_on(("kept", session, memory), session, line),)
            return self._attached(session, memory)
        return (self._subscribe(session, memory),)

    def _subscribe(self, session: SessionId, memory: HistoryMemory) -> Subscribe:
        line = self._lines[session]
        asked = line.asked[0]
        place, after = memory.seq, 0
        if isinstance(asked, SubscribeTo):
            place, after = _wanted(asked, memory), asked.last if _reaches(asked, memory) else 0
            line.stream = asked.stream
        else:
            line.stream = None
        line.whole = session not in self._focus if line.stream is None else not line.stream
        # Read the entry of the client's last frame again: it may have more frames.
        cursor = Cursor(max(place - 1, 0) if after else place, frame=after, context=memory.known)
        return Subscribe(("joined", session, memory, place), session, cursor, ChatEncoder(whole=line.whole))

    def _joined(self, session: SessionId, memory: HistoryMemory, place: int) -> Sequence[Do]:
        line = self._lines[session]
        line.since, line.last = place, memory.last
        return self._attached(session, memory)

    def _attached(self, session: SessionId, memory: HistoryMemory) -> Sequence[Do]:
        asked = self._lines[session].asked[0]
        match asked:
            case SubscribeTo():
                reply = self._subscribed(session, memory)
                if asked.last and not _reaches(asked, memory):
                    reply += self._error(messages.replay_gap(session))
                line = self._lines[session]
                if memory.processing or line.last == memory.last:
                    return (Write(reply), *self._done(session))
                # The client was attached when a run ended. The app drops its own rows of that run when it reads the
                # history a second time, which it does when it is notified of a change while nothing runs.
                line.last = memory.last
                return (Write(reply), Perform(("ended", session), q.GetSession(session), session))
            case SendMessage():
                return (Perform(("settings", session), q.GetSession(session), session),)
            case AbortRun():
                return self._stop(session, memory)
            case _:
                assert_never(asked)

    # --- a prompt

    def _configure(self, session: SessionId, now: cmd.Settings) -> Sequence[Do]:
        asked = self._lines[session].asked[0]
        assert isinstance(asked, SendMessage)
        return self._prepared(session, setting_commands(asked, now))

    def _prepared(self, session: SessionId, steps: list[cmd.Command]) -> Sequence[Do]:
        if steps:
            tag = "brought" if isinstance(steps[0], cmd.SetRules) else "set"
            return (Perform((tag, session, steps[1:]), steps[0], session),)
        asked = self._lines[session].asked[0]
        assert isinstance(asked, SendMessage)
        if asked.uploads:
            return (Perform(("taken", session), ClaimUploads(asked.uploads), session),)
        return self._send(session, ())

    def _rejected_rules(self, session: SessionId, error: FairleadError) -> dict[str, str]:
        """The rules that came with the prompt, all of them rejected."""
        asked = self._lines[session].asked[0]
        assert isinstance(asked, SendMessage)
        return {} if asked.rules is None else dict.fromkeys((*asked.rules.allow, *asked.rules.deny), error.message)

    def _report_rejected(self, session: SessionId, refused: dict[str, str]) -> Sequence[Do]:
        """Notify the client of rejected rules, once per set: the app sends its rules with every prompt."""
        line = self._lines[session]
        if line.refused == refused:
            return ()
        line.refused = refused
        return (self._write_note(session, messages.rejected_rules_text(refused)),) if refused else ()

    def _send(self, session: SessionId, taken: tuple[ClaimedUpload, ...]) -> Sequence[Do]:
        asked = self._lines[session].asked[0]
        assert isinstance(asked, SendMessage)
        return (Perform(("sent", session), prompt(asked, taken), session),)

    def _sent(self, session: SessionId) -> Sequence[Do]:
        asked = self._lines[session].asked[0]
        assert isinstance(asked, SendMessage)
        if not asked.message:
            return self._done(session)
        # The message has an id of the client's, so its acceptance can be confirmed.
        reply = {**self._fields(session, HistoryMemory(queued={asked.message: None})), "messageId": asked.message}
        return (Write(frame(reply)), *self._done(session))

    # --- an abort

    def _stop(self, session: SessionId, memory: HistoryMemory) -> Sequence[Do]:
        if memory.running:
            return (Perform(("stopped", session), cmd.Interrupt(session=session), session),)
        if memory.queued:
            # Withdraw a message whose agent is still starting; it never reaches the agent.
            message = MessageId(next(iter(memory.queued)))
            return (Perform(("withdrawn", session), cmd.CancelMessage(session=session, message=message), session),)
        return (self._write_error(messages.no_run(session)), *self._done(session))

    def _retry_abort(self, session: SessionId) -> Sequence[Do]:
        """Try the abort again: the message was on its way to the agent, so its run should have started by now."""
        line = self._lines[session]
        line.tries += 1
        if line.tries < TRIES:
            return (self._read_state(session),)
        return (self._write_error(messages.no_run(session)), *self._done(session))

    # --- frames that do not come from the log

    def _subscribed(self, session: str, memory: HistoryMemory) -> bytes:
        return frame(self._fields(session, memory))

    def _fields(self, session: str, memory: HistoryMemory) -> Fields:
        pending = [
            {**asked.fields, "sessionId": session, "receivedAt": iso_timestamp(asked.at)}
            for asked in memory.pending.values()
        ]
        return {
            "kind": "chat_subscribed",
            "sessionId": session,
            "isProcessing": memory.processing,
            "lastSeq": memory.last,
            "pendingPermissions": pending,
            "timestamp": iso_timestamp(self._now()),
        }

    def _upserted(self, summary: Summary) -> Sequence[Do]:
        frames = CODEC.session(summary, self._now())
        return (Write(frames),) if frames else ()

    def _write_error(self, error: ChatError) -> Write:
        return Write(self._error(error))

    def _error(self, error: ChatError) -> bytes:
        fields = {"kind": "protocol_error", "code": error.wire_code, "error": error.message, "sessionId": error.session}
        return frame({**fields, "timestamp": iso_timestamp(self._now())})

    def _write_note(self, session: SessionId, text: str) -> Write:
        """A row for this client only. The app would take a `protocol_error` for the end of the run."""
        self._notes += 1
        fields = {
            "kind": "error",
            "id": f"note-{self._now()}-{self._notes}",
            "sessionId": session,
            "provider": PROVIDER,
        }
        return Write(frame({**fields, "content": text, "timestamp": iso_timestamp(self._now())}))

    def _undecided(
        self, session: SessionId, given: DecidePermission, pending: q.PendingView, error: FairleadError
    ) -> Sequence[Do]:
        if isinstance(error, NotFound | Stale):
            return (self._expired(given, session, error),)
        if given.remember and isinstance(error, BadRule | OutsideRoots):
            # A rule that cannot be remembered must not leave the request open.
            instead = error.data.get("instead", "")
            again = _answer(msgspec.structs.replace(given, remember=instead), pending)
            return (again,) if instead else (self._write_note(session, messages.not_remembered(error)), again)
        return (self._write_error(messages.failed(error, session)),)

    def _expired(self, given: DecidePermission, session: SessionId | None, error: FairleadError) -> Write:
        """The reply to an answer that came too late: the app removes the card and gets the reason; no run ends."""
        fields = {"kind": "permission_cancelled", "requestId": given.request, "sessionId": session}
        return Write(
            frame({**fields, "reason": "cancelled", "error": error.message, "timestamp": iso_timestamp(self._now())})
        )


def _reaches(asked: SubscribeTo, memory: HistoryMemory) -> bool:
    """Whether the client's last frame number lies within this log."""
    return 0 < asked.last <= number(memory.seq)


def _wanted(asked: SubscribeTo, memory: HistoryMemory) -> int:
    """The log position after which the client must receive everything."""
    if _reaches(asked, memory):
        return asked.last // FRAMES
    return memory.run if asked.last == 0 and memory.running else memory.seq


def _answer(given: DecidePermission, pending: q.PendingView) -> Perform:
    return Perform(("decided", pending.session, given, pending), decision(given, pending), given.request)


SOCKET: Final = SocketRoute(
    path="/ws",
    access="view",
    name="claudecodeui.chat",
    open=ChatConversation,
    about="Chat: what runs say as it is said, what a client says to them, and which sessions changed.",
    token_query="token",
)
