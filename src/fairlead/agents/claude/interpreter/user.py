"""User records: our own prompts, tool results, and texts that the CLI writes in the user's name."""

from fairlead.agents.claude.interpreter import subagents, tasks, terminal_prompts, turns, user_text
from fairlead.agents.claude.interpreter.assistant import as_blocks
from fairlead.agents.claude.interpreter.step import Step
from fairlead.agents.claude.interpreter.turns import TurnAction, TurnSignal
from fairlead.agents.claude.wire.records import UserRecord
from fairlead.model.content import Content, TextBlock, ToolResultBlock, content_blocks, plain_text
from fairlead.model.events import Notice, UserMessage
from fairlead.model.ids import MessageId


def prompt(step: Step, record: UserRecord) -> None:
    """Handle our prompt or a transcript's prompt: it opens a turn or steers the running one."""
    steers = TurnAction.STEER in turns.signal(step, TurnSignal.PROMPT)
    if steers and step.state.turn is not None:
        step.state.turn.final = False
    content = content_blocks(record.message.content)
    step.emit(UserMessage, message=MessageId(step.source), content=content, via="steer" if steers else "prompt")


def user(step: Step, record: UserRecord, thread: str) -> None:
    """Handle a user record from the agent: the tool results first, then any other text in it."""
    blocks = as_blocks(record.message.content)
    results = [
        block for block in blocks if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)
    ]
    for part, block in enumerate(results):
        turns.on_output(step, thread)
        if not thread and step.state.turn is not None:
            step.state.turn.final = False
        # With several results in a record it is unclear to which of them the structured result belongs.
        data = record.result if len(results) == 1 else None
        is_error = block.get("is_error") is True
        subagents.ended(step, block["tool_use_id"], block.get("content"), data, is_error, thread, part)
    rest = tuple(block for block in content_blocks(record.message.content) if not isinstance(block, ToolResultBlock))
    if results:
        # The message to the model that a searched tool is loaded is not for a person.
        rest = tuple(b for b in rest if not isinstance(b, TextBlock) or b.text.strip() != user_text.TOOL_LOADED)
    if rest:
        _emit_text(step, record, rest, thread, with_result=bool(results))
    elif not results:
        step.store_record("user", thread=thread)


def _emit_text(step: Step, record: UserRecord, content: tuple[Content, ...], thread: str, *, with_result: bool) -> None:
    """Handle the text of a user record. Text in a record with a tool result (`with_result`) comes from the agent and is
    part of its turn: no person typed it."""
    text = plain_text(content)
    classified = user_text.classify(text)
    if not thread and terminal_prompts.matches_pending(step, text):
        terminal_prompts.confirm(step)
    elif classified.kind == "interrupted":
        # The rows come in order: while the row of a typed prompt is missing, this one is about the turn before it.
        if not thread and step.state.typed is None:
            turns.signal(step, TurnSignal.INTERRUPT)
        step.store_record("user", "interrupted", thread=thread)
    elif classified.kind == "task":
        tasks.notified_by_text(step, classified.text)
    elif classified.kind in ("output", "command"):
        kind = "local_command" if classified.kind == "output" else "command"
        step.emit(Notice, thread=thread, kind=kind, text=classified.text)
    elif classified.kind == "noise" or record.isMeta:
        step.store_record("user", thread=thread)
    elif step.origin == "transcript" and not thread and not record.isCompactSummary and not with_result:
        turns.end_if_final(step)
        prompt(step, record)
    else:
        turns.on_output(step, thread)
        step.emit(
            UserMessage,
            thread=thread,
            message=MessageId(step.source),
            content=content,
            via="agent",
            # In the main thread no person typed the text that the wire brings; in a subagent it is the task.
            synthetic=(not thread and not with_result) or record.isSynthetic is True,
        )


def replayed(step: Step, record: UserRecord) -> None:
    """Ignore a replayed record, except the output of a local command, which always comes marked as a replay."""
    classified = user_text.classify(plain_text(content_blocks(record.message.content)))
    if classified.kind == "output" and step.state.turn is not None:
        step.emit(Notice, kind="local_command", text=classified.text)
