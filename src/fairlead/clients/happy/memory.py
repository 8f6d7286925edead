"""What the mapper remembers: plain data, bounded, stored with the rows that were made with it."""

from typing import Any, Final, TypeVar

import msgspec

K = TypeVar("K")
V = TypeVar("V")

SUBAGENTS_KEPT: Final = 256
CALLS_OPEN: Final = 4096
ASKED_OPEN: Final = 256
WINDOWS_KEPT: Final = 32


class MappedSubagent(msgspec.Struct):
    """`call` began it, made by the subagent `parent` if not by the main thread. `root` is the hash of the task that
    it was given, once that was told; `prompt` is the task, until then. `begun`: it was shown in some turn."""

    call: str
    parent: str | None = None
    title: str = ""
    prompt: str = ""
    root: str = ""
    hidden: bool = False
    begun: bool = False
    over: bool = False


class MappedRequest(msgspec.Struct):
    """A request that waits for a person."""

    tool: str
    call: str
    subagent: str | None = None


class HeldEnd(msgspec.Struct):
    """The end of a call whose subagent's own end follows at once: `stop` goes before it."""

    ev: dict[str, Any]
    event: str
    subagent: str | None = None


class MapperMemory(msgspec.Struct):
    """`turn` is the one that clients were told of, `base` the session's own; `used`: some turn of `base` was told."""

    time: int = 0
    turn: str = ""
    base: str = ""
    used: bool = False
    said_error: bool = False
    started: list[str] = []
    """Subagents that had their `start` in this turn."""
    active: list[str] = []
    """Those of them that had no `stop` yet."""
    subagents: dict[str, MappedSubagent] = {}
    calls: dict[str, str | None] = {}
    """Calls that were shown and are open, with the subagent that made each."""
    held: dict[str, HeldEnd] = {}
    asked: dict[str, MappedRequest] = {}
    windows: dict[str, int] = {}
    """What each model can hold, as the last results said."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(MapperMemory)


def encode(memory: MapperMemory) -> bytes:
    return _encoder.encode(memory)


def decode(data: bytes) -> MapperMemory:
    return _decoder.decode(data)


def trim(table: dict[K, V], limit: int) -> None:
    """Forget the older half of a table that has outgrown its limit."""
    if len(table) > limit:
        for key in list(table)[: limit // 2]:
            del table[key]
