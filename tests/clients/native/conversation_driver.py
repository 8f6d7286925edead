"""Drives a conversation without a server: frames in; everything that it does out, as plain objects."""

import itertools
from typing import Any

import msgspec

from fairlead.clients.native.codec import CODECS, JSON, JsonCodec, MsgpackCodec
from fairlead.clients.native.conversation import NativeConversation
from fairlead.model.auth import Identity, Scope
from fairlead.model.commands import CommandBase, Reply
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import (
    AttachOwner,
    AttachProxy,
    CloseSocket,
    Do,
    EnterChannel,
    Handshake,
    Perform,
    Signal,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Write,
)

HEADS = {0x81: True, 0x82: False}


def frames(data: bytes) -> list[tuple[bool, bytes]]:
    """(text, payload) of frames joined together."""
    found = []
    while data:
        length, start = data[1], 2
        if length > 125:
            size = 2 if length == 126 else 8
            length, start = int.from_bytes(data[2 : 2 + size], "big"), 2 + size
        found.append((HEADS[data[0]], data[start : start + length]))
        data = data[start + length :]
    return found


class ConversationDriver:
    """A conversation in front of a core that accepts every request."""

    def __init__(self, *scopes: Scope, subprotocol: str = "") -> None:
        numbers = itertools.count(1)
        who = Identity("c1", "owner", "Ann", frozenset(scopes or ("admin",)))
        opening = Handshake(
            head=Head(method="GET", path="/v1/ws", socket=True),
            who=who,
            version="1.2.3",
            fresh=lambda: f"00000000-0000-4000-8000-{next(numbers):012d}",
            subprotocol=subprotocol,
        )
        self.conversation = NativeConversation(opening)
        self.codec = CODECS[subprotocol or JSON]

    def open(self) -> list[Any]:
        return [seen for thing in self.conversation.opened() for seen in self._see(thing)]

    def say(self, message: Any) -> list[Any]:
        """Send an object as a frame, text and bytes unchanged."""
        if isinstance(message, str | bytes):
            data = message.encode() if isinstance(message, str) else message
            return self.raw(data, isinstance(message, str))
        text = self.codec is CODECS[JSON]
        return self.raw((msgspec.json if text else msgspec.msgpack).encode(message), text)

    def raw(self, data: bytes, text: bool) -> list[Any]:
        return [seen for thing in self.conversation.received(data, text) for seen in self._see(thing)]

    def _see(self, thing: Do) -> list[Any]:
        match thing:
            case Write():
                return [
                    (msgspec.json if text else msgspec.msgpack).decode(payload)
                    for text, payload in frames(thing.frames)
                ]
            case Perform(step=CommandBase() as step):
                action = {"does": msgspec.json.decode(msgspec.json.encode(step)), "lane": thing.lane}
                reply = Reply(session=step.session, seq=7)
                return [action, *self._answer(thing.tag, reply)]
            case Subscribe():
                place = thing.cursor
                cursor = None if place is None else {"seq": place.seq, "log_id": place.log_id}
                assert isinstance(thing.variant, JsonCodec | MsgpackCodec)
                action = {"does": "subscribe", "session": thing.session, "cursor": cursor, "variant": thing.variant.key}
                return [action, *self._answer(thing.tag, Subscribed(thing.session, "ok", "log-1", 7))]
            case Unsubscribe():
                action = {"does": "unsubscribe", "session": thing.session}
                return [action, *self._answer(thing.tag, None)]
            case Signal():
                return [{"does": "tell", "session": thing.session, "kind": thing.kind, "data": thing.data}]
            case Perform() | CloseSocket() | AttachOwner() | AttachProxy() | EnterChannel():
                raise AssertionError(thing)

    def _answer(self, tag: Any, answer: Any) -> list[Any]:
        return [seen for thing in self.conversation.answered(tag, answer) for seen in self._see(thing)]
