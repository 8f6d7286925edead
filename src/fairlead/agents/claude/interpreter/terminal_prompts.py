"""Prompts that are typed into the agent's terminal, and the terminal driver's markers. Pure.

Our record opens the turn; the prompt's row in the transcript becomes the user's message (with our id, since the row has
a different one), so that no event is emitted twice. If no row ever comes, the message is emitted when that is certain.
A turn that a person starts in the terminal has only a row, and is a turn like any other.
"""

from typing import Any

from fairlead.agents.claude.interpreter import system, turns
from fairlead.agents.claude.interpreter.state import PendingPrompt
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnEnding, TurnSignal
from fairlead.agents.claude.tui.keys import clean, same
from fairlead.agents.claude.wire.markers import TerminalMarker, TypedPrompt
from fairlead.model.content import TextBlock, content_blocks, plain_text
from fairlead.model.events import Notice, UserMessage
from fairlead.model.ids import MessageId, turn_id

TEXT_ONLY = "A terminal takes text: to send images or files, hand the session over to stdio."
LEFT = "the agent went back to its prompt without an answer"


def prompt(step: Step, record: TypedPrompt) -> None:
    """Handle a prompt that is about to be typed. One that cannot be typed is emitted at once, as a failed turn."""
    emit_unconfirmed(step)
    content = content_blocks(record.content)
    turns.signal(step, TurnSignal.PROMPT)
    if not plain_text(content).strip() or not all(isinstance(block, TextBlock) for block in content):
        step.emit(UserMessage, message=MessageId(record.uuid), content=content)
        turns.signal(step, TurnSignal.RESULT, TurnEnding(status="failed", reason=TEXT_ONLY))
        return
    step.state.typed = PendingPrompt(record.uuid, plain_text(content))
    step.store_if_silent("typed", "")


def matches_pending(step: Step, text: str) -> bool:
    waiting = step.state.typed
    return step.origin == "transcript" and waiting is not None and same(clean(waiting.text), text)


def confirm(step: Step) -> None:
    _emit_message(step, record=step.source)


def emit_unconfirmed(step: Step) -> None:
    """Emit a prompt for which no row has come, so that the log contains every prompt that was sent."""
    if step.state.typed is not None:
        _emit_message(step)


def _emit_message(step: Step, **fields: Any) -> None:
    state = step.state
    waiting, state.typed = state.typed, None
    assert waiting is not None
    own = turn_id(step.session, waiting.message)
    if state.turn is None or (state.turn.id != own and fields):
        # Its turn is over, or another turn was open when it was submitted: the row opens a turn.
        turns.end_if_final(step)
        outer, step.source = step.source, waiting.message
        turns.signal(step, TurnSignal.PROMPT)
        step.source = outer
    via = "prompt" if state.turn is None or state.turn.id == own else "steer"
    step.emit(UserMessage, message=MessageId(waiting.message), content=(TextBlock(waiting.text),), via=via, **fields)


def end_if_stopped(step: Step) -> None:
    turn = step.state.turn
    if turn is not None and turn.stopped and step.state.typed is None:
        turns.end_if_final(step)


def screen(step: Step, marker: TerminalMarker) -> None:
    state = step.state
    if marker.what == "ready":
        system.in_terminal(step, marker)
    elif marker.what == "shows":
        step.emit(Notice, kind=f"terminal.{marker.kind}", text=marker.text, data={"lines": marker.lines})
    elif marker.what == "untyped":
        if state.typed is not None and state.typed.message == marker.message:
            emit_unconfirmed(step)
            turns.signal(step, TurnSignal.RESULT, turns.ending_without_result(step, marker.text))
    elif state.turn is None or state.typed is not None:
        return
    elif marker.what == "stopped":
        state.turn.stopped = True
        turns.end_if_final(step)
        step.store_if_silent("stopped", "")
    elif marker.what == "idle":
        turns.end_if_final(step)
    elif marker.what == "left":
        turns.end_if_final(step)
        if state.turn is not None:
            # Measured: in newer versions an interrupt before the first output leaves no row.
            turns.signal(step, TurnSignal.RESULT, TurnEnding(status="cancelled", reason=LEFT))
