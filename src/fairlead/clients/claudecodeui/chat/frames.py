"""Encodes a session's events as frames for a chat socket. Pure.

A run is a turn: its frames lie between the turn's start and its end; the last one is the turn end's `complete`. Every
frame has a `seq`, its number, which grows over the session's whole life. A streamed text is sent as deltas and an end
frame, which has the text's id and content; a client that resumes in the middle is sent the rest as deltas. A client
that received no delta of a text gets it as a row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.claudecodeui.chat.rows import base_of, enveloped, row_of
from fairlead.clients.claudecodeui.rest.project_fields import Fields
from fairlead.model import events as ev
from fairlead.model.formats.bounded_tables import drop_oldest
from fairlead.model.formats.delta_progress import DeltaProgress, streamed_chars
from fairlead.model.formats.frames import json_frame
from fairlead.model.formats.numbered_frames import FRAMES, number
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry

REST, ENDED, ROW, AFTER = 0, 1, 2, 3
"""The slots: the deltas that a late client lacks (or the end of an abandoned text), the end of a text that was cut
off, the row itself or the end of its deltas, and the frames after it."""
WINDOW: Final = 160_000
"""Size of the context window in tokens: the original's default."""
LATER_MS: Final = 3000
"""Delay added to the timestamp of a live call. The app sorts rows by time, and stamps a streamed text with its own
clock when the text ends: a call that follows at once would be shown above the text. History has the true time."""
PARENTS: Final = 256
"""Maximum number of subagents whose starting call is remembered."""

PIECE: Final = "text.delta"
_SILENT: Final = frozenset(
    {"record", "thinking.delta", "input.delta", "hook.progress", "tool.progress", "user.message"}
)
"""Frequent kinds without frames: they are not even decoded."""

Slots = Sequence[tuple[int, Fields]]


class WaitingRequest(msgspec.Struct, frozen=True):
    """A request that waits for a person, and its position in the log."""

    fields: Any = msgspec.field(name="told")
    seq: int


class RenderContext(msgspec.Struct, frozen=True):
    """The facts from earlier events that an event's frames need: the context of `ChatEncoder`, and part of the
    history's stored memory. Immutable: `after` returns a new one."""

    parents: Mapping[str, str] = {}
    """The call that started each subagent."""
    waiting: Mapping[str, WaitingRequest] = {}
    """Open requests of subagents: they outlive the run in which they were made."""

    def after(self, seq: int, event: ev.Event) -> "RenderContext":
        match event:
            case ev.SubagentStarted():
                parents = {**self.parents, event.child: event.call}
                drop_oldest(parents, PARENTS)
                return RenderContext(parents, self.waiting)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed() if event.subagent is not None:
                asked = WaitingRequest(request_fields(event), seq)
                return RenderContext(self.parents, {**self.waiting, event.request: asked})
            case ev.PermissionResolved() | ev.PermissionCancelled() if event.request in self.waiting:
                rest = {name: asked for name, asked in self.waiting.items() if name != event.request}
                return RenderContext(self.parents, rest)
            case ev.SessionForked():
                # A request that is open in the parent is not open in the fork.
                return RenderContext(self.parents)
            case _:
                return self


NOTHING: Final = RenderContext()


class ChatEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.gateway.FrameEncoder`, `Contextual` and `ResumableEncoder`. Its context is a `RenderContext`.

    `whole`: texts are sent when they are complete, not as deltas."""

    whole: bool = False

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: RenderContext | None, session: SessionId, entry: Entry) -> tuple[RenderContext, bytes]:
        """Encode for subscribers that received the deltas while they were streamed."""
        return _step(context, session, entry, streamed_chars, whole=self.whole)

    def catch_up(self, position: int, frame: int) -> "ChatCatchUp":
        return ChatCatchUp(position, frame, whole=self.whole)


class ChatCatchUp:
    """Implements `model.gateway.CatchUpEncoder` and `Contextual`, for one subscription. `last` is the number of the
    last frame that the client has: a connection may end between two frames of one entry, which is then read again."""

    def __init__(self, position: int, last: int, *, whole: bool) -> None:
        entry, slot = divmod(last, FRAMES)
        # A delta's first frame may be the end of the previous text: a client with only that lacks the delta itself.
        self._deltas = DeltaProgress(max(position, entry if slot >= ROW else entry - 1))
        self._whole = whole
        self._last = last

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: RenderContext | None, session: SessionId, entry: Entry) -> tuple[RenderContext, bytes]:
        return _step(context, session, entry, self._deltas.chars_seen, whole=self._whole, last=self._last)


def _step(
    context: RenderContext | None,
    session: SessionId,
    entry: Entry,
    chars_seen: Callable[[ev.Event], int],
    *,
    whole: bool,
    last: int = 0,
) -> tuple[RenderContext, bytes]:
    """The context after the entry, and the entry's frames after the number `last`. Clients that get whole texts show
    another session: they would take a `stream_end` for the end of that session's text."""
    known = context or NOTHING
    if entry.kind in _SILENT or (whole and entry.kind == PIECE):
        return known, b""
    event = ev.decode(entry.event)
    known = known.after(entry.seq, event)
    frames = numbered_frames(session, entry.seq, event, known, 0 if whole else chars_seen(event))
    hidden = ("stream_delta", "stream_end") if whole else ()
    return known, b"".join(json_frame(one) for one in frames if one["seq"] > last and one["kind"] not in hidden)


def numbered_frames(session: SessionId, seq: int, event: ev.Event, known: RenderContext, sent: int = 0) -> list[Fields]:
    """The event's numbered frames. `known`: the context including this event; `sent`: the number of characters of its
    text that were already sent as deltas."""
    slots = frames_with_slots(session, event, known, sent)
    if isinstance(event, ev.TurnEnded):
        slots = (*slots, *_repeat_requests(session, seq, event, known))
    return [{**fields, "seq": number(seq, slot)} for slot, fields in slots]


def frames_with_slots(session: SessionId, event: ev.Event, known: RenderContext, sent: int = 0) -> Slots:
    match event:
        case ev.TextDelta(subagent=None) if event.turn and event.text:
            piece = (ROW, _frame(session, event, "delta", kind="stream_delta", content=event.text))
            # The first delta of a text ends an abandoned text before it.
            return (piece,) if event.offset else ((ENDED, _end(session, event)), piece)
        case ev.Text() | ev.Thinking() | ev.ToolCalled() | ev.ToolEnded() | ev.Notice() if event.turn:
            return (*_content(session, event, known, sent), *_budget(session, event))
        case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
            return ((ROW, _frame(session, event, "request", kind="permission_request", **request_fields(event))),)
        case ev.PermissionResolved(asked=True):
            answer = {"reason": "answered", "allow": event.behavior == "allow", "by": event.by or event.how}
            return ((ROW, _settled(session, event, **answer)),)
        case ev.PermissionCancelled() if event.turn:
            return ((ROW, _settled(session, event, reason="cancelled")),)
        case ev.TurnEnded():
            return _ended(session, event)
        case ev.MessageCancelled(turn=None):
            # A run that was withdrawn before it began.
            return ((AFTER, complete(session, event, code=0, aborted=True)),)
        case ev.LifecycleEvent() | ev.DeltaEvent() | ev.SettingEvent() | ev.HousekeepingEvent() | ev.QueueEvent():
            return ()
        case ev.TurnStarted() | ev.UserMessage() | ev.Text() | ev.Thinking() | ev.ErrorRaised() | ev.RecordStored():
            return ()
        case ev.ToolCalled() | ev.ToolProgress() | ev.ToolEnded() | ev.SubagentEvent():
            return ()
        case ev.PermissionResolved() | ev.PermissionCancelled() | ev.InterruptRequested() | ev.Rewound():
            return ()
        case _:
            assert_never(event)


def request_fields(event: ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed) -> Fields:
    return {"requestId": event.request, "toolName": event.tool, "input": event.input}


def complete(session: SessionId, event: ev.Event, *, code: int, aborted: bool) -> Fields:
    end = {"actualSessionId": session, "exitCode": code, "success": code == 0 and not aborted, "aborted": aborted}
    return _frame(session, event, "complete", kind="complete", **end)


def _frame(session: SessionId, event: ev.Event, what: str, **fields: object) -> Fields:
    return enveloped(session, event, f"{base_of(event)}_{what}", dict(fields))


def _content(session: SessionId, event: ev.Event, known: RenderContext, sent: int) -> Slots:
    """A row; before a text, the end of an abandoned text. A text that was sent as deltas has no row: the app builds
    one from the deltas, stamped with its own clock, and would show both if another row's time lay between the two."""
    row = _row(session, event, known)
    if not isinstance(event, ev.Text) or event.subagent is not None:
        return row
    if not sent or not row:
        return ((REST, _end(session, event)), *row)
    rest = event.text[sent:]
    missing = ((REST, _frame(session, event, "rest", kind="stream_delta", content=rest)),) if rest else ()
    return (*missing, *((slot, {**fields, "kind": "stream_end"}) for slot, fields in row))


def _end(session: SessionId, event: ev.Event) -> Fields:
    return _frame(session, event, "end", kind="stream_end")


def _row(session: SessionId, event: ev.Event, known: RenderContext) -> Slots:
    row = row_of(session, event)
    if row is None:
        return ()
    if isinstance(event, ev.ToolCalled):
        row["timestamp"] = iso_timestamp(event.at + LATER_MS)
    if event.subagent is not None:
        row["parentToolUseId"] = known.parents.get(event.subagent, event.subagent)
    return ((ROW, row),)


def _budget(session: SessionId, event: ev.Event) -> Slots:
    """The current size of the context, after each record of the main thread."""
    tokens = context_tokens(event) if isinstance(event, ev.Text | ev.Thinking | ev.ToolCalled) else None
    if tokens is None:
        return ()
    budget = {"text": "token_budget", "tokenBudget": token_budget(tokens)}
    return ((AFTER, _frame(session, event, "status", kind="status", **budget)),)


def context_tokens(event: ev.Text | ev.Thinking | ev.ToolCalled) -> ev.TokenCount | None:
    """The size of the context, if this event has it."""
    return None if event.subagent is not None or event.tokens == ev.TokenCount() else event.tokens


def token_budget(tokens: ev.TokenCount) -> Fields:
    cached = tokens.cache_read + tokens.cache_write
    return {
        "used": tokens.input + tokens.output + cached,
        "total": WINDOW,
        "inputTokens": tokens.input,
        "outputTokens": tokens.output,
        "cacheReadTokens": tokens.cache_read,
        "cacheCreationTokens": tokens.cache_write,
        "cacheTokens": cached,
        "breakdown": {"input": tokens.input, "output": tokens.output},
    }


def _settled(session: SessionId, event: ev.PermissionResolved | ev.PermissionCancelled, **how: object) -> Fields:
    return _frame(session, event, "settled", kind="permission_cancelled", requestId=event.request, **how)


def _ended(session: SessionId, event: ev.TurnEnded) -> Slots:
    done = event.status == "completed"
    end = (AFTER, complete(session, event, code=int(event.status == "failed"), aborted=event.status == "cancelled"))
    # A text that was being written will never be complete; without one, an extra `stream_end` is harmless.
    cut = () if done else ((ENDED, _end(session, event)),)
    text = failure_text(event)
    error = ((ROW, _frame(session, event, "error", kind="error", content=text)),) if text else ()
    return (*cut, *error, end)


def _repeat_requests(session: SessionId, seq: int, event: ev.TurnEnded, known: RenderContext) -> Slots:
    """Repeat the open requests of subagents: on `complete` the app removes all cards, also those of background work."""
    waiting = [(name, asked.fields) for name, asked in known.waiting.items() if asked.seq < seq]
    return [
        (slot, _frame(session, event, f"{name}_request", kind="permission_request", **fields))
        for slot, (name, fields) in zip(range(AFTER + 1, FRAMES), waiting, strict=False)
    ]


def failure_text(event: ev.TurnEnded) -> str:
    """Why a run failed; empty if the agent's last text already explains it."""
    if event.status != "failed" or event.text:
        return ""
    return "; ".join(event.errors) or event.reason or "The agent failed."
