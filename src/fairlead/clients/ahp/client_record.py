"""What a client was sent on its connection, so that its next connection can go on exactly where this one stopped. Pure.

A client that comes back names one number: the highest `serverSeq` that it has seen, on any channel. A socket delivers
in order, so a client has seen a prefix of what it was sent; the record has the last of these messages, as they were
sent. If exactly one prefix has that highest number, the rest is what the client lacks. If several have it (numbers of
different sessions come in no order), and they differ in what the client asks for, its position cannot be told.

Nothing is decoded or copied while actions are sent: the frames of a subscription are those that all its subscribers
share.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from fairlead.clients.ahp.channels import channel_name
from fairlead.clients.ahp.encoder import AhpEncoder
from fairlead.clients.ahp.snapshots import server_seq
from fairlead.clients.ahp.wire import Fields
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.formats.frames import split_frames
from fairlead.model.gateway import Cursor
from fairlead.model.ids import SessionId

SENT_BYTES: Final = 512 << 10
"""Bytes of the last messages that are kept: more than a minute of a fast stream, which is the time until a connection
that is dead without a sign is closed."""
_ITEM_BYTES: Final = 100
"""Counted for each kept message in addition to its frames."""
ACTIVE_CLIENTS: Final = 100
ACTIVE_BYTES: Final = 1 << 20
"""Sessions for which a client's own entry as an active client is remembered, and the bytes of all entries."""


class _Envelope(msgspec.Struct):
    channel: str
    number: int = msgspec.field(name="serverSeq")


class _ActionFrame(msgspec.Struct):
    params: msgspec.Raw


_read_frame: Final = msgspec.json.Decoder(_ActionFrame).decode
_read_envelope: Final = msgspec.json.Decoder(_Envelope).decode


class _Sent(msgspec.Struct, frozen=True):
    """Something that was sent: frames with one action each, or an answer with the actions of a replay. `number` is that
    of an answer. `opened`: the channels whose snapshot it brought; `closed`: a channel that the client left."""

    frames: bytes = b""
    replay: tuple[msgspec.Raw, ...] = ()
    number: int = -1
    opened: tuple[str, ...] = ()
    closed: str = ""


class _Message(msgspec.Struct, frozen=True):
    """One message as the client receives it: all of it, or nothing. `number`: the highest one in it. `actions` are the
    envelopes with their channels."""

    number: int
    actions: tuple[tuple[str, msgspec.Raw], ...] = ()
    opened: tuple[str, ...] = ()
    closed: str = ""


class ClientRecord:
    """Implements `model.web.sockets.KeptState`.

    `encoders`: for each session that the client watches, what its channels receive; `cursors`: the position up to which
    it was sent. `active`: the client's own entries in `activeClients`; they are shown to itself, and offered to no
    agent.

    `known`: the highest number that the client has at the beginning; None: it has nothing, or has not shown yet that it
    received the first answer. `held`: the channels of which it has a state."""

    def __init__(self, known: int | None = None, held: Iterable[str] = ()) -> None:
        self.encoders: dict[SessionId, AhpEncoder] = {}
        self.cursors: dict[SessionId, Cursor] = {}
        self.active: dict[SessionId, msgspec.Raw] = {}
        self._sent: deque[_Sent] = deque()
        self._size = 0
        self._top = -1 if known is None else known
        self._whole = True
        """Nothing was dropped yet: the beginning is known exactly."""
        self.begun = self._confirmed = known is not None
        """The first answer was sent, and the client has shown that it received it."""
        self._held = set(held)
        self._own = 0
        self._ended = False

    # --- sending

    def next_number(self, now: int) -> int:
        """The number of an action that only this client gets: higher than those of all such actions before it."""
        self._own = max(server_seq(now), self._own + 1)
        return self._own

    def initialized(self, number: int, channels: Iterable[str]) -> None:
        self.begun = True
        self._add(_Sent(number=number, opened=tuple(map(channel_name, channels))))

    def replayed(self, actions: Iterable[msgspec.Raw]) -> None:
        self._add(_Sent(replay=tuple(actions)))

    def wrote(self, frame: bytes) -> None:
        """An action that only this client gets."""
        self._add(_Sent(frame))

    def pushed(self, session: SessionId, frames: bytes, cursor: Cursor) -> None:
        """Actions of a subscription, and its position after them."""
        if not self._ended:
            self.cursors[session] = cursor
            self._add(_Sent(frames))

    def opened(self, channel: str) -> None:
        self._add(_Sent(opened=(channel,)))

    def closed(self, channel: str) -> None:
        self._add(_Sent(closed=channel))

    def heard(self) -> None:
        """The client has sent something: it has received the first answer, if that was sent."""
        self._confirmed = self.begun

    def _add(self, sent: _Sent) -> None:
        if self._ended:
            return
        self._sent.append(sent)
        self._size += _size_of(sent)
        while self._size > SENT_BYTES:
            dropped = self._sent.popleft()
            self._size -= _size_of(dropped)
            self._whole = False
            for message in _messages(dropped):
                self._top = max(self._top, message.number)
                _change(self._held, message)

    # --- coming back

    def end(self) -> None:
        """The client has come back on another connection: what this one still sends, it does not receive."""
        self._ended = True

    def forget(self) -> None:
        self._ended, self.begun, self._confirmed = True, False, False
        self._sent.clear()
        self.active.clear()

    def unseen(self, number: int, channels: Collection[str]) -> list[msgspec.Raw] | None:
        """The actions on these channels that a client has not seen whose highest number is this one; None: what it has
        seen cannot be told exactly."""
        top, held = self._top, set(self._held)
        if not self._confirmed or number < top or (number == top and not self._whole):
            return None
        found: list[msgspec.Raw] = []
        reached = number == top
        for message in (message for sent in self._sent for message in _messages(sent)):
            top = max(top, message.number)
            if not reached:
                if top > number:
                    return None
                _change(held, message)
                reached = top == number
                continue
            wanted = [raw for channel, raw in message.actions if channel in channels]
            if message.closed in channels or any(channel in channels for channel in message.opened):
                return None
            if top == number and wanted:
                return None  # this message may have been received or not
            found.extend(wanted)
        return found if reached and held.issuperset(channels) else None

    def successor(self, number: int, held: Collection[str], replayed: Iterable[msgspec.Raw]) -> "ClientRecord":
        """The record of the client's next connection, which begins with a replay."""
        record = ClientRecord(number, held)
        record._own = self._own
        record.replayed(replayed)
        return record

    # --- active clients

    def set_active(self, session: SessionId, client: Fields) -> None:
        keep_newest(self.active, session, msgspec.Raw(msgspec.json.encode(client)), ACTIVE_CLIENTS)
        while sum(map(len, self.active.values())) > ACTIVE_BYTES:
            del self.active[next(iter(self.active))]


def _size_of(sent: _Sent) -> int:
    return _ITEM_BYTES + len(sent.frames) + sum(map(len, sent.replay))


def _messages(sent: _Sent) -> Iterator[_Message]:
    for _, payload in split_frames(sent.frames):
        raw = _read_frame(payload).params
        envelope = _read_envelope(raw)
        yield _Message(envelope.number, ((channel_name(envelope.channel), raw),))
    if not sent.frames:
        envelopes = [_read_envelope(raw) for raw in sent.replay]
        number = max([sent.number, *(envelope.number for envelope in envelopes)])
        actions = [(channel_name(envelope.channel), raw) for envelope, raw in zip(envelopes, sent.replay, strict=True)]
        yield _Message(number, tuple(actions), sent.opened, sent.closed)


def _change(held: set[str], message: _Message) -> None:
    held.update(message.opened)
    held.discard(message.closed)
