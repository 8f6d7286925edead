"""Encodes a session's events as the chat's frames. Pure.

Every frame has a `seq`, its number. A text is sent once, as deltas while it is written, or whole: of a text that an
entry repeats, a client is sent only the part that it lacks.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.model import events as ev
from fairlead.model.formats.delta_progress import DeltaProgress, streamed_chars
from fairlead.model.formats.frames import json_frame
from fairlead.model.formats.numbered_frames import FRAMES, number
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry

RESULT_LENGTH: Final = 5000
"""Maximum characters (code points) of a tool's result in a frame."""

_SILENT: Final = frozenset({"record", "thinking.delta", "thinking", "hook.progress", "tool.progress"})
"""Frequent kinds without frames: they are not even decoded."""

Frame = dict[str, Any]


def error_frame(message: str, conversation: str = "") -> bytes:
    where = {"conversationId": conversation} if conversation else {}
    return json_frame({"type": "chat:error", **where, "message": message})


class ChatEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.gateway.FrameEncoder` and `ResumableEncoder`."""

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        """Encode for subscribers that received the deltas while they were streamed."""
        return _encoded(session, entry, streamed_chars)

    def catch_up(self, position: int, frame: int) -> "ChatCatchUp":
        return ChatCatchUp(position, frame)


ENCODER: Final = ChatEncoder()


class ChatCatchUp:
    """Implements `model.gateway.CatchUpEncoder`. `last` is the number of the last frame that the client has: a
    connection may end between two frames of one entry, which is then read again."""

    def __init__(self, position: int, last: int) -> None:
        self._deltas = DeltaProgress(max(position, last // FRAMES))
        self._last = last

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return _encoded(session, entry, self._deltas.chars_seen, self._last)


def _encoded(session: SessionId, entry: Entry, chars_seen: Callable[[ev.Event], int], last: int = 0) -> bytes:
    """The entry's frames after the number `last`."""
    if entry.kind in _SILENT:
        return b""
    event = ev.decode(entry.event)
    frames = numbered_frames(session, entry.seq, event, chars_seen(event))
    return b"".join(json_frame(frame) for frame in frames if frame["seq"] > last)


def numbered_frames(session: SessionId, seq: int, event: ev.Event, sent: int = 0) -> list[Frame]:
    return [
        {"type": fields.pop("type"), "conversationId": session, **fields, "seq": number(seq, slot)}
        for slot, fields in enumerate(frames_of(event, sent))
    ]


def frames_of(event: ev.Event, sent: int = 0) -> Sequence[Frame]:
    """The event's frames, for a client that has already received `sent` characters of this block."""
    match event:
        case ev.TurnStarted():
            return ({"type": "chat:stream_start"},)
        case ev.TextDelta(subagent=None):
            return _text(event.text)
        case ev.Text(subagent=None):
            return _text(event.text[sent:])
        case ev.SubagentStarted():
            facts = {"subagentId": event.child, "toolUseId": event.call, "title": event.title}
            return ({"type": "chat:subagent_start", **facts},)
        case ev.Text(subagent=str() as subagent) if event.text:
            return ({"type": "chat:subagent_text", "subagentId": subagent, "text": event.text},)
        case ev.InputDelta():
            # The first delta with content: only one such delta has the offset 0. The agent's first one is often empty.
            return _started(event.call, event.name) if event.offset == 0 and event.json else ()
        case ev.ToolCalled():
            return () if sent else _started(event.call, event.name)
        case ev.ToolEnded():
            result = {"result": result_text(event.content)[:RESULT_LENGTH], "isError": event.is_error}
            return ({"type": "chat:tool_end", "toolUseId": event.call, **result},)
        case ev.TurnEnded():
            return _ended(event)
        case ev.ErrorRaised(turn=None):
            return ({"type": "chat:error", "message": event.message},)
        case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
            asked = {"requestId": event.request, "toolName": event.tool, "input": event.input}
            return ({"type": "chat:permission_request", **asked},)
        case ev.PermissionResolved(asked=True):
            settled = {"allow": event.behavior == "allow", "by": event.by or event.how}
            return ({"type": "chat:permission_resolved", "requestId": event.request, **settled},)
        case ev.PermissionCancelled():
            settled = {"allow": False, "by": "", "reason": event.reason}
            return ({"type": "chat:permission_resolved", "requestId": event.request, **settled},)
        case ev.LifecycleEvent() | ev.DeltaEvent() | ev.SettingEvent() | ev.HousekeepingEvent() | ev.QueueEvent():
            return ()
        case ev.UserMessage() | ev.Text() | ev.Thinking() | ev.ToolProgress() | ev.SubagentEvent() | ev.ErrorRaised():
            return ()
        case ev.PermissionResolved() | ev.InterruptRequested() | ev.Rewound() | ev.RecordStored():
            return ()
        case _:
            assert_never(event)


def result_text(content: Any) -> str:
    """A tool's result as text: a text unchanged, the texts of blocks joined, anything else as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str)]
        if texts or not content:
            return "".join(texts)
    return msgspec.json.encode(content).decode()


def _text(delta: str) -> Sequence[Frame]:
    return ({"type": "chat:text_delta", "delta": delta},) if delta else ()


def _started(call: str, name: str) -> Sequence[Frame]:
    return ({"type": "chat:tool_start", "toolUseId": call, "toolName": name},)


def _ended(event: ev.TurnEnded) -> Sequence[Frame]:
    end = {"type": "chat:stream_end", "costUsd": event.cost_usd, "durationMs": event.duration_ms}
    match event.status:
        case "completed":
            return (end,)
        case "failed":
            text = event.text or "; ".join(event.errors) or event.reason or "The agent failed."
            return ({"type": "chat:error", "message": text}, end)
        case "cancelled":
            return ({"type": "chat:interrupted"},)
        case _:
            assert_never(event.status)
