"""The demo agent's wire, one JSON object per line. Pure.

A line of the process is an event of the model, which the gateway logs as it is but for the turn. Everything else, in
either direction, is a `DemoMessage`. The events of a process are numbered by their ids, so that the same events, read
again from the agent's own file, are recognised.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.model.events import Event
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


_decoder: msgspec.json.Decoder[Event | DemoMessage] = msgspec.json.Decoder(Event | DemoMessage)
encode: Callable[[Event | DemoMessage], bytes] = msgspec.json.Encoder().encode


def decode(raw: bytes) -> Event | DemoMessage | None:
    """A line of either side; None if it is neither an event nor a message."""
    return decode_or_none(_decoder.decode, raw)


_DIGITS = 20


def numbered(process: str, number: int, kind: str) -> EventId:
    """The id of an event: the number counts the events of one process."""
    return event_id(f"{process}:{number}", kind)


def number_of(event: EventId) -> tuple[str, int]:
    """The process and the number of an event; zero if its id has another form."""
    process, _, number = event.partition("/")[0].rpartition(":")
    return process, int(number) if number.isdecimal() and len(number) < _DIGITS else 0
