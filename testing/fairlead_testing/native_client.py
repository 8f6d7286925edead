"""The reference client of the native protocol: its state after the events that it received. Pure, public.

Feed it event lines (`{"seq": ..., "type": ..., ...}`) in order. It ends in the same state whether they came live with
deltas, from the log without them, or with a disconnect in the middle of a block and a catch-up: deltas are written at
their offset, the whole block replaces them, and a repeated line changes nothing.
"""

from typing import Any, assert_never

import msgspec

from fairlead.model import events as ev
from fairlead.model.content import Content


class FoldedBlock(msgspec.Struct, kw_only=True):
    """A block of an answer, or a tool call. Not `whole`: only pieces of it have arrived."""

    kind: str
    message: str
    block: int
    turn: str | None = None
    subagent: str | None = None
    whole: bool = False
    text: str = ""
    signature: str = ""
    model: str = ""
    error: str = ""
    call: str = ""


class FoldedMessage(msgspec.Struct, kw_only=True):
    message: str
    content: tuple[Content, ...]
    turn: str | None = None
    subagent: str | None = None
    by: str = ""
    via: str = "prompt"
    synthetic: bool = False


class FoldedCall(msgspec.Struct, kw_only=True):
    call: str
    name: str
    input: dict[str, Any] = {}
    subagent: str | None = None
    status: str = "running"
    content: Any = None
    data: Any = None
    is_error: bool = False
    elapsed_s: float = 0.0
    note: str = ""


class FoldedTurn(msgspec.Struct, kw_only=True):
    turn: str
    trigger: str
    status: str = "running"
    reason: str = ""
    text: str = ""
    cost_usd: float = 0.0
    usage: dict[str, ev.ModelUsage] = {}
    errors: tuple[str, ...] = ()
    output: Any = None


class FoldedSubagent(msgspec.Struct, kw_only=True):
    subagent: str
    call: str
    parent: str | None = None
    title: str = ""
    kind: str = ""
    prompt: str = ""
    background: bool = False
    status: str = "running"
    summary: str = ""


class FoldedQueued(msgspec.Struct, kw_only=True):
    message: str
    content: tuple[Content, ...]
    by: str = ""


class FoldedHook(msgspec.Struct, kw_only=True):
    name: str
    event: str
    phase: str
    output: str = ""
    outcome: str = ""


class NativeClientState(msgspec.Struct, kw_only=True):
    """`conversation` has its parts in the order of their completion; unfinished ones at their beginning."""

    title: str = ""
    cwd: str = ""
    agent: str = ""
    archived: bool = False
    closed: bool = False
    settings: dict[str, Any] = {}
    running: bool = False
    agent_session: str = ""
    version: str = ""
    mode: str = ""
    model: str = ""
    thinking: int | None = None
    compacting: bool = False
    interrupting: bool = False
    turn: str | None = None
    turns: dict[str, FoldedTurn] = {}
    conversation: list[FoldedBlock | FoldedMessage] = []
    calls: dict[str, FoldedCall] = {}
    subagents: dict[str, FoldedSubagent] = {}
    asked: dict[str, ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed] = {}
    decided: dict[str, str] = {}
    queue: list[FoldedQueued] = []
    hooks: dict[str, FoldedHook] = {}
    handover: str | None = None
    rate_limit: dict[str, Any] = {}
    notices: list[tuple[str, str]] = []
    errors: list[tuple[str, str]] = []


class _Line(msgspec.Struct):
    """A struct, because msgspec caches the type information of a struct but not of a bare union."""

    event: ev.Event


class Fold:
    """`state` is everything that a client would show; `seq` is the cursor to resume from."""

    def __init__(self) -> None:
        self.state = NativeClientState()
        self.seq = 0
        self._done = 0
        self._blocks: dict[tuple[str, int], FoldedBlock] = {}

    def apply(self, line: dict[str, Any]) -> None:
        """Apply one event line. An unknown kind is ignored."""
        seq = line["seq"]
        try:
            event = msgspec.convert({"event": line}, _Line).event
        except msgspec.ValidationError:
            event = None
        self.seq = max(self.seq, seq)
        # A piece is written at its offset: a repeated piece, or a replay from an earlier position, does no harm.
        delta = isinstance(event, ev.Delta)
        if event is not None and (delta or seq > self._done):
            self._event(event)
        if not delta:
            self._done = max(self._done, seq)

    def _delta(self, event: ev.Delta) -> None:
        key = (event.message, event.block)
        block = self._blocks.get(key)
        if block is None:
            kind = {ev.TextDelta: "text", ev.ThinkingDelta: "thinking", ev.InputDelta: "tool_use"}[type(event)]
            block = FoldedBlock(
                kind=kind, message=event.message, block=event.block, turn=event.turn, subagent=event.subagent
            )
            self._blocks[key] = block
            self.state.conversation.append(block)
        if block.whole or event.offset > len(block.text):
            return
        piece = event.json if isinstance(event, ev.InputDelta) else event.text
        if event.offset + len(piece) > len(block.text):
            block.text = block.text[: event.offset] + piece
        if isinstance(event, ev.ThinkingDelta) and event.signature and event.offset == len(block.text):
            block.signature = event.signature

    def _whole(self, event: ev.Text | ev.Thinking | ev.ToolCalled, **fields: Any) -> None:
        """The whole block replaces its pieces, at the end: that is its position for a client without the pieces."""
        key = (event.message, event.block)
        partial = self._blocks.get(key)
        if partial is not None:
            # From the end: the block began recently.
            parts = self.state.conversation
            del parts[next(at for at in reversed(range(len(parts))) if parts[at] is partial)]
        block = FoldedBlock(
            message=event.message,
            block=event.block,
            turn=event.turn,
            subagent=event.subagent,
            whole=True,
            model=event.model,
            **fields,
        )
        self._blocks[key] = block
        self.state.conversation.append(block)

    def _call(self, call: str, name: str, subagent: str | None) -> FoldedCall:
        found = self.state.calls.get(call)
        if found is None:
            found = self.state.calls[call] = FoldedCall(call=call, name=name, subagent=subagent)
        return found

    def _event(self, event: ev.Event) -> None:
        state = self.state
        match event:
            case ev.SessionOpened():
                state.cwd, state.agent, state.title = event.cwd, event.agent, event.title
            case ev.SessionForked() | ev.SessionResumed() | ev.Rewound():
                pass
            case ev.SessionChanged():
                state.title = state.title if event.title is None else event.title
                state.archived = state.archived if event.archived is None else event.archived
                state.settings = {**state.settings, **(event.settings or {})}
            case ev.SessionClosed():
                state.closed = True
            case ev.AgentStarted():
                state.running, state.closed, state.agent = True, False, event.agent
            case ev.AgentReady():
                state.agent_session, state.version = event.agent_session, event.version
                state.mode, state.model = event.mode, event.model
            case ev.AgentExited():
                state.running = False
            case ev.HandoverRequested():
                state.handover = event.link
            case ev.HandoverSettled():
                state.handover = None
            case ev.TurnStarted():
                self._turn_started(event)
            case ev.TurnEnded():
                self._turn_ended(event)
            case ev.UserMessage():
                state.conversation.append(
                    FoldedMessage(
                        message=event.message,
                        content=event.content,
                        turn=event.turn,
                        subagent=event.subagent,
                        by=event.by,
                        via=event.via,
                        synthetic=event.synthetic,
                    )
                )
            case ev.TextDelta() | ev.ThinkingDelta() | ev.InputDelta():
                self._delta(event)
            case ev.Text():
                self._whole(event, kind="text", text=event.text, error=event.error)
            case ev.Thinking():
                self._whole(event, kind="thinking", text=event.text, signature=event.signature)
            case ev.ToolCalled():
                self._whole(event, kind="tool_use", call=event.call)
                call = self._call(event.call, event.name, event.subagent)
                call.input = event.input
            case ev.ToolProgress():
                call = self._call(event.call, event.name, event.subagent)
                if call.status == "running":
                    call.elapsed_s, call.note = event.elapsed_s, event.note
            case ev.ToolEnded():
                call = self._call(event.call, event.name, event.subagent)
                call.status, call.is_error = event.status, event.is_error
                call.content, call.data = event.content, event.data
            case ev.SubagentStarted():
                state.subagents[event.child] = FoldedSubagent(
                    subagent=event.child,
                    call=event.call,
                    parent=event.subagent,
                    title=event.title,
                    kind=event.kind,
                    prompt=event.prompt,
                    background=event.background,
                )
            case ev.SubagentEnded():
                if event.child in state.subagents:
                    subagent = state.subagents[event.child]
                    subagent.status, subagent.summary = event.status, event.summary
            case ev.SubagentResolved():
                self._resolved(event)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                state.asked[event.request] = event
            case ev.PermissionResolved():
                state.asked.pop(event.request, None)
                state.decided[event.request] = event.behavior
            case ev.PermissionCancelled():
                state.asked.pop(event.request, None)
                state.decided[event.request] = "cancelled"
            case ev.ModeChanged():
                state.mode = event.mode
            case ev.ModelChanged():
                state.model = event.model
            case ev.ThinkingChanged():
                state.thinking = event.budget
            case ev.Compaction():
                state.compacting = event.phase == "started" or (state.compacting and event.phase == "boundary")
            case ev.RateLimit():
                state.rate_limit = event.info
            case ev.HookProgress():
                state.hooks[event.hook] = FoldedHook(
                    name=event.name, event=event.event, phase=event.phase, output=event.output, outcome=event.outcome
                )
            case ev.Notice():
                state.notices.append((event.kind, event.text))
            case ev.MessageQueued():
                state.queue.append(FoldedQueued(message=event.message, content=event.content, by=event.by))
            case ev.MessageDequeued() | ev.MessageCancelled():
                state.queue = [queued for queued in state.queue if queued.message != event.message]
            case ev.MessageMoved():
                self._moved(event)
            case ev.InterruptRequested():
                state.interrupting = state.turn is not None
            case ev.ErrorRaised():
                state.errors.append((event.code, event.message))
            case ev.RecordStored():
                pass
            case _:
                assert_never(event)

    def _resolved(self, event: ev.SubagentResolved) -> None:
        """Move messages that were shown in the main thread, because their call was unknown, to their subagent."""
        for part in self.state.conversation:
            if part.message in event.messages and part.subagent is None:
                part.subagent = event.child
        for name in event.calls:
            call = self.state.calls.get(name)
            if call is not None and call.subagent is None:
                call.subagent = event.child

    def _turn_started(self, event: ev.TurnStarted) -> None:
        if event.turn is not None:
            self.state.turn = event.turn
            self.state.turns[event.turn] = FoldedTurn(turn=event.turn, trigger=event.trigger)

    def _turn_ended(self, event: ev.TurnEnded) -> None:
        self.state.turn, self.state.interrupting = None, False
        turn = self.state.turns.get(event.turn or "")
        if turn is not None:
            turn.status, turn.reason, turn.text = event.status, event.reason, event.text
            turn.cost_usd, turn.usage = event.cost_usd, event.usage
            turn.errors, turn.output = event.errors, event.output

    def _moved(self, event: ev.MessageMoved) -> None:
        queue = self.state.queue
        moved = [queued for queued in queue if queued.message == event.message]
        rest = [queued for queued in queue if queued.message != event.message]
        place = max(0, event.position)
        self.state.queue = [*rest[:place], *moved, *rest[place:]]
