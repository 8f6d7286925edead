"""The output of a parser as frozen events, so that two parsers can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.server.websocket.errors import FrameError
from fairlead.server.websocket.parser import FrameParser


@dataclass(frozen=True, slots=True)
class Message:
    data: bytes
    text: bool


@dataclass(frozen=True, slots=True)
class Ping:
    payload: bytes


@dataclass(frozen=True, slots=True)
class Pong:
    payload: bytes


@dataclass(frozen=True, slots=True)
class PeerClose:
    code: int


@dataclass(frozen=True, slots=True)
class Fault:
    """The parser gave up; nothing comes after it."""

    code: int


Event = Message | Ping | Pong | PeerClose | Fault


class Collector:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def deliver(self, data: bytes, text: bool) -> None:
        self.events.append(Message(data, text))

    def on_ping(self, payload: bytes) -> None:
        self.events.append(Ping(payload))

    def on_pong(self, payload: bytes) -> None:
        self.events.append(Pong(payload))

    def on_peer_close(self, code: int, payload: bytes) -> None:
        self.events.append(PeerClose(code))


def parse(reads: Iterable[bytes], *, max_message: int, inflate: bool = False) -> list[Event]:
    collector = Collector()
    parser = FrameParser(collector.deliver, collector, max_message=max_message, inflate=inflate)
    for read in reads:
        try:
            parser.feed(read)
        except FrameError as error:
            collector.events.append(Fault(error.code))
            break
    return collector.events
