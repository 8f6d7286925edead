"""The demo agent's wire, one JSON object per line. Pure.

A line of the process is an event of the model, which the gateway logs as it is but for the turn. Only events of an
agent are read (`AgentEvent`), because its commands can write to its stdout. Everything else, in either direction, is a
`DemoMessage`. The ids of the events number them, so that an event that is read again from the agent's file is known.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.model import events as ev
from fairlead.model.formats.frames import decode_or_none
from fairlead.model.ids import EventId, event_id


class DemoMessage(msgspec.Struct, frozen=True, tag_field="type", tag="demo", omit_defaults=True):
    """`do` says what to do with `data`; `answer` is the answer to the message with the same id.

    The gateway sends: open (a `Launch`), prompt (message, content), interrupt, decide (a `Decision`), set_mode,
    set_model, rewind (message, dry_run), stop_task. The process sends: check (a `ToolCheck`), mcp (server, message),
    withdraw (a request's id)."""

    do: str
    id: str = ""
    data: Any = None
    error: str = ""


_Conversation = ev.TurnStarted | ev.TurnEnded | ev.UserMessage | ev.Text | ev.Thinking | ev.Delta | ev.Compaction
_Call = ev.ToolCalled | ev.ToolProgress | ev.ToolEnded | ev.SubagentStarted | ev.SubagentEnded
_Request = ev.PermissionRequested | ev.QuestionAsked | ev.PlanProposed
AgentEvent = ev.AgentReady | _Conversation | _Call | _Request | ev.Notice | ev.RateLimit | ev.ModeChanged
_decoder: msgspec.json.Decoder[AgentEvent | DemoMessage] = msgspec.json.Decoder(AgentEvent | DemoMessage)
encode: Callable[[AgentEvent | DemoMessage], bytes] = msgspec.json.Encoder().encode


def decode(raw: bytes) -> AgentEvent | DemoMessage | None:
    """A line of either side; None if it is neither an event nor a message."""
    return decode_or_none(_decoder.decode, raw)


def numbered(process: str, number: int, kind: str) -> EventId:
    """The id of an event: the number counts the events of one process."""
    return event_id(f"{process}:{number}", kind)


def number_of(event: EventId) -> tuple[str, int]:
    """The process and the number of an event; zero if its id has another form."""
    process, _, number = event.partition("/")[0].rpartition(":")
    return process, int(number) if number.isdecimal() and len(number) < 20 else 0
