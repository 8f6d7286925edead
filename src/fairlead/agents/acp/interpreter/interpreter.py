"""The interpreter: turns ACP's messages into events. Pure; its entire state is one `AcpState`.

Our `session/prompt` opens a turn, the answer to it ends the turn. ACP's messages have no ids of their own: an event is
named by its turn and the number of its record in it.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead.agents.acp import usage, wire
from fairlead.agents.acp.interpreter import calls, reports, texts
from fairlead.agents.acp.interpreter.state import AcpState, AcpTurn
from fairlead.agents.acp.interpreter.step import Step
from fairlead.agents.acp.wire import Message, as_dict, as_text
from fairlead.agents.plain_interpreter import PlainInterpreter
from fairlead.model import events as ev
from fairlead.model.agents import Interpretation, Record
from fairlead.model.content import content_block
from fairlead.model.ids import MessageId, SessionId, TurnId, turn_id


class AcpInterpreter(PlainInterpreter[AcpState]):
    """Implements `model.agents.Interpreter`."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(session, AcpState())

    def step(self, record: Record) -> Interpretation:
        step = Step(self._session, self._state, record.raw)
        if record.origin == "gateway":
            _ours(step, record.raw)
        else:
            _theirs(step, wire.decode(record.raw))
        return step.outcome()

    def assign_seq(self, event: ev.Event, seq: int) -> None:
        block = self._state.block
        if isinstance(event, ev.TextDelta | ev.ThinkingDelta):
            if block is not None and (block.message, block.index) == (event.message, event.block):
                block.marks.append((seq, event.offset + len(event.text)))
        elif isinstance(event, ev.PermissionResolved) and event.behavior == "deny":
            call = self._state.calls.get(event.call)
            if call is not None:
                call.denied = event.message or "It was denied."

    def exited(self, reason: str, cause: str) -> Interpretation:
        step = Step(self._session, self._state, b"", cause)
        turn = self._state.turn
        texts.end_block(step)
        closed = calls.end_calls(step)
        if turn is not None:
            status: ev.TurnStatus = "cancelled" if turn.cancelled else "failed"
            why = "interrupted" if turn.cancelled else reason
            step.emit(ev.TurnEnded, status=status, reason=why, text=turn.text, closed=closed)
        self._state.turn = None
        return step.outcome()

    @property
    def turn(self) -> TurnId | None:
        return None if self._state.turn is None else TurnId(self._state.turn.id)

    @property
    def busy(self) -> bool:
        return self._state.turn is not None


# --- records of the gateway ------------------------------------------------------------------------------------


def _ours(step: Step, raw: bytes) -> None:
    state = step.state
    match wire.decode_marker(raw):
        case wire.ReadyMarker() as marker:
            state.process, state.trusts_titles, state.steps = marker.process, marker.trusts_titles, 1
            state.todos, state.cost_before = [], state.cost
            step.source = marker.process
            commands = state.ready.get("commands", ()) if state.ready else ()
            state.ready = msgspec.structs.asdict(marker) | {"commands": commands}
            reports.emit_ready(step)
        case wire.CancelMarker():
            if state.turn is not None:
                state.turn.cancelled = True
        case None:
            message = wire.decode(raw)
            if message.method == wire.PROMPT and message.id is not None:
                _prompt(step, message, str(message.id))


def _prompt(step: Step, message: Message, name: str) -> None:
    state = step.state
    if state.turn is None:
        state.turn = AcpTurn(turn_id(step.session, name), name)
        step.source = name
        step.emit(ev.TurnStarted)
    blocks = message.params.get("prompt")
    content = tuple(content_block(_our_block(block)) for block in (blocks if isinstance(blocks, list) else []))
    step.emit(ev.UserMessage, message=MessageId(name), content=content)


def _our_block(block: Any) -> Any:
    """A prompt's block as it was before `kind.prompt` converted it."""
    if isinstance(block, dict) and block.get("type") == "image":
        source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
        return {"type": "image", "source": source}
    return block


# --- messages of the agent -------------------------------------------------------------------------------------


def _theirs(step: Step, message: Message) -> None:
    turn = step.state.turn
    if message.is_answer:
        # The driver handles the answers to our other requests.
        if turn is not None and message.id == turn.message:
            _answered(step, message)
    elif message.method == wire.UPDATE:
        kind = as_text(message.update.get("sessionUpdate"))
        handle = UPDATES.get(kind)
        if handle is None:
            step.store(wire.UPDATE, kind, known=False)
        else:
            handle(step, message.update)
    elif message.method == wire.REQUEST_PERMISSION and message.id is not None:
        calls.on_permission(step, message.id, message.params)
    elif message.method == wire.ELICIT and message.id is not None:
        calls.on_elicitation(step, message.id, message.params)
    elif message.method == wire.CANCEL_REQUEST:
        pass
    else:
        step.store(message.method or "garbage", known=False)


def _answered(step: Step, message: Message) -> None:
    """End the turn: the agent has answered its prompt."""
    state, turn = step.state, step.state.turn
    assert turn is not None
    texts.end_block(step)
    closed = calls.end_calls(step)
    stop = as_text(as_dict(message.result).get("stopReason"))
    fields: dict[str, Any] = {"status": "completed"}
    if stop == "cancelled" or (turn.cancelled and message.error is not None):
        fields = {"status": "cancelled", "reason": "interrupted"}
    elif message.error is not None:
        reason = message.error.message or f"error {message.error.code}"
        fields = {"status": "failed", "reason": reason, "errors": (reason,)}
    elif stop not in ("end_turn", ""):
        fields = {"status": "failed", "reason": stop}
    used = usage.of_answer(message.result, as_text(state.ready.get("model")), state.window)
    cost = max(0.0, state.cost - state.cost_before)
    state.cost_before = state.cost
    step.emit(ev.TurnEnded, text=turn.text, closed=closed, usage=used, cost_usd=cost, **fields)
    state.turn = None


def _chunk(step: Step, update: dict[str, Any], kind: str) -> None:
    calls.end_denied(step)
    texts.add_chunk(step, update, kind)


UPDATES: Final[dict[str, Callable[[Step, dict[str, Any]], None]]] = {
    "agent_message_chunk": lambda step, update: _chunk(step, update, "text"),
    "agent_thought_chunk": lambda step, update: _chunk(step, update, "thinking"),
    # Our own prompts are in the log already; an agent that loads a conversation repeats them.
    "user_message_chunk": lambda step, update: step.store(wire.UPDATE, "user_message_chunk"),
    "tool_call": calls.on_tool_call,
    "tool_call_update": calls.on_tool_call,
    "plan": reports.on_plan,
    "available_commands_update": reports.on_commands,
    "config_option_update": reports.on_options,
    "current_mode_update": reports.on_mode,
    "session_info_update": reports.on_info,
    "usage_update": reports.on_usage,
    "notice": reports.on_notice,
    "compaction_update": reports.on_compaction,
}
