"""Encodes a session's events as the messages for one ACP client. Pure.

Besides the updates, it writes the messages whose place among the updates matters: the answer to the call that opened
the session, the answers to prompts, the requests to the person, and their withdrawal. So the log decides the order of
everything that the client receives, also for a client that lags.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import structs

from fairlead.clients.acp.context import START, SessionContext
from fairlead.clients.acp.options import OfferedOptions
from fairlead.clients.acp.requests import PersonRequest, person_request, request_id
from fairlead.clients.acp.updates import EditorFeatures, UpdateWriter, commands_update
from fairlead.clients.acp.wire import (
    INTERNAL_ERROR,
    CallIdentifier,
    Fields,
    failure_frame,
    notification_frame,
    result_frame,
)
from fairlead.model import events as ev
from fairlead.model.formats.delta_progress import DeltaProgress, streamed_chars
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry

_SILENT: Final = frozenset({"record", "input.delta", "hook.progress", "tool.progress", "message.moved"})
"""Frequent kinds without messages: they are not even decoded."""
_STOP_REASONS: Final = {"error_max_turns": "max_turn_requests", "max_turn_requests": "max_turn_requests"}
_STOP_REASONS.update({"refusal": "refusal", "max_tokens": "max_tokens"})
"""Reasons of failed turns that are results in ACP; every other failure is an error."""


class SessionOpening(msgspec.Struct, frozen=True):
    """The call that opened the session: it is answered after the updates of the entries up to `seq`. `notice`: a frame
    that follows the answer."""

    id: CallIdentifier
    seq: int
    result: bytes
    notice: bytes = b""


class OpenPrompt(msgspec.Struct, frozen=True):
    """A prompt of this client: the call is answered when the turn of this message ends. `turn`: a prompt that answered
    a question has no message, and is answered when that turn ends."""

    message: str
    id: CallIdentifier
    turn: str = ""


class AcpEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.gateway.FrameEncoder`, `Contextual` and `ResumableEncoder`. Its context is a `SessionContext`.

    `shown_after`: earlier entries are read for the context only. `answered`: requests that this client has answered,
    which are not withdrawn."""

    features: EditorFeatures = EditorFeatures()
    offered: OfferedOptions = OfferedOptions()
    shown_after: int = 0
    opening: SessionOpening | None = None
    prompts: tuple[OpenPrompt, ...] = ()
    answered: tuple[str, ...] = ()

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: SessionContext | None, session: SessionId, entry: Entry) -> tuple[SessionContext, bytes]:
        """Encode for subscribers that received the deltas while they were streamed."""
        return self.encode_after(context, session, entry, streamed_chars)

    def catch_up(self, position: int, frame: int) -> "AcpCatchUp":
        return AcpCatchUp(self, max(position, self.shown_after))

    def encode_after(
        self, context: SessionContext | None, session: SessionId, entry: Entry, chars_seen: Callable[[ev.Event], int]
    ) -> tuple[SessionContext, bytes]:
        """The context after the entry, and its messages for a client that has `chars_seen` of its text."""
        before = context or START
        frames: list[bytes] = []
        opening = None if before.answered_opening else self.opening
        if opening is not None and entry.seq > opening.seq:
            before, opening = self._answer_opening(opening, session, before, frames), None
        now = before
        if entry.kind not in _SILENT:
            event = ev.decode(entry.event)
            now, sent = before.after(event), chars_seen(event)
            if entry.seq > self.shown_after:
                frames += self._messages(session, entry.seq, event, before, now, sent)
        if opening is not None and entry.seq == opening.seq:
            now = self._answer_opening(opening, session, now, frames)
        return now, b"".join(frames)

    def _answer_opening(
        self, opening: SessionOpening, session: SessionId, now: SessionContext, frames: list[bytes]
    ) -> SessionContext:
        """Answer the call that opened the session, then raise the requests that are open at that moment."""
        frames += [result_frame(opening.id, msgspec.Raw(opening.result)), opening.notice]
        if self.shown_after and now.commands:
            frames.append(_update_frame(session, opening.seq, commands_update(now.commands)))
        for event in now.waiting.values():
            frames.append(self._request(session, event, now))
        return structs.replace(now, answered_opening=True)

    def _messages(
        self, session: SessionId, seq: int, event: ev.Event, before: SessionContext, now: SessionContext, sent: int
    ) -> list[bytes]:
        live = self.opening is None or now.answered_opening
        own = {prompt.message for prompt in self.prompts}
        if isinstance(event, ev.UserMessage) and live and event.message in own:
            return []
        if isinstance(event, ev.Notice | ev.ErrorRaised | ev.RateLimit) and not live:
            # A notice is for the moment in which it is sent.
            features = structs.replace(self.features, notices=False)
        else:
            features = self.features
        updates = UpdateWriter(features, self.offered).updates_of(event, before, now, sent)
        frames = [_update_frame(session, seq, update) for update in updates]
        if not live:
            return frames
        match event:
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                frames.append(self._request(session, event, now))
            case ev.PermissionResolved() | ev.PermissionCancelled() if event.request in before.waiting:
                frames.insert(0, self._withdrawal(session, before.waiting[event.request], now))
            case ev.TurnEnded():
                turn = event.turn or ""
                messages = before.turns.get(turn, ())
                ended = (prompt for prompt in self.prompts if prompt.message in messages or turn == prompt.turn != "")
                frames += [_prompt_answer(prompt, event) for prompt in ended]
            case ev.MessageCancelled():
                frames += [_stopped(prompt, "cancelled") for prompt in self.prompts if prompt.message == event.message]
            case _:
                pass
        return frames

    def _request(self, session: SessionId, event: PersonRequest, now: SessionContext) -> bytes:
        if not self.features.approves:
            return b""
        return person_request(session, event, now.cwd, forms=self.features.forms)

    def _withdrawal(self, session: SessionId, event: PersonRequest, now: SessionContext) -> bytes:
        """Withdraw a request that another client, a rule or the agent settled."""
        if event.request in self.answered or not self._request(session, event, now):
            return b""
        return notification_frame("$/cancel_request", {"requestId": request_id(session, event.request)})


class AcpCatchUp:
    """Implements `model.gateway.CatchUpEncoder` and `Contextual`, for one subscription."""

    def __init__(self, encoder: AcpEncoder, position: int) -> None:
        self._encoder = encoder
        self._deltas = DeltaProgress(position)

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: SessionContext | None, session: SessionId, entry: Entry) -> tuple[SessionContext, bytes]:
        return self._encoder.encode_after(context, session, entry, self._deltas.chars_seen)


def _update_frame(session: SessionId, seq: int, update: Fields) -> bytes:
    """An update with its position in the log, from which a client can resume."""
    meta: dict[str, Any] = update.get("_meta", {})
    place = {"_meta": {**meta, "fairlead": {**meta.get("fairlead", {}), "seq": seq}}}
    return notification_frame("session/update", {"sessionId": session, "update": {**update, **place}})


def _stopped(prompt: OpenPrompt, reason: str) -> bytes:
    return result_frame(prompt.id, {"stopReason": reason})


def _prompt_answer(prompt: OpenPrompt, event: ev.TurnEnded) -> bytes:
    if event.status == "completed":
        return _stopped(prompt, "end_turn")
    if event.status == "cancelled":
        return _stopped(prompt, "cancelled")
    if reason := _STOP_REASONS.get(event.reason):
        return _stopped(prompt, reason)
    message = "; ".join(event.errors) or event.text or event.reason or "The agent failed."
    return failure_frame(prompt.id, INTERNAL_ERROR, message, {"code": "turn_failed", "reason": event.reason})
