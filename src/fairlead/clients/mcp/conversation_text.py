"""The conversation of a session as text for a model: messages, answers and tools of its main thread. Pure."""

from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.mcp.tools import clip, one_line
from fairlead.model import events as ev
from fairlead.model.content import plain_text
from fairlead.model.formats.timestamps import iso_timestamp

MOST_TEXT: Final = 6_000
"""Characters of one message; of a tool's input and result see below."""
MOST_INPUT: Final = 600
MOST_RESULT: Final = 1_200


def event_text(event: ev.Event) -> str:
    """One event as a paragraph; empty if it is not a part of the conversation, or of a subagent's."""
    if event.subagent is not None:
        return ""
    match event:
        case ev.UserMessage() if not event.synthetic:
            by = f" ({one_line(event.by, 80)})" if event.by else ""
            return f"### Message{by}, {iso_timestamp(event.at)}\n{clip(plain_text(event.content), MOST_TEXT)}"
        case ev.Text():
            return f"### Agent, {iso_timestamp(event.at)}\n{clip(event.text, MOST_TEXT)}"
        case ev.ToolCalled():
            return f"### Tool call {one_line(event.name, 80)}\n{clip(_json(event.input), MOST_INPUT)}"
        case ev.ToolEnded():
            verdict = "" if event.status == "done" and not event.is_error else f" ({event.status})"
            return f"### Tool result{verdict}\n{clip(_result(event.content), MOST_RESULT)}"
        case ev.PermissionRequested():
            return f"### A person is asked to permit {one_line(event.tool, 80)}"
        case ev.QuestionAsked():
            return f"### A person is asked a question\n{clip(_json(event.questions), MOST_INPUT)}"
        case ev.PlanProposed():
            return f"### A person is shown a plan\n{clip(event.plan, MOST_TEXT)}"
        case ev.PermissionResolved() if event.asked:
            return f"### Permission: {event.behavior} for {one_line(event.tool, 80)}"
        case ev.TurnEnded() if event.status != "completed":
            return f"### End of the turn: {event.status} ({one_line(event.reason or 'no reason given', 200)})"
        case ev.ErrorRaised():
            return f"### Error: {one_line(event.message, 400)}"
        case ev.Compaction(phase="boundary"):
            return "### The conversation was compacted here"
        case ev.UserMessage() | ev.PermissionResolved() | ev.PermissionCancelled() | ev.TurnStarted() | ev.TurnEnded():
            return ""
        case ev.LifecycleEvent() | ev.SettingEvent() | ev.HousekeepingEvent() | ev.QueueEvent() | ev.DeltaEvent():
            return ""
        case ev.SubagentEvent() | ev.Thinking() | ev.ToolProgress() | ev.InterruptRequested() | ev.Rewound():
            return ""
        case ev.RecordStored():
            return ""
        case _:
            assert_never(event)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _result(content: Any) -> str:
    """The text of a tool's result: a text, or blocks of which the texts are shown."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
        if texts:
            return "\n".join(texts)
    return "" if content is None else _json(content)
