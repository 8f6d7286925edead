"""The durable transport of the official browser SDK: the session's records as server-sent events. Pure.

Every record of the log is a `client_event` with its seq as the id, so that a client that comes back continues exactly
where it was. Pieces of streamed text and delivery updates are sent to open streams only, without an id.
"""

from typing import Any, Final

import msgspec

from fairlead.clients.direct.view import ASKING, record_lines
from fairlead.model import events as ev
from fairlead.model.errors import FairleadError
from fairlead.model.formats.cli_records import cli_records, encode_record
from fairlead.model.formats.frames import decode_message, decode_or_none
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.gateway import EncoderWithoutSignals
from fairlead.model.ids import SessionId
from fairlead.model.store import Entry

CONTENT_TYPE: Final = "text/event-stream"
BEAT: Final = b": beat\n\n"
"""A comment: the SDK reconnects after 45 s without any bytes."""
TRUNCATED: Final = b"event: catch_up_truncated\ndata: {}\n\n"
"""The client's position is not one of this log: it receives the whole log."""
MOST_MESSAGES: Final = 100
"""Messages of one turn whose deliveries are reported."""

Messages = tuple[str, ...]
"""The context of the encoder: the messages that the running turn has received."""

_encoder: Final = msgspec.json.Encoder()


class _Type(msgspec.Struct):
    type: str


class _Event(msgspec.Struct):
    """The fields of an event that are used here."""

    id: str
    request: str = ""
    message: str = ""


_type: Final = msgspec.json.Decoder(_Type)
_event: Final = msgspec.json.Decoder(_Event)


class EventStreamEncoder(EncoderWithoutSignals, frozen=True):
    """Implements `model.web.routes.StreamEncoder`. `foreign`: as in `record_lines`. `start`: the client's position,
    where the context begins, so that equal encoders have equal contexts. `opened_at`: the last seq when the stream was
    opened. `waiting`: the requests that waited for an answer then."""

    foreign: bool = False
    start: int = 0
    opened_at: int = 0
    waiting: frozenset[str] = frozenset()

    def encode(self, session: SessionId, entry: Entry) -> bytes:
        return self.step(None, session, entry)[1]

    def step(self, context: Messages | None, session: SessionId, entry: Entry) -> tuple[Messages, bytes]:
        messages, delivered = _deliveries(context or (), entry)
        live = entry.seq > self.opened_at
        return messages, self._records(session, entry, live) + (delivered if live else b"")

    def _records(self, session: SessionId, entry: Entry, live: bool) -> bytes:
        event = _event.decode(entry.event)
        if entry.kind in ASKING and not live and event.request not in self.waiting:
            return b""  # settled since: a client would ask its user in vain
        lines = record_lines(session, entry, foreign=self.foreign)
        if entry.kind == "user.message" and not lines:
            return _prompt(session, entry)
        frames = []
        for line in lines:
            found = decode_or_none(_type.decode, line)
            if found is None:
                continue  # not a record: an agent may write anything
            if found.type != "stream_event":
                frames.append(_durable(entry, event.id, "worker", line))
            elif live:
                frames.append(b'event: ephemeral_event\ndata: {"payload":%s}\n\n' % _one_line(line))
        return b"".join(frames)

    def finished(self, context: Messages | None) -> bool:
        return False

    def settling(self, context: Messages | None) -> bool:
        return False

    def settled(self, context: Messages | None) -> bytes:
        return b""

    def failed(self, context: Messages | None, error: FairleadError) -> bytes:
        return b""


def answer_frame(record: dict[str, Any]) -> bytes:
    """A record for the client that sent a request. It is not in the log, so it has no id."""
    data = _encoder.encode({"source": "worker", "payload": record})
    return b"event: client_event\ndata: %s\n\n" % data


def _prompt(session: SessionId, entry: Entry) -> bytes:
    """A message that a client sent, to all clients."""
    event = ev.decode(entry.event)
    assert isinstance(event, ev.UserMessage)
    (record,) = cli_records(event, session)
    return _durable(entry, event.message, "client", encode_record(record))


def _durable(entry: Entry, name: str, source: str, line: bytes) -> bytes:
    about = {"sequence_num": entry.seq, "event_id": name, "created_at": iso_timestamp(entry.at), "source": source}
    data = _encoder.encode({**about, "payload": msgspec.Raw(_one_line(line))})
    return b"event: client_event\nid: %d\ndata: %s\n\n" % (entry.seq, data)


def _one_line(line: bytes) -> bytes:
    """JSON without line breaks, which would end a field of the stream."""
    return _encoder.encode(decode_message(line)) if b"\r" in line or b"\n" in line else line


def _deliveries(messages: Messages, entry: Entry) -> tuple[Messages, bytes]:
    match entry.kind:
        case "message.queued":
            return messages, _delivery(entry, _event.decode(entry.event).message, "RECEIVED")
        case "user.message":
            name = _event.decode(entry.event).message
            return (*messages, name)[-MOST_MESSAGES:], _delivery(entry, name, "PROCESSING")
        case "turn.ended":
            return (), b"".join(_delivery(entry, name, "PROCESSED") for name in messages)
    return messages, b""


def _delivery(entry: Entry, name: str, status: str) -> bytes:
    fields = {"event_id": name, "status": f"DELIVERY_STATUS_{status}", "timestamp": iso_timestamp(entry.at)}
    return b"event: delivery_update\ndata: %s\n\n" % _encoder.encode(fields)
