"""One client on the socket /ws: takes frames and returns effects. Never waits.

The requests for one session run in the order in which they arrived. Sending to a session, aborting it or subscribing
to it attaches the socket to that session, and the socket stays attached: from then on every attached socket receives
the output of the session's runs through `chat.frames`. An error goes to the client that sent the frame.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

import msgspec
from msgspec import structs

from fairlead.clients.claudecodeui.chat import messages
from fairlead.clients.claudecodeui.chat.attachments import message_blocks
from fairlead.clients.claudecodeui.chat.frames import ChatEncoder
from fairlead.clients.claudecodeui.chat.history import NAME, HistoryMemory, read_memory
from fairlead.clients.claudecodeui.chat.messages import AbortRun, ChatError, SendMessage, SubscribeTo
from fairlead.clients.claudecodeui.chat.session_list import CODEC
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import Busy, FairleadError, NotAllowed, NotFound, OutsideRoots, Stale
from fairlead.model.formats.frames import json_frame
from fairlead.model.formats.numbered_frames import FRAMES, number
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, SessionId, is_uuid
from fairlead.model.policy import BadRule
from fairlead.model.web.broadcast import JoinChannel
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Effect, EnterChannel, Flow, Handshake, RunFlow, SocketRoute, Subscribe, Write
from fairlead.uploads.api import ClaimedUpload, ClaimUploads

WAITING: Final = 100
"""Maximum number of unfinished requests of one socket to one session; a session's message queue has the same limit."""
TRIES: Final = 5
"""Number of attempts of an abort whose message is on its way from the queue to the agent."""

Asked = SendMessage | AbortRun | SubscribeTo


class Attachment(msgspec.Struct):
    """This socket's relation to one session. `unfinished`: the number of its requests.

    `since`: this socket has received, or will receive, every log entry after this position; None: it is not attached.
    `whole`: texts are sent whole, not as deltas; `stream` is the client's own choice of that. `last`: the number of the
    last frame of a run when the client last subscribed. `refused`: the rejected rules that the client was last notified
    of, each with its reason."""

    unfinished: int = 0
    since: int | None = None
    stream: bool | None = None
    whole: bool = False
    last: int = 0
    refused: dict[str, str] = {}


class ChatConversation:
    """Implements `model.web.sockets.SocketProtocol`. Each session has a lane."""

    __slots__ = ("_attachments", "_focus", "_notes", "_now")

    def __init__(self, opening: Handshake) -> None:
        self._now = opening.now
        self._focus: frozenset[str] = frozenset()
        self._attachments: dict[SessionId, Attachment] = {}
        self._notes = 0

    # --- SocketProtocol

    def opened(self) -> Sequence[Effect]:
        return (RunFlow(_join_session_list()),)

    def received(self, data: bytes, text: bool) -> Sequence[Effect]:
        try:
            return self._act(messages.read_frame(data))
        except ChatError as error:
            return (Write(self._error(error)),)

    def throttled(self, data: bytes, text: bool, error: FairleadError) -> Sequence[Effect]:
        return self.failed(error)

    def failed(self, error: FairleadError) -> Sequence[Effect]:
        return (Write(self._error(messages.failed(error, None))),)

    # --- requests of the client

    def _act(self, message: Mapping[str, Any]) -> Sequence[Effect]:
        match message.get("type"):
            case "chat.send":
                asked = messages.read_prompt(message)
                return (*self._look_at(asked.session), *self._ask(asked))
            case "chat.abort":
                return self._ask(AbortRun(messages.read_session(message, "chat.abort")))
            case "chat.subscribe":
                joins = messages.read_subscriptions(message)
                away = self._look_at(*(join.session for join in joins))
                return [*away, *(effect for join in joins for effect in self._ask(join))]
            case "chat.permission-response":
                answer = messages.read_answer(message)
                return () if answer is None else (RunFlow(self._decide(answer), answer.request),)
            case _:
                raise messages.unknown_type(message)

    def _ask(self, asked: Asked) -> Sequence[Effect]:
        session = asked.session
        if isinstance(asked, SubscribeTo) and not is_uuid(session):
            return (Write(self._subscribed(session, HistoryMemory())),)
        attachment = self._attachments.setdefault(session, Attachment())
        if attachment.unfinished >= WAITING:
            text = f"{WAITING} of your messages are already waiting: wait for the agent."
            return (Write(self._error(ChatError("INTERNAL_ERROR", text, session))),)
        attachment.unfinished += 1
        return (RunFlow(self._handle(session, asked, attachment), session),)

    def _handle(self, session: SessionId, asked: Asked, attachment: Attachment) -> Flow:
        try:
            try:
                memory = yield from self._attach(session, asked, attachment)
            except NotFound:
                if isinstance(asked, SubscribeTo):
                    yield Write(self._subscribed(session, HistoryMemory()))
                else:
                    yield Write(self._error(messages.session_error("SESSION_NOT_FOUND", session)))
                return
            if memory is None:
                return
            match asked:
                case SubscribeTo():
                    yield from self._confirm(session, asked, attachment, memory)
                case SendMessage():
                    yield from self._send(session, asked, attachment)
                case AbortRun():
                    yield from self._abort(session, asked, attachment, memory)
                case _:
                    assert_never(asked)
        except FairleadError as error:
            yield Write(self._error(messages.failed(error, session)))
        finally:
            attachment.unfinished -= 1
            if not attachment.unfinished and attachment.since is None:
                self._attachments.pop(session, None)

    # --- the sessions that the client shows

    def _look_at(self, *sessions: SessionId) -> Sequence[Effect]:
        """Note the sessions that the client shows, and stop deltas of the others.

        The app concatenates deltas without regard to their session, so it must get none of a session that it does not
        show."""
        if not sessions:
            return ()
        self._focus = frozenset(sessions)
        away = []
        for name, line in self._attachments.items():
            if line.since is not None and line.stream is None and not line.whole and name not in self._focus:
                line.whole = True
                away.append(RunFlow(self._stop_deltas(name)))
        return away

    def _stop_deltas(self, session: SessionId) -> Flow:
        with suppress(FairleadError):
            yield self._continue(session, whole=True)

    def _continue(self, session: SessionId, *, whole: bool) -> Subscribe:
        """Continue the subscription at its position, with or without deltas."""
        return Subscribe(session, None, ChatEncoder(whole=whole), keep=True)

    # --- attaching to a session

    def _attach(
        self, session: SessionId, asked: Asked, attachment: Attachment
    ) -> Generator[Any, Any, HistoryMemory | None]:
        """Attach the socket as the request needs it, and return the session's state; None if the client used the
        agent's own id of the session: then the request runs again with ours."""
        # Before a long transcript is fully loaded into the log, its old entries would be sent as if they were live.
        yield q.WaitLoaded(session)
        memory = read_memory((yield q.ReadProjection(session, NAME)))
        ours = SessionId(memory.session)
        if ours != session:
            self._focus |= {ours}
            yield from self._ask(structs.replace(asked, session=ours))
            return None
        since = attachment.since
        if since is not None and (not isinstance(asked, SubscribeTo) or since <= _wanted(asked, memory)):
            # Everything up to here has been sent or is on its way: a new subscription would send some of it twice.
            shown_again = attachment.whole and attachment.stream is None and not isinstance(asked, AbortRun)
            if shown_again and not memory.processing:
                # The client shows this session again. During a run, deltas would lack the first half of a text.
                attachment.whole = False
                yield self._continue(session, whole=False)
            return memory
        place, after = memory.seq, 0
        attachment.stream = None
        if isinstance(asked, SubscribeTo):
            place, after = _wanted(asked, memory), asked.last if _reaches(asked, memory) else 0
            attachment.stream = asked.stream
        stream = attachment.stream
        attachment.whole = session not in self._focus if stream is None else not stream
        # Read the entry of the client's last frame again: it may have more frames.
        cursor = Cursor(max(place - 1, 0) if after else place, frame=after, context=memory.known)
        yield Subscribe(session, cursor, ChatEncoder(whole=attachment.whole))
        attachment.since, attachment.last = place, memory.last
        return memory

    def _confirm(self, session: SessionId, asked: SubscribeTo, attachment: Attachment, memory: HistoryMemory) -> Flow:
        reply = self._subscribed(session, memory)
        if asked.last and not _reaches(asked, memory):
            reply += self._error(messages.session_error("REPLAY_GAP", session))
        yield Write(reply)
        if memory.processing or attachment.last == memory.last:
            return
        # The client was attached when a run ended. The app drops its own rows of that run when it reads the history a
        # second time, which it does when it is notified of a change while nothing runs.
        attachment.last = memory.last
        with suppress(FairleadError):
            view = yield from do(q.GetSession(session))
            if frames := CODEC.session(view.summary, self._now()):
                yield Write(frames)

    # --- a prompt

    def _send(self, session: SessionId, asked: SendMessage, attachment: Attachment) -> Flow:
        view = yield from do(q.GetSession(session))
        for command in _setting_commands(asked, msgspec.convert(view.settings, cmd.Settings)):
            try:
                reply: cmd.Reply = yield command
                refused = (reply.data or {}).get("refused", {})
            except NotAllowed as error:
                # A user without the right to approve cannot set rules, but may still send the prompt.
                if not isinstance(command, cmd.SetRules) or asked.rules is None:
                    raise
                refused = dict.fromkeys((*asked.rules.allow, *asked.rules.deny), error.message)
            # Once per set: the app sends its rules with every prompt.
            if isinstance(command, cmd.SetRules) and attachment.refused != refused:
                attachment.refused = refused
                if refused:
                    yield self._write_note(session, messages.rejected_rules_text(refused))
        uploads: tuple[ClaimedUpload, ...] = (yield ClaimUploads(asked.uploads)) if asked.uploads else ()
        message, content = MessageId(asked.message) if asked.message else None, message_blocks(asked.text, uploads)
        try:
            yield cmd.Send(session=session, content=content, message=message, wait=asked.queue)
        except Busy:
            yield Write(self._error(messages.session_error("RUN_IN_PROGRESS", session)))
            return
        if asked.message:
            # The message has an id of the client's, so its acceptance can be confirmed.
            queued = HistoryMemory(queued={asked.message: None})
            yield Write(self._subscribed(session, queued, messageId=asked.message))

    # --- an abort

    def _abort(self, session: SessionId, asked: AbortRun, attachment: Attachment, memory: HistoryMemory) -> Flow:
        for _ in range(TRIES):
            if memory.running:
                yield cmd.Interrupt(session=session)
                return
            if not memory.queued:
                break
            # Withdraw a message whose agent is still starting; it never reaches the agent.
            message = MessageId(next(iter(memory.queued)))
            try:
                yield cmd.CancelMessage(session=session, message=message)
            except NotFound:
                # The message was on its way to the agent, so its run should have started by now.
                memory = (yield from self._attach(session, asked, attachment)) or memory
            else:
                return
        yield Write(self._error(messages.session_error("NO_ACTIVE_RUN", session)))

    # --- a permission

    def _decide(self, answer: cmd.AnswerPermission) -> Flow:
        try:
            try:
                yield answer
            except (BadRule, OutsideRoots) as error:
                if not answer.remember:
                    raise
                # A rule that cannot be remembered must not leave the request open.
                instead = error.data.get("instead", "")
                if not instead:
                    yield self._write_note(error.data["session"], messages.not_remembered(error))
                yield structs.replace(answer, remember=(instead,) if instead else ())
        except (NotFound, Stale) as error:
            yield self._expired(answer, error)
        except FairleadError as error:
            yield Write(self._error(messages.failed(error, error.data.get("session"))))

    # --- frames that do not come from the log

    def _subscribed(self, session: str, memory: HistoryMemory, **more: object) -> bytes:
        pending = [
            {**asked.fields, "sessionId": session, "receivedAt": iso_timestamp(asked.at)}
            for asked in memory.pending.values()
        ]
        fields = {
            "kind": "chat_subscribed",
            "sessionId": session,
            "isProcessing": memory.processing,
            "lastSeq": memory.last,
            "pendingPermissions": pending,
            "timestamp": iso_timestamp(self._now()),
        }
        return json_frame({**fields, **more})

    def _stamped(self, **fields: object) -> bytes:
        return json_frame({**fields, "timestamp": iso_timestamp(self._now())})

    def _error(self, error: ChatError) -> bytes:
        return self._stamped(kind="protocol_error", code=error.wire_code, error=error.message, sessionId=error.session)

    def _write_note(self, session: SessionId, text: str) -> Write:
        """A row for this client only. The app would take a `protocol_error` for the end of the run."""
        self._notes += 1
        name = f"note-{self._now()}-{self._notes}"
        return Write(self._stamped(kind="error", id=name, sessionId=session, provider=PROVIDER, content=text))

    def _expired(self, answer: cmd.AnswerPermission, error: FairleadError) -> Write:
        """The reply to an answer that came too late: the app removes the card and gets the reason; no run ends."""
        session = error.data.get("session")
        fields = {"kind": "permission_cancelled", "requestId": answer.request, "sessionId": session}
        return Write(self._stamped(**fields, reason="cancelled", error=error.message))


def _setting_commands(asked: SendMessage, now: cmd.Settings) -> list[cmd.Command]:
    """The commands that apply the prompt's settings, to run one after the other before the prompt."""
    session = asked.session
    steps: list[cmd.Command] = []
    if asked.rules is not None:
        steps.append(structs.replace(asked.rules, session=session))
    if asked.effort and asked.effort != now.effort:
        steps.append(cmd.Configure(session=session, settings=structs.replace(now, effort=asked.effort)))
    if asked.mode and asked.mode != now.mode:
        steps.append(cmd.SetMode(session=session, mode=asked.mode))
    if asked.model and asked.model != now.model:
        steps.append(cmd.SetModel(session=session, model=asked.model))
    return steps


def _reaches(asked: SubscribeTo, memory: HistoryMemory) -> bool:
    """Whether the client's last frame number lies within this log."""
    return 0 < asked.last <= number(memory.seq)


def _wanted(asked: SubscribeTo, memory: HistoryMemory) -> int:
    """The log position after which the client must receive everything."""
    if _reaches(asked, memory):
        return asked.last // FRAMES
    return memory.run if asked.last == 0 and memory.running else memory.seq


def _join_session_list() -> Flow:
    yield EnterChannel((yield JoinChannel(CODEC)))


SOCKET: Final = SocketRoute(
    path="/ws", access="view", name="claudecodeui.chat", open=ChatConversation, token_query="token"
)
