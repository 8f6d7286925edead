"""Texts and thoughts: ACP sends them only in pieces, which are collected. The whole block follows its pieces. Pure."""

from typing import Any

from fairlead.agents.acp import tools, wire
from fairlead.agents.acp.interpreter.state import BLOCK_CHARACTERS, MESSAGES_KEPT, AcpBlock, AcpTurn
from fairlead.agents.acp.interpreter.step import Step
from fairlead.agents.acp.wire import as_text
from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import put
from fairlead.model.ids import MessageId


def add_chunk(step: Step, update: dict[str, Any], kind: str) -> None:
    state, text = step.state, tools.text_of(update.get("content"))
    turn = state.turn
    if turn is None or not text:
        # Outside a turn: the agent replays an old conversation, which the log has already.
        step.store(wire.UPDATE, as_text(update.get("sessionUpdate")))
        return
    name = as_text(update.get("messageId"))
    block = state.block
    if block is None or (block.kind, block.name) != (kind, name) or len(block.text) > BLOCK_CHARACTERS:
        end_block(step)
        block = state.block = _new_block(turn, kind, name)
    delta: type[Any] = ev.TextDelta if kind == "text" else ev.ThinkingDelta
    offset = len(block.text)
    block.text += text
    step.emit(delta, message=MessageId(block.message), block=block.index, offset=offset, text=text)


def _new_block(turn: AcpTurn, kind: str, name: str) -> AcpBlock:
    message = current_message(turn, name if kind == "text" else "")
    index = turn.messages[message]
    turn.messages[message] += 1
    return AcpBlock(kind, name, message, index)


def current_message(turn: AcpTurn, name: str = "") -> str:
    """The message that the agent writes: one with this id, or the current one."""
    message = f"{turn.id}.{name}" if name else turn.current or f"{turn.id}.{len(turn.messages)}"
    if message not in turn.messages:
        put(turn.messages, message, 0, MESSAGES_KEPT)
    turn.current = message
    return message


def end_block(step: Step) -> None:
    block, turn = step.state.block, step.state.turn
    step.state.block = None
    if block is None:
        return
    whole: type[Any] = ev.Text if block.kind == "text" else ev.Thinking
    if block.kind == "text" and turn is not None:
        turn.text = block.text
    step.drop.extend(seq for seq, _ in block.marks)
    fields: dict[str, Any] = {"message": MessageId(block.message), "block": block.index, "text": block.text}
    step.emit(whole, model=as_text(step.state.ready.get("model")), marks=tuple(block.marks), **fields)
