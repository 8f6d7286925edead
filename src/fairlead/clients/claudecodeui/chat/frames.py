"""What a chat socket is sent of a session: a run's events as frames. Pure.

A run is a turn: its frames lie between the turn's start and its end, whose `complete` is the last. Every frame has a
`seq` that grows over the session's whole life: the frame in slot `k` of the log's entry `n` is `64 * n + k`, live and
in every replay. A text that is streamed comes as pieces and an end, which has the text's id and words; who resumes in
the middle of it is sent the rest of the pieces. To those who got no piece of it, it comes as a row.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.clients.claudecodeui.chat.rows import base_of, enveloped, row_of
from fairlead.clients.claudecodeui.rest.project_fields import Fields
from fairlead.model import events as ev
from fairlead.model.delta_progress import DeltaProgress, streamed
from fairlead.model.frames import text_frame
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.timestamps import moment

FRAMES: Final = 64
"""Numbers that an entry's frames have for themselves (design: views)."""
REST, ENDED, ROW, AFTER = 0, 1, 2, 3
"""The slots: pieces that a late one lacks (or the end of a text that was given up), the end of what was cut off, the
row itself or the end of its pieces, and what comes after it."""
WINDOW: Final = 160_000
"""Tokens that a conversation may have, as the original tells it where nobody has set another number."""
LATER_MS: Final = 3000
"""How much later than it was a call is stamped live. The app sorts rows by their time, and stamps a streamed text with
its own clock when the text ends: a call that follows at once would be shown above it. History has the time that it
was."""
PARENTS: Final = 256
"""Subagents whose calls are remembered."""

PIECE: Final = "text.delta"
_SILENT: Final = frozenset(
    {"record", "thinking.delta", "input.delta", "hook.progress", "tool.progress", "user.message"}
)
"""Kinds that come often and mean nothing here: they are not even decoded."""

_encoder: Final = msgspec.json.Encoder()

Slots = Sequence[tuple[int, Fields]]


class WaitingRequest(msgspec.Struct, frozen=True):
    """A request that waits for a person, and the place at which it was made."""

    told: Any
    seq: int


class RenderContext(msgspec.Struct, frozen=True):
    """What the frames of an event need of those before it: the context of `ChatVariant`, and part of what history
    stores. A value: what is learnt makes another one."""

    parents: Mapping[str, str] = {}
    """The call that started each subagent."""
    waiting: Mapping[str, WaitingRequest] = {}
    """Requests of subagents: they outlive the run that they were made in."""

    def after(self, seq: int, event: ev.Event) -> "RenderContext":
        match event:
            case ev.SubagentStarted():
                parents = {**self.parents, event.child: event.call}
                if len(parents) > PARENTS:
                    del parents[next(iter(parents))]
                return RenderContext(parents, self.waiting)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed() if event.subagent is not None:
                return RenderContext(
                    self.parents, {**self.waiting, event.request: WaitingRequest(request_fields(event), seq)}
                )
            case ev.PermissionResolved() | ev.PermissionCancelled() if event.request in self.waiting:
                rest = {name: asked for name, asked in self.waiting.items() if name != event.request}
                return RenderContext(self.parents, rest)
            case ev.SessionForked():
                # What was under way in the parent is not under way here.
                return RenderContext(self.parents)
            case _:
                return self


NOTHING: Final = RenderContext()


def frame(message: Fields) -> bytes:
    return text_frame(_encoder.encode(message))


def number(seq: int, slot: int = FRAMES - 1) -> int:
    """The number of an entry's frame; without a slot, one behind all its frames."""
    return seq * FRAMES + slot


class ChatEncoder(msgspec.Struct, frozen=True):
    """Implements `model.gateway.Variant`, `Contextual` and `Continuing`. Its context is a `Known`.

    `whole`: texts are told when they are whole, and not in pieces."""

    whole: bool = False

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: RenderContext | None, session: SessionId, entry: Entry) -> tuple[RenderContext, bytes]:
        """For those who were there when it was streamed."""
        known = context or NOTHING
        if _is_silent(entry, whole=self.whole):
            return known, b""
        event = ev.decode(entry.event)
        known = known.after(entry.seq, event)
        told = 0 if self.whole else streamed(event)
        return known, joined(numbered(session, entry.seq, event, known, told), whole=self.whole)

    def signal(self, session: SessionId, kind: str, name: str, data: object) -> bytes:
        return b""

    def reading(self, position: int, frame: int) -> "ChatCatchUp":
        return ChatCatchUp(position, frame, whole=self.whole)


class ChatCatchUp:
    """Implements `model.gateway.Reading` and `Contextual`, for one watcher. `last` is the number of the last frame that
    it has: a connection may end between two frames of one entry, which is read again then."""

    def __init__(self, position: int, last: int, *, whole: bool) -> None:
        entry, slot = divmod(last, FRAMES)
        # Of a piece's frames the end of what was before it is the first.
        self._pieces = DeltaProgress(max(position, entry if slot >= ROW else entry - 1))
        self._whole = whole
        self._last = last

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: RenderContext | None, session: SessionId, entry: Entry) -> tuple[RenderContext, bytes]:
        known = context or NOTHING
        if _is_silent(entry, whole=self._whole):
            return known, b""
        event = ev.decode(entry.event)
        known = known.after(entry.seq, event)
        told = 0 if self._whole else self._pieces.told(event)
        frames = numbered(session, entry.seq, event, known, told)
        if number(entry.seq, 0) <= self._last:
            frames = [frame for frame in frames if frame["seq"] > self._last]
        return known, joined(frames, whole=self._whole)


def _is_silent(entry: Entry, *, whole: bool) -> bool:
    return entry.kind in _SILENT or (whole and entry.kind == PIECE)


def joined(frames: Sequence[Fields], *, whole: bool = False) -> bytes:
    """`whole`: for those who look at another session, for whose the end of pieces would be taken."""
    if whole:
        frames = [told for told in frames if told["kind"] not in ("stream_delta", "stream_end")]
    return b"".join(map(frame, frames))


def numbered(session: SessionId, seq: int, event: ev.Event, known: RenderContext, told: int = 0) -> list[Fields]:
    """`known` is what is known with this event; `told`: so many characters of its text were told in pieces before."""
    slots = slots_of(session, event, known, told)
    if isinstance(event, ev.TurnEnded):
        slots = (*slots, *_asked_again(session, seq, event, known))
    return [{**fields, "seq": number(seq, slot)} for slot, fields in slots]


def slots_of(session: SessionId, event: ev.Event, known: RenderContext, told: int = 0) -> Slots:
    match event:
        case ev.TextDelta(subagent=None) if event.turn and event.text:
            piece = (ROW, _frame(session, event, "delta", kind="stream_delta", content=event.text))
            # With its first piece a text that was given up before it is over.
            return (piece,) if event.offset else ((ENDED, _end(session, event)), piece)
        case ev.Text() | ev.Thinking() | ev.ToolCalled() | ev.ToolEnded() | ev.Notice() if event.turn:
            return (*_words(session, event, known, told), *_budget(session, event))
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
            # A run that was taken back before it began.
            return ((AFTER, complete(session, event, code=0, aborted=True)),)
        case (
            ev.TextDelta()
            | ev.Text()
            | ev.Thinking()
            | ev.ToolCalled()
            | ev.ToolEnded()
            | ev.Notice()
            | ev.PermissionResolved()
            | ev.PermissionCancelled()
            | ev.MessageCancelled()
            | ev.SessionOpened()
            | ev.SessionResumed()
            | ev.SessionForked()
            | ev.SessionChanged()
            | ev.SessionClosed()
            | ev.AgentStarted()
            | ev.AgentReady()
            | ev.AgentExited()
            | ev.HandoverRequested()
            | ev.HandoverSettled()
            | ev.TurnStarted()
            | ev.UserMessage()
            | ev.ThinkingDelta()
            | ev.InputDelta()
            | ev.ToolProgress()
            | ev.SubagentStarted()
            | ev.SubagentEnded()
            | ev.SubagentResolved()
            | ev.ModeChanged()
            | ev.ModelChanged()
            | ev.ThinkingChanged()
            | ev.Compaction()
            | ev.RateLimit()
            | ev.HookProgress()
            | ev.MessageQueued()
            | ev.MessageDequeued()
            | ev.MessageMoved()
            | ev.InterruptRequested()
            | ev.Rewound()
            | ev.ErrorRaised()
            | ev.RecordStored()
        ):
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


def _words(session: SessionId, event: ev.Event, known: RenderContext, told: int) -> Slots:
    """A row; before a text the end of whatever was given up. A text that was told in pieces has no row: the app makes
    one of the pieces, stamped with its own clock, and shows both where a row's time lies between the two."""
    row = _row(session, event, known)
    if not isinstance(event, ev.Text) or event.subagent is not None:
        return row
    if not told or not row:
        return ((REST, _end(session, event)), *row)
    rest = event.text[told:]
    missing = ((REST, _frame(session, event, "rest", kind="stream_delta", content=rest)),) if rest else ()
    return (*missing, *((slot, {**fields, "kind": "stream_end"}) for slot, fields in row))


def _end(session: SessionId, event: ev.Event) -> Fields:
    return _frame(session, event, "end", kind="stream_end")


def _row(session: SessionId, event: ev.Event, known: RenderContext) -> Slots:
    row = row_of(session, event)
    if row is None:
        return ()
    if isinstance(event, ev.ToolCalled):
        row["timestamp"] = moment(event.at + LATER_MS)
    if event.subagent is not None:
        row["parentToolUseId"] = known.parents.get(event.subagent, event.subagent)
    return ((ROW, row),)


def _budget(session: SessionId, event: ev.Event) -> Slots:
    """What the conversation holds now, after each record of the main thread."""
    tokens = held(event) if isinstance(event, ev.Text | ev.Thinking | ev.ToolCalled) else None
    if tokens is None:
        return ()
    return ((AFTER, _frame(session, event, "status", kind="status", text="token_budget", tokenBudget=budget(tokens))),)


def held(event: ev.Text | ev.Thinking | ev.ToolCalled) -> ev.TokenCount | None:
    """What the conversation holds, where this event tells it."""
    return None if event.subagent is not None or event.tokens == ev.TokenCount() else event.tokens


def budget(tokens: ev.TokenCount) -> Fields:
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
    # What was being written will never be whole; where nothing was, the end of nothing says nothing.
    cut = () if done else ((ENDED, _end(session, event)),)
    words = failure_text(event)
    told = ((ROW, _frame(session, event, "error", kind="error", content=words)),) if words else ()
    return (*cut, *told, end)


def _asked_again(session: SessionId, seq: int, event: ev.TurnEnded, known: RenderContext) -> Slots:
    """With `complete` the app puts all cards away, also those of what goes on in the background."""
    waiting = [(name, asked.told) for name, asked in known.waiting.items() if asked.seq < seq]
    return [
        (slot, _frame(session, event, f"{name}_request", kind="permission_request", **told))
        for slot, (name, told) in zip(range(AFTER + 1, FRAMES), waiting, strict=False)
    ]


def failure_text(event: ev.TurnEnded) -> str:
    """Why a run failed, unless the agent has said it in its own last words."""
    if event.status != "failed" or event.text:
        return ""
    return "; ".join(event.errors) or event.reason or "The agent failed."
