"""The messages of a session as AG-UI has them, in a projection: to compare them with a client's history, and to find
where a message or a request is in the log. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.clients.agui.encoder import shown
from fairlead.clients.agui.wire import arguments, block_id, calls_id, result_id, result_text
from fairlead.model import events as ev
from fairlead.model.content import Content, ImageBlock, TextBlock, plain_text
from fairlead.model.formats.bounded_tables import keep_newest, put
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry, ReplaceRow
from fairlead.model.views import Made, MemoryReducer, NewRow

NAME: Final = "agui.messages"
REQUEST: Final = "fairlead.request"
"""The role of a row that is no message: a request to a person. Its data has the seq before its turn."""
_LIMIT: Final = 256
_MESSAGES: Final = 16
_KINDS: Final = frozenset(
    {"turn.started", "turn.ended", "user.message", "text", "thinking", "tool.called", "tool.ended"}
    | {"permission.asked", "question.asked", "plan.proposed"}
)

Message = dict[str, Any]


class HistoryState(msgspec.Struct):
    """`start`: the seq before the turn that runs. `calls`: the calls without a result, each with its subagent.
    `messages`: the last assistant messages that carry calls."""

    running: bool = False
    start: int = 0
    calls: dict[str, str | None] = {}
    messages: dict[str, Message] = {}


class HistoryReducer(MemoryReducer[HistoryState]):
    def __init__(self, session: SessionId) -> None:
        super().__init__(HistoryState())

    def step(self, entry: Entry) -> Sequence[Made]:
        if entry.kind not in _KINDS:
            return ()
        one, memory = ev.decode(entry.event), self._memory
        match one:
            case ev.TurnStarted():
                memory.running, memory.start = True, entry.seq - 1
            case ev.TurnEnded():
                memory.running = False
                left = [(call, memory.calls[call]) for call in one.closed if call in memory.calls]
                memory.calls.clear()
                return [_row(_result(call, ""), subagent) for call, subagent in left]
            case ev.UserMessage() if shown(one):
                content = user_content(one.content)
                return (_row({"id": one.message, "role": "user", "content": content}),) if content else ()
            case ev.Text() | ev.Thinking() if one.text:
                role = "assistant" if isinstance(one, ev.Text) else "reasoning"
                return (
                    _row({"id": block_id(one.message, one.block), "role": role, "content": one.text}, one.subagent),
                )
            case ev.ToolCalled():
                return (self._called(one, entry.seq),)
            case ev.ToolEnded() if one.call in memory.calls or one.status != "interrupted":
                memory.calls.pop(one.call, None)
                return (_row(_result(one.call, result_text(one.content)), one.subagent),)
            case ev.PermissionRequested() | ev.QuestionAsked() | ev.PlanProposed():
                start = memory.start if memory.running else entry.seq - 1
                return (_row({"id": request_key(one.request), "role": REQUEST, "start": start}),)
            case _:
                pass
        return ()

    def _called(self, one: ev.ToolCalled, seq: int) -> Made:
        """All calls of one answer of the model are in one message. Each has its seq, until it is read."""
        name, memory = calls_id(one.message, one.subagent), self._memory
        function = {"name": one.name, "arguments": arguments(one.input)}
        made = {"id": one.call, "type": "function", "function": function, "seq": seq}
        put(memory.calls, one.call, one.subagent, _LIMIT)
        earlier = memory.messages.get(name)
        calls = [] if earlier is None else earlier["toolCalls"][-_LIMIT:]
        message = {"id": name, "role": "assistant", "toolCalls": [*calls, made]}
        keep_newest(memory.messages, name, message, _MESSAGES)
        row = _row(message, one.subagent)
        return row if earlier is None else ReplaceRow(name, row.data)


def message_of_row(data: bytes, up_to: int) -> Message | None:
    """The message of a row as it was at a seq; None for a row that is no message."""
    message: Message = msgspec.json.decode(data)
    if message["role"] == REQUEST:
        return None
    calls = message.get("toolCalls")
    if calls is not None:
        message["toolCalls"] = [call for call in calls if call.pop("seq") <= up_to]
    return message


def read_state(data: bytes) -> HistoryState:
    return msgspec.msgpack.decode(data, type=HistoryState)


def request_key(request: str) -> str:
    return f"request/{request}"


def user_content(blocks: tuple[Content, ...]) -> Any:
    """A message's content: a text, or parts where it has images."""
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return plain_text(blocks)
    parts: list[Message] = []
    for block in blocks:
        match block:
            case TextBlock() if block.text:
                parts.append({"type": "text", "text": block.text})
            case ImageBlock(source={"type": "base64", "data": str(data), "media_type": str(kind)}):
                parts.append({"type": "image", "source": {"type": "data", "value": data, "mimeType": kind}})
            case ImageBlock(source={"type": "url", "url": str(address)}):
                parts.append({"type": "image", "source": {"type": "url", "value": address}})
            case _:
                pass
    return parts


def _result(call: str, content: str) -> Message:
    return {"id": result_id(call), "role": "tool", "toolCallId": call, "content": content}


def _row(message: Message, subagent: str | None = None) -> NewRow:
    whole = {**message, "subagentRunId": subagent} if subagent else message
    return NewRow(msgspec.json.encode(whole), key=message["id"])
