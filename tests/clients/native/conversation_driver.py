"""Drives a conversation without a server: frames in; everything that it does out, as plain objects."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from fairlead.clients.native.codec import CODECS, JSON, Codec
from fairlead.clients.native.conversation import NativeConversation
from fairlead.model.auth import Identity, Scope
from fairlead.model.commands import CommandBase, Reply
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import Effect, Handshake, Signal, Subscribe, Subscribed, Unsubscribe, Write
from flows import drive

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
        return self._see(self.conversation.opened())

    def say(self, message: Any) -> list[Any]:
        """Send an object as a frame, text and bytes unchanged."""
        if isinstance(message, str | bytes):
            data = message.encode() if isinstance(message, str) else message
            return self.raw(data, isinstance(message, str))
        text = self.codec is CODECS[JSON]
        return self.raw((msgspec.json if text else msgspec.msgpack).encode(message), text)

    def raw(self, data: bytes, text: bool) -> list[Any]:
        return self._see(self.conversation.received(data, text))

    def _see(self, effects: Sequence[Effect]) -> list[Any]:
        seen: list[Any] = []
        for effect in drive(self.conversation, effects, lambda step, lane: self._answer(step, lane, seen)):
            if isinstance(effect, Signal):
                seen.append({"does": "tell", "session": effect.session, "kind": effect.kind, "data": effect.data})
            else:
                assert isinstance(effect, Write)
                for text, payload in frames(effect.frames):
                    seen.append((msgspec.json if text else msgspec.msgpack).decode(payload))
        return seen

    def _answer(self, step: Any, lane: str, seen: list[Any]) -> Reply | Subscribed | None:
        match step:
            case CommandBase():
                seen.append({"does": msgspec.json.decode(msgspec.json.encode(step)), "lane": lane})
                return Reply(session=step.session or SessionId(""), seq=7)
            case Subscribe():
                place = step.cursor
                cursor = None if place is None else {"seq": place.seq, "log_id": place.log_id}
                assert isinstance(step.variant, Codec)
                variant = "native/msgpack" if step.variant.packed else "native/json"
                action = {"does": "subscribe", "session": step.session, "cursor": cursor, "variant": variant}
                seen.append(action)
                return Subscribed(step.session, "ok", "log-1", 7)
            case Unsubscribe():
                seen.append({"does": "unsubscribe", "session": step.session})
                return None
            case _:
                raise AssertionError(step)
