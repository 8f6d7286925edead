"""The output to direct clients: the agent's lines unchanged, and the initial state for a client that joins. Pure.

When a permission request was settled elsewhere, clients receive the same cancel record that the CLI itself would send.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fairlead.model import events as ev
from fairlead.model.formats.cli_records import cli_records, encode_record
from fairlead.model.formats.frames import decode_or_none, text_frame
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry
from fairlead.model.views import Made, MemoryReducer

NAME: Final = "direct"

ASKING: Final = ("permission.asked", "question.asked", "plan.proposed")
SETTLED: Final = ("permission.resolved", "permission.cancelled")

_encoder = msgspec.json.Encoder()


class _Request(msgspec.Struct):
    """The fields of a request, or of its end, that are used here. `asked`: clients had been asked."""

    request: str
    asked: bool = True


class _Head(msgspec.Struct):
    type: str = ""
    subtype: str = ""


class _Opened(msgspec.Struct):
    foreign: bool = False


_opened = msgspec.json.Decoder(_Opened)
_request = msgspec.json.Decoder(_Request)
_head = msgspec.json.Decoder(_Head)


def line(message: Any) -> bytes:
    """Encode one message as a frame."""
    return text_frame(_encoder.encode(message) + b"\n")


def agent_line(entry: Entry) -> bytes | None:
    """Return the agent's own line, from its wire, or from its transcript if it has no wire; None without either."""
    if entry.raw is None or entry.origin == "gateway":
        return None
    return None if entry.origin == "transcript" and entry.kind == ev.RecordStored.__struct_config__.tag else entry.raw


def foreign_lines(session: SessionId, entry: Entry) -> list[bytes]:
    """Return the lines that the CLI would have written, for an agent that writes others."""
    event = ev.decode(entry.event)
    if isinstance(event, ev.UserMessage):
        return []
    return [encode_record(record) for record in cli_records(event, session)]


def record_lines(session: SessionId, entry: Entry, *, foreign: bool) -> list[bytes]:
    """Return the records of an entry: the agent's own, or the withdrawal of a request that was settled elsewhere.

    `foreign`: the agent's own lines do not have the form of the CLI."""
    raw = None if foreign else agent_line(entry)
    lines = foreign_lines(session, entry) if foreign else [] if raw is None else [raw]
    if not lines and entry.kind in SETTLED:
        settled = _request.decode(entry.event)
        if settled.asked:
            return [_encoder.encode({"type": "control_cancel_request", "request_id": settled.request})]
    return lines


class DirectEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.gateway.FrameEncoder`. `foreign`: as in `record_lines`."""

    foreign: bool = False

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return b"".join(text_frame(raw + b"\n") for raw in record_lines(session, entry, foreign=self.foreign))


class DirectCatchUp(msgspec.Struct):
    """The first records for a client that joins: the last `system/init`, and the pending requests in their order."""

    seq: int = 0
    foreign: bool = False
    init: bytes = b""
    pending: dict[str, bytes] = {}

    def frames(self) -> bytes:
        return b"".join(text_frame(raw + b"\n") for raw in (self.init, *self.pending.values()) if raw)


decode_catch_up: Final = msgspec.msgpack.Decoder(DirectCatchUp).decode


class DirectReducer(MemoryReducer[DirectCatchUp]):
    """Implements `model.views.Reducer`: it makes no rows, it only keeps state."""

    def __init__(self, session: SessionId) -> None:
        super().__init__(DirectCatchUp())
        self._session = session

    def step(self, entry: Entry) -> Sequence[Made]:
        state = self._memory
        state.seq = entry.seq
        if entry.kind == "session.opened":
            state.foreign = _opened.decode(entry.event).foreign
        raw = next(iter(foreign_lines(self._session, entry)), None) if state.foreign else agent_line(entry)
        if entry.kind in ASKING and raw is not None:
            state.pending[_request.decode(entry.event).request] = raw
        elif entry.kind in SETTLED:
            state.pending.pop(_request.decode(entry.event).request, None)
        elif raw is not None and b'"init"' in raw and _is_init(raw):
            state.init = raw
        return ()


def _is_init(raw: bytes) -> bool:
    head = decode_or_none(_head.decode, raw)
    return head is not None and (head.type, head.subtype) == ("system", "init")
