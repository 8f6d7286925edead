"""A conversation's messages, from its log: one for each message of a person, and one for each answer of the agent.

`MessageReducer` counts them and remembers how the last answer ended. `MessageRenderer` writes them, a block at a time,
so that a long conversation needs no more memory than a short one. Both follow the same rules.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.cognova.chat_frames import result_text
from fairlead.model import events as ev
from fairlead.model.content import Content, OtherBlock, ToolResultBlock
from fairlead.model.formats.numbered_frames import number
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import Made, MemoryReducer, ReducerProjection

NAME: Final = "cognova.1"

_COUNTED: Final = frozenset({"user.message", "turn.started", "turn.ended"})
_CONTENT: Final = frozenset({"text", "text.delta", "tool.called", "tool.ended"})
_ENDS: Final = {"completed": "idle", "failed": "error", "cancelled": "interrupted"}

_encoder: Final = msgspec.json.Encoder()


def is_user_message(event: ev.UserMessage) -> bool:
    """Whether this is a person's own message, and not other input of the agent."""
    if event.via == "agent" or event.synthetic or event.subagent is not None:
        return False
    return any(not isinstance(block, ToolResultBlock) for block in event.content)


def is_answer_part(event: ev.Event) -> bool:
    """Whether this event is part of an answer."""
    match event:
        case ev.Text() | ev.TextDelta():
            return event.subagent is None and bool(event.text)
        case ev.ToolCalled():
            return True
        case ev.ToolEnded():
            # An interrupted call that was never made does not belong to an answer; if it was made, its answer has
            # begun already.
            return event.status != "interrupted"
        case _:
            return False


# --- the number of messages ----------------------------------------------------------------------------


class MessageCount(msgspec.Struct):
    """`status`: how the last finished answer ended."""

    messages: int = 0
    status: str = "idle"
    answering: bool = False


decode_count: Final = msgspec.msgpack.Decoder(MessageCount).decode


class MessageReducer(MemoryReducer[MessageCount]):
    """Implements `model.views.Reducer`: it makes no rows, only a count."""

    def __init__(self) -> None:
        super().__init__(MessageCount())

    def step(self, entry: Entry) -> Sequence[Made]:
        memory = self._memory
        if entry.kind in _CONTENT:
            if not memory.answering and is_answer_part(ev.decode(entry.event)):
                memory.answering = True
                memory.messages += 1
        elif entry.kind in _COUNTED:
            match ev.decode(entry.event):
                case ev.UserMessage() as event if is_user_message(event):
                    memory.messages += 1
                case ev.TurnStarted():
                    memory.answering = False
                case ev.TurnEnded(status=status):
                    memory.answering = False
                    memory.status = _ENDS[status]
                case _:
                    pass
        return ()


PROJECTION: Final = ReducerProjection(NAME, lambda session: MessageReducer())


# --- the messages --------------------------------------------------------------------------------------


class Partial(msgspec.Struct):
    """A text of which only deltas are in the log: it is being written, or was never finished."""

    name: tuple[str, int]
    text: str


class MessageRenderer:
    """Implements `model.web.routes.LogRenderer`: writes the fields of `head`, `messages`, and the number of the last
    frame."""

    def __init__(self, session: SessionId, head: dict[str, Any]) -> None:
        self._session = session
        self._head = head
        self._seq = 0
        self._answer = ""
        """The turn whose message is currently written; empty between answers."""
        self._at = 0
        self._blocks = 0
        self._calls: set[str] = set()
        self._partial: Partial | None = None
        self._after: list[bytes] = []
        """Messages that a person sent during an answer: they are written after it."""
        self._first = True

    def begin(self) -> bytes:
        return b'{"data":%s,"messages":[' % _encoder.encode(self._head)[:-1]

    def entry(self, entry: Entry) -> bytes:
        self._seq = entry.seq
        if entry.kind not in _CONTENT and entry.kind not in _COUNTED:
            return b""
        event = ev.decode(entry.event)
        match event:
            case ev.UserMessage() if is_user_message(event):
                return self._user(event)
            case ev.TurnStarted():
                return self._close(0.0, 0)
            case ev.TurnEnded():
                return self._close(event.cost_usd, event.duration_ms)
            case ev.TextDelta() if is_answer_part(event):
                return self._piece(event)
            case ev.Text() if is_answer_part(event):
                if self._partial is not None and self._partial.name == (event.message, event.block):
                    self._partial = None
                return self._next_block(event, {"type": "text", "text": event.text})
            case ev.ToolCalled():
                call = {"type": "tool_use", "id": event.call, "name": event.name, "input": event.input}
                output = self._block(event, call) if event.subagent else self._next_block(event, call)
                self._calls.add(event.call)
                return output
            case ev.ToolEnded() if is_answer_part(event) or event.call in self._calls:
                # Always a text: the page calls string methods on it.
                content = result_text(event.content)
                result = {"type": "tool_result", "tool_use_id": event.call, "content": content}
                return self._block(event, {**result, "is_error": event.is_error})
            case _:
                return b""

    def end(self) -> bytes:
        return self._close(0.0, 0) + b'],"lastSeq":%d}}' % number(self._seq)

    def _user(self, event: ev.UserMessage) -> bytes:
        fields = {
            "id": event.message,
            "conversationId": self._session,
            "role": "user",
            "content": [_shown(block) for block in event.content],
            "source": "web",
            "costUsd": None,
            "durationMs": None,
            "createdAt": iso_timestamp(event.at),
        }
        message = _encoder.encode(fields)
        if self._answer:
            self._after.append(message)
            return b""
        return self._next() + message

    def _piece(self, event: ev.TextDelta) -> bytes:
        partial, name = self._partial, (event.message, event.block)
        if partial is not None and partial.name == name:
            partial.text += event.text
            return b""
        output = (b"" if self._answer else self._open(event)) + self._unfinished()
        self._partial = Partial(name, event.text)
        return output

    def _next_block(self, event: ev.Event, block: dict[str, Any]) -> bytes:
        """A block of the main thread, after the unfinished text before it, which will never be complete."""
        return self._unfinished() + self._block(event, block)

    def _block(self, event: ev.Event, block: dict[str, Any]) -> bytes:
        return (b"" if self._answer else self._open(event)) + self._written(block)

    def _unfinished(self) -> bytes:
        partial, self._partial = self._partial, None
        return b"" if partial is None else self._written({"type": "text", "text": partial.text})

    def _written(self, block: dict[str, Any]) -> bytes:
        self._blocks += 1
        return (b"," if self._blocks > 1 else b"") + _encoder.encode(block)

    def _open(self, event: ev.Event) -> bytes:
        self._answer = event.turn or event.id
        self._at = event.at
        self._blocks = 0
        head = {"id": self._answer, "conversationId": self._session, "role": "assistant"}
        return self._next() + _encoder.encode(head)[:-1] + b',"content":['

    def _close(self, cost: float, duration: int) -> bytes:
        output = b""
        if self._answer:
            tail = {"source": "web", "costUsd": cost, "durationMs": duration, "createdAt": iso_timestamp(self._at)}
            output = self._unfinished() + b"]," + _encoder.encode(tail)[1:]
            self._answer = ""
            self._calls.clear()
        for message in self._after:
            output += self._next() + message
        self._after = []
        return output

    def _next(self) -> bytes:
        first, self._first = self._first, False
        return b"" if first else b","


def _shown(block: Content) -> Any:
    return block.data if isinstance(block, OtherBlock) else msgspec.to_builtins(block)
