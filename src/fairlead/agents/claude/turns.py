"""Turns: one table of what opens, steers and ends them. Everything that changes a turn's phase is in this file.

A turn is opened by a prompt of ours, or by the agent itself when it works after its result: background subagents
that go on, a report of theirs, prompts that it had queued. Its end is the `result`; without one, the exit judges.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from fairlead.agents.claude import holding, subagents
from fairlead.agents.claude.state import Turn
from fairlead.agents.claude.step import Step
from fairlead.model.events import TurnEnded, TurnStarted, TurnStatus, Usage
from fairlead.model.ids import CallId, turn_id


class Phase(StrEnum):
    IDLE = "idle"
    PROMPTED = "prompted"
    """A prompt of ours is being worked on."""
    OWN = "own"
    """The agent works by itself: a report of background work, a prompt it had queued."""
    BACKGROUND = "background"
    """Only background subagents have spoken since the last result; the main thread is free for a prompt."""


class Signal(StrEnum):
    PROMPT = "prompt"
    MAIN = "main thread speaks"
    SIDE = "subagent speaks"
    INTERRUPT = "interrupt"
    STOPPED = "last background subagent stopped"
    RESULT = "result"
    EXIT = "exit"


class Action(StrEnum):
    OPEN = "open"
    STEER = "steer"
    CANCEL = "mark cancelled"
    END = "end"


_OPEN: Final = (Action.OPEN,)
_NOTHING: Final[tuple[Action, ...]] = ()

TABLE: Final[dict[tuple[Phase, Signal], tuple[Phase, tuple[Action, ...]]]] = {
    (Phase.IDLE, Signal.PROMPT): (Phase.PROMPTED, _OPEN),
    (Phase.IDLE, Signal.MAIN): (Phase.OWN, _OPEN),
    (Phase.IDLE, Signal.SIDE): (Phase.BACKGROUND, _OPEN),
    (Phase.IDLE, Signal.INTERRUPT): (Phase.IDLE, _NOTHING),
    (Phase.IDLE, Signal.STOPPED): (Phase.IDLE, _NOTHING),
    (Phase.IDLE, Signal.RESULT): (Phase.IDLE, (Action.OPEN, Action.END)),
    (Phase.IDLE, Signal.EXIT): (Phase.IDLE, _NOTHING),
    (Phase.PROMPTED, Signal.PROMPT): (Phase.PROMPTED, (Action.STEER,)),
    (Phase.PROMPTED, Signal.MAIN): (Phase.PROMPTED, _NOTHING),
    (Phase.PROMPTED, Signal.SIDE): (Phase.PROMPTED, _NOTHING),
    (Phase.PROMPTED, Signal.INTERRUPT): (Phase.PROMPTED, (Action.CANCEL,)),
    (Phase.PROMPTED, Signal.STOPPED): (Phase.PROMPTED, _NOTHING),
    (Phase.PROMPTED, Signal.RESULT): (Phase.IDLE, (Action.END,)),
    (Phase.PROMPTED, Signal.EXIT): (Phase.IDLE, (Action.END,)),
    (Phase.OWN, Signal.PROMPT): (Phase.OWN, (Action.STEER,)),
    (Phase.OWN, Signal.MAIN): (Phase.OWN, _NOTHING),
    (Phase.OWN, Signal.SIDE): (Phase.OWN, _NOTHING),
    (Phase.OWN, Signal.INTERRUPT): (Phase.OWN, (Action.CANCEL,)),
    (Phase.OWN, Signal.STOPPED): (Phase.OWN, _NOTHING),
    (Phase.OWN, Signal.RESULT): (Phase.IDLE, (Action.END,)),
    (Phase.OWN, Signal.EXIT): (Phase.IDLE, (Action.END,)),
    # The CLI takes a prompt at once while only background subagents work: it is a turn of its own.
    (Phase.BACKGROUND, Signal.PROMPT): (Phase.PROMPTED, (Action.END, Action.OPEN)),
    (Phase.BACKGROUND, Signal.MAIN): (Phase.OWN, _NOTHING),
    (Phase.BACKGROUND, Signal.SIDE): (Phase.BACKGROUND, _NOTHING),
    # An interrupt without a turn of the main thread is answered and has no result: nothing to cancel.
    (Phase.BACKGROUND, Signal.INTERRUPT): (Phase.BACKGROUND, _NOTHING),
    (Phase.BACKGROUND, Signal.STOPPED): (Phase.IDLE, (Action.END,)),
    (Phase.BACKGROUND, Signal.RESULT): (Phase.IDLE, (Action.END,)),
    (Phase.BACKGROUND, Signal.EXIT): (Phase.IDLE, (Action.END,)),
}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, as far as whoever ends it knows."""

    status: TurnStatus = "completed"
    reason: str = ""
    text: str = ""
    cost_usd: float = 0.0
    duration_ms: int = 0
    api_ms: int = 0
    model_turns: int = 0
    usage: dict[str, Usage] = {}
    errors: tuple[str, ...] = ()
    output: Any = None


def signal(
    step: Step, sign: Signal, ending: Ending | None = None, closed: list[str] | None = None
) -> tuple[Action, ...]:
    """Do what the table says; the actions tell a prompt whether it opened or steered.

    `closed` are calls that were ended already, by the exit."""
    state = step.state
    phase, actions = TABLE[Phase(state.phase), sign]
    for action in actions:
        if action is Action.OPEN:
            state.turn = Turn(turn_id(step.session, step.source))
            # Open at once: what an end releases must not open another.
            state.phase = Phase.OWN if phase is Phase.IDLE else phase
            step.tell(TurnStarted, trigger="prompt" if sign is Signal.PROMPT else "agent")
        elif action is Action.CANCEL and state.turn is not None:
            state.turn.cancelled = True
        elif action is Action.END:
            _end(step, ending or Ending(), closed)
    state.phase = phase
    return actions


def speaks(step: Step, thread: str) -> None:
    """The agent works in `thread`. The last words of a subagent that is over open no turn: nothing would end it."""
    if not thread:
        signal(step, Signal.MAIN)
    elif thread in step.state.subagents and not (step.origin == "transcript" and thread in step.state.began):
        # Rows of a subagent's file belong to the turn of its call and open none of their own.
        signal(step, Signal.SIDE)


def end_if_over(step: Step) -> None:
    """A transcript has no results: a turn with its final answer, or interrupted, ends before the next prompt."""
    turn = step.state.turn
    if turn is not None and (turn.final or turn.cancelled):
        outer, step.source = step.source, turn.id
        signal(step, Signal.RESULT, judged(step, ""))
        step.source = outer


def _end(step: Step, ending: Ending, closed: list[str] | None) -> None:
    if closed is None:
        if step.origin != "transcript":
            # Of a transcript another file may still tell whose they are.
            holding.release_all(step)
        closed = subagents.close(step)
    step.tell(
        TurnEnded,
        status=ending.status,
        reason=ending.reason,
        text=ending.text,
        cost_usd=ending.cost_usd,
        duration_ms=ending.duration_ms,
        api_ms=ending.api_ms,
        model_turns=ending.model_turns,
        usage=ending.usage,
        errors=ending.errors,
        closed=tuple(CallId(call) for call in closed),
        output=ending.output,
    )
    step.state.turn = None


def judged(step: Step, reason: str) -> Ending:
    """How an open turn ended that got no result: by whether its final answer was seen."""
    turn = step.state.turn
    if turn is not None and turn.cancelled:
        return Ending(status="cancelled", reason="interrupted")
    # A subagent's calls do not count: their results may stand in its own file alone, and while it works the call that
    # began it is open too.
    if turn is not None and turn.final and all(call.thread for call in step.state.calls.values()):
        if turn.error:
            return Ending(status="failed", reason=turn.error)
        return Ending(status="completed")
    return Ending(status="failed", reason=reason)


def diagram() -> str:
    """The table as a mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.IDLE}"]
    for (phase, sign), (after, actions) in TABLE.items():
        if actions or phase is not after:
            doing = f" / {', '.join(actions)}" if actions else ""
            lines.append(f"    {phase} --> {after}: {sign}{doing}")
    return "\n".join(lines) + "\n"
