"""Turns: one table of the signals that open, steer and end them. Only this module changes a turn's phase.

A turn is opened by our prompt, or by the agent itself when it works after its result: background subagents that
continue, a report of theirs, prompts that it had queued. It ends with the `result`; without one, with the exit.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from fairlead.agents.claude.interpreter import deferred, subagents
from fairlead.agents.claude.interpreter.state import OpenTurn
from fairlead.agents.claude.interpreter.step import Step
from fairlead.model.events import ModelUsage, TurnEnded, TurnStarted, TurnStatus
from fairlead.model.ids import CallId, turn_id


class TurnPhase(StrEnum):
    IDLE = "idle"
    PROMPTED = "prompted"
    """The agent works on our prompt."""
    OWN = "own"
    """The agent works by itself: a report of background work, a prompt it had queued."""
    BACKGROUND = "background"
    """Only background subagents have sent output since the last result; the main thread is free for a prompt."""


class TurnSignal(StrEnum):
    PROMPT = "prompt"
    MAIN = "main thread speaks"
    SIDE = "subagent speaks"
    INTERRUPT = "interrupt"
    STOPPED = "last background subagent stopped"
    RESULT = "result"
    EXIT = "exit"


class TurnAction(StrEnum):
    OPEN = "open"
    STEER = "steer"
    CANCEL = "mark cancelled"
    END = "end"


_OPEN: Final = (TurnAction.OPEN,)
_STEER: Final = (TurnAction.STEER,)
_CANCEL: Final = (TurnAction.CANCEL,)
_END: Final = (TurnAction.END,)
_NOTHING: Final[tuple[TurnAction, ...]] = ()
_WORKING: Final = (TurnPhase.PROMPTED, TurnPhase.OWN)
_OPEN_PHASES: Final = (*_WORKING, TurnPhase.BACKGROUND)

TABLE: Final[dict[tuple[TurnPhase, TurnSignal], tuple[TurnPhase, tuple[TurnAction, ...]]]] = {
    # Where the table says nothing else, a signal changes nothing.
    **{(phase, sign): (phase, _NOTHING) for phase in TurnPhase for sign in TurnSignal},
    (TurnPhase.IDLE, TurnSignal.PROMPT): (TurnPhase.PROMPTED, _OPEN),
    (TurnPhase.IDLE, TurnSignal.MAIN): (TurnPhase.OWN, _OPEN),
    (TurnPhase.IDLE, TurnSignal.SIDE): (TurnPhase.BACKGROUND, _OPEN),
    (TurnPhase.IDLE, TurnSignal.RESULT): (TurnPhase.IDLE, (TurnAction.OPEN, TurnAction.END)),
    **{(phase, TurnSignal.PROMPT): (phase, _STEER) for phase in _WORKING},
    **{(phase, TurnSignal.INTERRUPT): (phase, _CANCEL) for phase in _WORKING},
    **{(phase, TurnSignal.RESULT): (TurnPhase.IDLE, _END) for phase in _OPEN_PHASES},
    **{(phase, TurnSignal.EXIT): (TurnPhase.IDLE, _END) for phase in _OPEN_PHASES},
    # While only background subagents work, the CLI accepts a prompt at once: it is a separate turn. An interrupt is
    # answered but has no result: there is nothing to cancel.
    (TurnPhase.BACKGROUND, TurnSignal.PROMPT): (TurnPhase.PROMPTED, (TurnAction.END, TurnAction.OPEN)),
    (TurnPhase.BACKGROUND, TurnSignal.MAIN): (TurnPhase.OWN, _NOTHING),
    (TurnPhase.BACKGROUND, TurnSignal.STOPPED): (TurnPhase.IDLE, _END),
}


class TurnEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, as far as the caller that ends it knows."""

    status: TurnStatus = "completed"
    reason: str = ""
    text: str = ""
    cost_usd: float = 0.0
    duration_ms: int = 0
    api_ms: int = 0
    model_turns: int = 0
    usage: dict[str, ModelUsage] = {}
    errors: tuple[str, ...] = ()
    output: Any = None


def signal(
    step: Step, sign: TurnSignal, ending: TurnEnding | None = None, closed: list[str] | None = None
) -> tuple[TurnAction, ...]:
    """Apply a signal by the table and return the actions: they show whether a prompt opened or steered a turn.

    `closed` are the calls that the exit has already ended."""
    state = step.state
    phase, actions = TABLE[TurnPhase(state.phase), sign]
    for action in actions:
        if action is TurnAction.OPEN:
            state.turn = OpenTurn(turn_id(step.session, step.source))
            # Set the phase at once: records that the end releases must not open another turn.
            state.phase = TurnPhase.OWN if phase is TurnPhase.IDLE else phase
            step.emit(TurnStarted, trigger="prompt" if sign is TurnSignal.PROMPT else "agent")
        elif action is TurnAction.CANCEL and state.turn is not None:
            state.turn.cancelled = True
        elif action is TurnAction.END:
            _end(step, ending or TurnEnding(), closed)
    state.phase = phase
    return actions


def on_output(step: Step, thread: str) -> None:
    """Signal output in `thread`. Late output of an ended subagent opens no turn: nothing would end that turn."""
    if not thread:
        signal(step, TurnSignal.MAIN)
    elif thread in step.state.subagents and not (step.origin == "transcript" and thread in step.state.began):
        # Rows of a subagent's file belong to the turn of its call and do not open another.
        signal(step, TurnSignal.SIDE)


def end_if_final(step: Step) -> None:
    """End a turn whose final answer was seen, or that was interrupted: a transcript has no results, so such a turn ends
    before the next prompt."""
    turn = step.state.turn
    if turn is not None and (turn.final or turn.cancelled):
        outer, step.source = step.source, turn.id
        signal(step, TurnSignal.RESULT, ending_without_result(step, ""))
        step.source = outer


def _end(step: Step, ending: TurnEnding, closed: list[str] | None) -> None:
    if closed is None:
        if step.origin != "transcript":
            # With a transcript, another file may still show which thread they belong to.
            deferred.release_all(step)
        closed = subagents.close(step)
    step.emit(TurnEnded, closed=tuple(map(CallId, closed)), **msgspec.structs.asdict(ending))
    step.state.turn = None


def ending_without_result(step: Step, reason: str) -> TurnEnding:
    """The ending of an open turn without a result: it depends on whether the final answer was seen."""
    turn = step.state.turn
    if turn is not None and turn.cancelled:
        return TurnEnding(status="cancelled", reason="interrupted")
    # A subagent's calls do not count: their results may be only in its own file, and while it works the call that
    # started it is open too.
    if turn is not None and turn.final and all(call.thread for call in step.state.calls.values()):
        if turn.error:
            return TurnEnding(status="failed", reason=turn.error)
        return TurnEnding(status="completed")
    return TurnEnding(status="failed", reason=reason)
