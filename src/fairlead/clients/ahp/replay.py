"""The answer to a client that comes back: exactly the actions that it has not seen. Pure.

They are those that its last connection was sent and it did not receive (`client_record`), and those of the entries that
its sessions' logs have after that. Every session is read as for a new subscription, so one that is gone, or that the
client may not see any more, gives nothing.
"""

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from fairlead.clients.ahp.channels import ROOT, channel_name, chat_uri, session_named, session_uri
from fairlead.clients.ahp.client_record import ClientRecord
from fairlead.clients.ahp.encoder import AhpEncoder
from fairlead.clients.ahp.translate import translate_entry
from fairlead.clients.ahp.wire import Fields
from fairlead.model.errors import NotFound
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId
from fairlead.model.queries import ReadEvents
from fairlead.model.store import entry_of_line
from fairlead.model.web.requests import do

MISSED_ENTRIES: Final = 10_000
MISSED_BYTES: Final = 2 << 20
"""Entries that are read for one answer, and bytes of their actions. A client that missed more gets snapshots, which are
smaller."""

Steps = Generator[Any, Any, Any]


class Replay(msgspec.Struct):
    """`record`: of the new connection. `missing`: the channels that are gone, as the client wrote them."""

    record: ClientRecord
    actions: list[msgspec.Raw]
    missing: list[str]


class _Missed(msgspec.Struct):
    """An action of the log. `begun`: the seq at which what it adds began."""

    begun: int
    action: Fields
    envelope: msgspec.Raw


class _Session(msgspec.Struct):
    """What a client has missed of one session, and where its subscription goes on."""

    missed: list[_Missed]
    encoder: AhpEncoder
    cursor: Cursor


class _CannotReplay(Exception):
    """The position is not known, or too much was missed."""


def replay(old: ClientRecord, number: int, channels: Sequence[str]) -> Steps:
    """Return the replay for a client whose highest number is this one, and which names these channels; None: what it
    has seen cannot be told exactly."""
    old.end()
    missing: list[str] = []
    named: dict[SessionId, dict[str, str]] = {}
    for channel in channels:
        session = session_named(channel)
        if session is not None:
            named.setdefault(session, {})[channel_name(channel)] = channel
        elif channel != ROOT:
            missing.append(channel)
    reader = _LogReader(old)
    found: dict[SessionId, _Session] = {}
    for session, wanted in named.items():
        try:
            found[session] = yield from reader.read(session, wanted)
        except NotFound:
            missing.extend(wanted.values())
        except _CannotReplay:
            return None
    held = [channel for session in found for channel in named[session]]
    unseen = old.unseen(number, held)
    if unseen is None:
        return None
    actions = [*unseen, *(one.envelope for session in found.values() for one in _in_order(session.missed))]
    record = old.successor(number, held, actions)
    for session, read in found.items():
        record.encoders[session], record.cursors[session] = read.encoder, read.cursor
        if session in old.active:
            record.active[session] = old.active[session]
    return Replay(record, actions, missing)


class _LogReader:
    """Reads the entries after the recorded positions; the limits are for all sessions together."""

    def __init__(self, old: ClientRecord) -> None:
        self._old = old
        self._entries = self._bytes = 0

    def read(self, session: SessionId, channels: dict[str, str]) -> Steps:
        """Raises NotFound, or _CannotReplay."""
        cursor, encoder = self._old.cursors.get(session), self._old.encoders.get(session)
        page = yield from do(ReadEvents(session, 0 if cursor is None else cursor.seq))
        if cursor is None or encoder is None:
            raise _CannotReplay
        encoder = AhpEncoder(
            chat=encoder.chat if chat_uri(session) in channels else None,
            session=encoder.session if session_uri(session) in channels else None,
        )
        seq, context, missed = cursor.seq, cursor.context, list[_Missed]()
        while True:
            if page.head < seq or (cursor.log_id and page.log_id != cursor.log_id):
                raise _CannotReplay
            for entry in map(entry_of_line, map(bytes, page.events)):
                context, sent = translate_entry(context, session, entry)
                for one, envelope in encoder.envelopes(session, entry, sent):
                    missed.append(_Missed(one.since or entry.seq, one.action, self._encoded(envelope)))
                seq = entry.seq
            self._entries += len(page.events)
            if self._entries > MISSED_ENTRIES:
                raise _CannotReplay
            # At the end of the log there may be entries that were dropped from it.
            if not page.events or page.next is None:
                break
            page = yield from do(ReadEvents(session, seq))
        return _Session(missed, _settled(encoder, seq), Cursor(seq, page.log_id, context=context))

    def _encoded(self, envelope: Fields) -> msgspec.Raw:
        encoded = msgspec.Raw(msgspec.json.encode(envelope))
        self._bytes += len(encoded)
        if self._bytes > MISSED_BYTES:
            raise _CannotReplay
        return encoded


def _settled(encoder: AhpEncoder, seq: int) -> AhpEncoder:
    """An encoder that sends the same after this entry, and equals those of other clients."""

    def start(after: int | None) -> int | None:
        return 0 if after is not None and after <= seq else after

    return structs.replace(encoder, chat=start(encoder.chat), session=start(encoder.session))


def _in_order(missed: Sequence[_Missed]) -> list[_Missed]:
    """The actions as a client that was there received them. A text comes as one part when its deltas are gone from the
    log; it stands where the first of them was, before parts that began later."""
    ordered: list[_Missed] = []
    for one in missed:
        place = len(ordered)
        if one.action["type"] == "chat/responsePart":
            while place and ordered[place - 1].begun > one.begun and not _begins_turn(ordered[place - 1]):
                place -= 1
        ordered.insert(place, one)
    return ordered


def _begins_turn(one: _Missed) -> bool:
    return bool(one.action["type"] == "chat/turnStarted")
