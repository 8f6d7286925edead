"""The sessions that one editor has open, and the flows of its calls about them. Pure.

What a session sends comes through its encoder. A call that changes what the encoder must know (a new prompt, an answer
to a request) continues the subscription at its position with a changed encoder, before the change is in the log.
"""

from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import structs

from fairlead.clients.acp.encoder import AcpEncoder, OpenPrompt, SessionOpening
from fairlead.clients.acp.options import (
    OfferedOptions,
    config_options,
    current_options,
    mode_state,
    offered_modes,
    option_command,
)
from fairlead.clients.acp.params import (
    ModeParams,
    NewParams,
    OpenParams,
    OptionParams,
    PromptParams,
    prompt_content,
    read_folders,
)
from fairlead.clients.acp.requests import answer_commands, person_request, read_request, text_answer
from fairlead.clients.acp.wire import (
    INVALID_PARAMS,
    NOT_FOUND,
    BadMessage,
    CallIdentifier,
    Fields,
    notification_frame,
    result_frame,
)
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model import queries as q
from fairlead.model.content import ImageBlock, plain_text
from fairlead.model.errors import FairleadError, NotFound, OutsideRoots
from fairlead.model.gateway import Cursor
from fairlead.model.ids import MessageId, RequestId, SessionId, turn_id
from fairlead.model.policy import BadRule
from fairlead.model.web.requests import do
from fairlead.model.web.sockets import Flow, Handshake, Subscribe, Unsubscribe, Write
from fairlead.sessions.api.folders import ReadSessionChoices

ANSWERED: Final = 64
"""Number of answered requests of a session that are remembered until they are settled."""
AGENT_MODELS: Final = {"claude": ("sonnet", "opus", "haiku")}
"""Models that an agent knows by a short name; of other agents only the current model is known."""


class _Seq(msgspec.Struct, frozen=True):
    seq: int


class OpenSessions:
    """The encoder of each session that is open on one socket. `encoder`: the one with which a session begins."""

    __slots__ = ("_agent", "_encoders", "_fresh", "_who", "encoder")

    def __init__(self, opening: Handshake) -> None:
        self._who = opening.who
        self._fresh = opening.fresh
        self._agent = opening.query.get("agent", "")
        self._encoders: dict[SessionId, AcpEncoder] = {}
        self.encoder = AcpEncoder()

    def __contains__(self, session: SessionId) -> bool:
        return session in self._encoders

    def find_prompt(self, id: CallIdentifier) -> SessionId | None:
        """The session in which the prompt of this call may still be open."""
        encoders = self._encoders.items()
        return next((name for name, encoder in encoders for prompt in encoder.prompts if prompt.id == id), None)

    # --- opening and closing

    def new(self, id: CallIdentifier, given: NewParams) -> Flow:
        cwd, folders = read_folders(given)
        names = tuple(dict.fromkeys(server.name for server in given.mcpServers))
        # The servers of an editor are programs and addresses of its choice, so only the gateway's own are used: those
        # that its settings have under the same name.
        servers = names if self._who.may("admin") else ()
        session = SessionId(self._fresh())
        while True:
            settings = cmd.Settings(directories=folders, mcp_servers=servers)
            try:
                yield cmd.Create(session=session, cwd=cwd, agent=self._agent, settings=settings)
                break
            except NotFound as error:
                rest = tuple(name for name in servers if name[:80] != error.data["given"])
                if error.data["what"] != "configured MCP server" or rest == servers:
                    raise
                servers = rest
        left_out = [name for name in names if name not in servers]
        answer: Fields = {"sessionId": session}
        meta = {"mcpServersLeftOut": left_out} if left_out else {}
        yield from self._subscribe(id, session, answer, meta, notice=_left_out(session, left_out))

    def load(self, id: CallIdentifier, given: OpenParams) -> Flow:
        """Open a session with its whole history."""
        yield from self._subscribe(id, given.session, {}, {}, after=0)

    def resume(self, id: CallIdentifier, given: OpenParams) -> Flow:
        """Open a session without its history, or with the part after the client's position."""
        yield from self._subscribe(id, given.session, {}, {}, position=given.position)

    def _subscribe(
        self,
        id: CallIdentifier,
        session: SessionId,
        answer: Fields,
        meta: Fields,
        *,
        after: int | None = None,
        position: tuple[int, str] | None = None,
        notice: bytes = b"",
    ) -> Flow:
        """Subscribe; the call is answered after the history that the client wants. The whole log is read, for the facts
        that later updates need; entries up to `after` (None: up to now) are not sent."""
        # Before a long transcript is fully loaded into the log, its old entries would be sent as if they were live.
        yield q.WaitLoaded(session)
        view = yield from do(q.GetSession(session))
        session = view.summary.session
        # The last entry that is never removed from the log, unlike the deltas of a text.
        last = yield from do(q.ReadMessages(session, limit=1))
        head = msgspec.json.decode(last.events[-1], type=_Seq).seq if last.events else view.head
        place: Fields = {"logId": view.log_id, "seq": head, **meta}
        if position is not None:
            known = position[1] == view.log_id and 0 <= position[0] <= head
            after, place["verdict"] = (position[0], "ok") if known else (0, "gap")
        choices = yield from do(ReadSessionChoices())
        offered = OfferedOptions(
            modes=offered_modes(choices.modes, view.cannot) if self._who.may("approve") else (),
            models=AGENT_MODELS.get(view.summary.agent, ()),
            thinking="thinking" not in view.cannot,
        )
        now = current_options(view.settings)
        options = {"modes": mode_state(offered, now), "configOptions": config_options(offered, now)}
        encoded = msgspec.json.encode({**answer, **options, "_meta": {"fairlead": place}})
        before = self._encoders.get(session, self.encoder)
        encoder = structs.replace(
            self.encoder,
            offered=offered,
            shown_after=head if after is None else after,
            opening=SessionOpening(id, head, encoded, notice if self.encoder.features.notices else b""),
            prompts=_unanswered(before.prompts, view),
        )
        yield Subscribe(session, Cursor(0, view.log_id), encoder)
        self._encoders[session] = encoder

    def _continue(self, session: SessionId, **changes: Any) -> Generator[Any, Any, None]:
        """Continue the subscription at its position, with a changed encoder."""
        encoder = self._encoders[session] = structs.replace(self._encoders[session], **changes)
        yield Subscribe(session, None, encoder, keep=True)

    def _require(self, session: SessionId) -> AcpEncoder:
        encoder = self._encoders.get(session)
        if encoder is None:
            raise BadMessage(NOT_FOUND, f"The session {session} is not open here: load or resume it first.")
        return encoder

    def close(self, id: CallIdentifier, session: SessionId) -> Flow:
        """Stop watching. The agent goes on: other people may watch the session too. Prompts that are still open are
        answered, because nothing else answers them now."""
        encoder = self._encoders.pop(session, None)
        if encoder is not None:
            unanswered: tuple[OpenPrompt, ...] = ()
            with suppress(FairleadError):
                unanswered = _unanswered(encoder.prompts, (yield from do(q.GetSession(session))))
            yield Unsubscribe(session)
            for prompt in unanswered:
                yield Write(result_frame(prompt.id, {"stopReason": "cancelled"}))
        yield Write(result_frame(id, {}))

    def delete(self, id: CallIdentifier, session: SessionId) -> Flow:
        """Delete the session. The end of its turn answers the prompt of the turn; waiting prompts are answered here."""
        encoder = self._encoders.get(session)
        queue = (yield from do(q.ReadQueue(session))) if encoder is not None else ()
        yield cmd.Delete(session=session)
        if encoder is not None:
            del self._encoders[session]
            yield Unsubscribe(session)
            waiting = {item.message for item in queue}
            for prompt in encoder.prompts:
                if prompt.message in waiting:
                    yield Write(result_frame(prompt.id, {"stopReason": "cancelled"}))
        yield Write(result_frame(id, {}))

    # --- prompts

    def prompt(self, id: CallIdentifier, given: PromptParams) -> Flow:
        session = given.session
        encoder = self._require(session)
        view = yield from do(q.GetSession(session))
        content = prompt_content(given.prompt, view.summary.cwd)
        if "images" in view.cannot and any(isinstance(block, ImageBlock) for block in content):
            raise BadMessage(INVALID_PARAMS, "This session's agent does not accept images.")
        message = MessageId(self._fresh())
        command: cmd.Command = cmd.Send(session=session, content=content, message=message)
        prompt = OpenPrompt(message, id)
        question = _hidden_question(encoder, view)
        if question is not None and view.turn is not None and (text := plain_text(content)):
            command, prompt = text_answer(session, question, text), OpenPrompt("", id, view.turn)
        waiting = _unanswered(encoder.prompts, view)
        yield from self._continue(session, prompts=(*waiting, prompt))
        try:
            yield command
        except FairleadError:
            yield from self._continue(session, prompts=waiting)
            raise

    def cancel(self, session: SessionId, only: CallIdentifier = None) -> Flow:
        """Withdraw this client's prompts that wait in the queue, and interrupt the turn: unless only waiting prompts
        were meant, and the turn is another client's. `only`: the prompt of this call."""
        prompts = [prompt for prompt in self._require(session).prompts if only in (None, prompt.id)]
        view = yield from do(q.GetSession(session))
        queued = {item.message for item in view.queue}
        interrupt = view.turn in {prompt.turn or turn_id(session, prompt.message) for prompt in prompts}
        withdrawn = False
        for prompt in prompts:
            if prompt.message in queued:
                try:
                    yield cmd.CancelMessage(session=session, message=MessageId(prompt.message))
                    withdrawn = True
                except NotFound:
                    interrupt = True  # it left the queue at this moment
        if interrupt or not withdrawn:
            yield cmd.Interrupt(session=session)

    # --- settings

    def set_mode(self, id: CallIdentifier, given: ModeParams) -> Flow:
        self._require(given.session)
        yield cmd.SetMode(session=given.session, mode=given.modeId)
        yield Write(result_frame(id, {}))

    def set_option(self, id: CallIdentifier, given: OptionParams) -> Flow:
        encoder = self._require(given.session)
        if not isinstance(given.value, str):
            raise BadMessage(INVALID_PARAMS, "All options are selected by the id of a value.")
        yield option_command(given.session, given.configId, given.value)
        view = yield from do(q.GetSession(given.session))
        options = config_options(encoder.offered, current_options(view.settings))
        yield Write(result_frame(id, {"configOptions": options}))

    # --- requests to the person

    def decide(self, session: SessionId, request: RequestId, result: Any) -> Flow:
        """Act on the answer to a request. One that is no longer pending was settled by another client: then the answer
        has no effect."""
        if session not in self._encoders:
            return
        answered = (*self._encoders[session].answered, request)[-ANSWERED:]
        yield from self._continue(session, answered=answered)
        pending = yield from do(q.ListPermissions(session))
        events = [read_request(bytes(view.event)) for view in pending]
        event = next((event for event in events if event.request == request), None)
        for command in () if event is None else answer_commands(session, event, result):
            try:
                yield command
            except (BadRule, OutsideRoots) as error:
                if not isinstance(command, cmd.AnswerPermission) or not command.remember:
                    raise
                # A rule that cannot be remembered must not leave the request open.
                instead = error.data.get("instead", "")
                yield structs.replace(command, remember=(instead,) if instead else ())


def _unanswered(prompts: tuple[OpenPrompt, ...], view: q.SessionView) -> tuple[OpenPrompt, ...]:
    """The prompts that wait in the queue, or whose turn is running."""
    session, queued = view.summary.session, {item.message for item in view.queue}
    return tuple(
        prompt
        for prompt in prompts
        if prompt.message in queued or (prompt.turn or turn_id(session, prompt.message)) == view.turn
    )


def _hidden_question(encoder: AcpEncoder, view: q.SessionView) -> ev.QuestionAsked | None:
    """The open question that this client cannot show: the person answers it by a prompt."""
    if not encoder.features.approves or encoder.features.forms:
        return None
    events = [read_request(bytes(pending.event)) for pending in view.pending]
    session = view.summary.session
    hidden = [event for event in events if isinstance(event, ev.QuestionAsked)]
    return next((event for event in hidden if not person_request(session, event, "", forms=False)), None)


def _left_out(session: SessionId, names: list[str]) -> bytes:
    """The notice about MCP servers that were left out; empty if none was."""
    if not names:
        return b""
    title = "MCP servers that the gateway's settings do not name were left out."
    update = {"sessionUpdate": "notice", "severity": "warning", "title": title, "description": ", ".join(names)[:400]}
    return notification_frame("session/update", {"sessionId": session, "update": update})
