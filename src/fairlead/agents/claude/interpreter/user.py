"""User records: our own prompts, tools' results, and what the CLI says in a user's name."""

from fairlead.agents.claude.interpreter import subagents, tasks, terminal_prompts, turns, user_text
from fairlead.agents.claude.interpreter.assistant import blocks_of
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnAction, TurnSignal
from fairlead.agents.claude.wire.records import UserRecord
from fairlead.model.content import Content, TextBlock, content_blocks, plain_text
from fairlead.model.events import Notice, UserMessage
from fairlead.model.ids import MessageId


def prompt(step: Step, record: UserRecord) -> None:
    """A line of ours, or a prompt that a transcript shows: a turn of its own, or a word into the running one."""
    steers = TurnAction.STEER in turns.signal(step, TurnSignal.PROMPT)
    if steers and step.state.turn is not None:
        step.state.turn.final = False
    step.tell(
        UserMessage,
        message=MessageId(step.source),
        content=content_blocks(record.message.content),
        via="steer" if steers else "prompt",
    )


def user(step: Step, record: UserRecord, thread: str) -> None:
    """A user record of the agent's: results first, then whatever text is beside them."""
    blocks = blocks_of(record.message.content)
    results = [block for block in blocks if block.get("type") == "tool_result" and _is_text(block.get("tool_use_id"))]
    for part, block in enumerate(results):
        turns.speaks(step, thread)
        if not thread and step.state.turn is not None:
            step.state.turn.final = False
        # Only a record with one result says whose structured result it brings.
        data = record.result if len(results) == 1 else None
        is_error = block.get("is_error") is True
        subagents.ended(step, block["tool_use_id"], block.get("content"), data, is_error, thread, part)
    rest = tuple(block for block in content_blocks(record.message.content) if not _is_result(block))
    if results:
        rest = tuple(block for block in rest if not _is_loaded(block))
    if rest:
        _words(step, record, rest, thread, beside=bool(results))
    elif not results:
        step.keep("user", thread=thread)


def _words(step: Step, record: UserRecord, content: tuple[Content, ...], thread: str, *, beside: bool) -> None:
    """`beside` a tool's result it is the agent's own, and part of its turn: no person typed it."""
    text = plain_text(content)
    words = user_text.read(text)
    if not thread and terminal_prompts.is_shown(step, text):
        terminal_prompts.shown(step)
    elif words.kind == "interrupted":
        if not thread:
            turns.signal(step, TurnSignal.INTERRUPT)
        step.keep("user", "interrupted", thread=thread)
    elif words.kind == "task":
        tasks.notified_by_text(step, words.text)
    elif words.kind in ("output", "command"):
        kind = "local_command" if words.kind == "output" else "command"
        step.tell(Notice, thread=thread, kind=kind, text=words.text)
    elif words.kind == "noise" or record.isMeta:
        step.keep("user", thread=thread)
    elif step.origin == "transcript" and not thread and not record.isCompactSummary and not beside:
        turns.end_if_over(step)
        prompt(step, record)
    else:
        turns.speaks(step, thread)
        step.tell(
            UserMessage,
            thread=thread,
            message=MessageId(step.source),
            content=content,
            via="agent",
            # In the main thread nobody typed what the agent's wire brings; in a subagent it is its task.
            synthetic=(not thread and not beside) or record.isSynthetic is True,
        )


def replayed(step: Step, record: UserRecord) -> None:
    """A repeat is nothing new; but a local command's output comes marked as one, and it comes only so."""
    words = user_text.read(plain_text(content_blocks(record.message.content)))
    if words.kind == "output" and step.state.turn is not None:
        step.tell(Notice, kind="local_command", text=words.text)


def _is_result(block: Content) -> bool:
    return getattr(block, "tool_use_id", None) is not None


def _is_loaded(block: Content) -> bool:
    """What the CLI says to the model when a tool that was searched for is there: nothing for a person."""
    return isinstance(block, TextBlock) and block.text.strip() == user_text.TOOL_LOADED


def _is_text(value: object) -> bool:
    return isinstance(value, str)
