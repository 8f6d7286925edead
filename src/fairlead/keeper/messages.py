"""The messages between a gateway and its keeper, and their frames. Pure.

Control messages are JSON objects whose keys are the fields of the class; output and input are binary. The first field
of a message about one process is its number, which is in the frame's header. `decode` accepts no message with a missing
or additional field, or with a value of another type.
"""

import base64
import json
import struct
from collections.abc import Callable
from types import UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

from fairlead.keeper.frames import HEADER, Frame, MalformedFrame, encode

_OFFSET: Final = struct.Struct("<Q")
_OUTPUT: Final = struct.Struct(f"{HEADER.format}Q")
_ACK: Final = struct.Struct("<Q?")
_WRITE: Final = struct.Struct("<IH")
_WROTE: Final = struct.Struct("<I?")

MAX_SECONDS: Final = 10 * 365 * 86400.0
MAX_KEY: Final = 1000
"""Bytes of a key."""
MAX_MEMO: Final = 64 << 20
MAX_SPAWN: Final = 16 << 20
"""Bytes of a request to start a process. The system limits a command and its environment to a few MiB."""


# --- from the gateway


class Hello(NamedTuple):
    """This connection is the gateway from now on. The keeper answers with `Listed`."""


class SpawnRequest(NamedTuple):
    """`launch` stands before `argv`, and may contain the placeholders of descriptors."""

    request: int
    launch: list[Any]
    argv: list[Any]
    env: dict[str, Any]
    cwd: str
    tag: dict[str, Any]
    size: list[Any] | None
    orphan_s: float
    limits: list[Any]


class Attach(NamedTuple):
    """Send the output from `offset` on."""

    process: int
    offset: int


class Detach(NamedTuple):
    process: int


class Taken(NamedTuple):
    """The reader has processed everything before `offset`, so the keeper may send more."""

    process: int
    offset: int


class Ack(NamedTuple):
    """Everything before `offset` is stored: the keeper may drop it."""

    process: int
    offset: int
    memo: bytes | None


class WriteInput(NamedTuple):
    """The keeper answers with `Wrote` and the same number when the pipe took the data."""

    process: int
    number: int
    key: str
    data: bytes


class OfferInput(NamedTuple):
    """Write the data if no other data waits, else drop it."""

    process: int
    data: bytes


class CloseInput(NamedTuple):
    process: int


class Resize(NamedTuple):
    process: int
    columns: int
    rows: int


class StopProcess(NamedTuple):
    """Stop the process in steps; each waits for so many seconds."""

    process: int
    close: float
    terminate: float
    kill: float


class Forget(NamedTuple):
    """The exit is stored: drop the process."""

    process: int


class Quit(NamedTuple):
    """Exit at once if there is no process."""


# --- from the keeper


class Kept(NamedTuple):
    """One process that the keeper has; `request` is that of the spawn, 0 in the list for a new gateway."""

    process: int
    request: int
    pid: int
    started: str
    tag: dict[str, Any]
    base: int
    end: int | None
    keys: list[Any]
    memo: str
    size: list[Any] | None
    exit: list[Any] | None


class Listed(NamedTuple):
    """All processes were listed."""


class SpawnFailed(NamedTuple):
    """`errno` is 0 for an error that is not one of the operating system."""

    request: int
    errno: int
    text: str
    filename: str | None


class Output(NamedTuple):
    process: int
    offset: int
    data: bytes


class OutputEnd(NamedTuple):
    """There is no output at or after `offset`."""

    process: int
    offset: int


class Wrote(NamedTuple):
    process: int
    number: int
    ok: bool


class Stderr(NamedTuple):
    process: int
    data: bytes


class Exited(NamedTuple):
    """`code` as of waitpid, negative for a signal; `monitor`: it is the code of a sandbox's monitor."""

    process: int
    code: int
    monitor: bool


class Unkillable(NamedTuple):
    """The last step of a stop did not end the process."""

    process: int


class AttachRefused(NamedTuple):
    """The keeper does not have the output at this offset."""

    process: int
    offset: int


Message = (
    Hello
    | SpawnRequest
    | Attach
    | Detach
    | Taken
    | Ack
    | WriteInput
    | OfferInput
    | CloseInput
    | Resize
    | StopProcess
    | Forget
    | Quit
    | Kept
    | Listed
    | SpawnFailed
    | Output
    | OutputEnd
    | Wrote
    | Stderr
    | Exited
    | Unkillable
    | AttachRefused
)

_KINDS: Final[dict[int, type[Any]]] = {
    1: Hello,
    2: SpawnRequest,
    3: Attach,
    4: Detach,
    5: Taken,
    6: Ack,
    7: WriteInput,
    8: OfferInput,
    9: CloseInput,
    10: Resize,
    11: StopProcess,
    12: Forget,
    13: Quit,
    64: Kept,
    65: Listed,
    66: SpawnFailed,
    67: Output,
    68: OutputEnd,
    69: Wrote,
    70: Stderr,
    71: Exited,
    72: Unkillable,
    73: AttachRefused,
}
_NUMBERS: Final = {cls: number for number, cls in _KINDS.items()}
_OUTPUT_KIND: Final = _NUMBERS[Output]


def pack(message: Message) -> bytes:
    """Return the message's frame."""
    kind = _NUMBERS[type(message)]
    match message:
        case Output(process, offset, data):
            return pack_output(process, offset, data)
        case Stderr(process, data) | OfferInput(process, data):
            return encode(kind, process, data)
        case Taken(process, offset):
            return encode(kind, process, _OFFSET.pack(offset))
        case Ack(process, offset, memo):
            if memo is not None and len(memo) > MAX_MEMO:
                raise ValueError(f"the memo has {len(memo)} bytes, at most {MAX_MEMO} are possible")
            return encode(kind, process, _ACK.pack(offset, memo is not None), memo or b"")
        case WriteInput(process, number, key, data):
            name = key.encode("utf-8", "surrogatepass")
            if len(name) > MAX_KEY:
                raise ValueError(f"the key has {len(name)} bytes, at most {MAX_KEY} are possible")
            return encode(kind, process, _WRITE.pack(number, len(name)), name, data)
        case Wrote(process, number, ok):
            return encode(kind, process, _WROTE.pack(number, ok))
        case _:
            fields = message._asdict()
            process = fields.pop("process", 0)
            payload = json.dumps(fields).encode("ascii")
            if isinstance(message, SpawnRequest) and len(payload) > MAX_SPAWN:
                raise ValueError(f"the request has {len(payload)} bytes, at most {MAX_SPAWN} are possible")
            return encode(kind, process, payload)


def pack_output(process: int, offset: int, data: bytes) -> bytes:
    """Return the frame of an `Output`, which are nearly all of the keeper's frames. It has at most a chunk of data."""
    return _OUTPUT.pack(_OFFSET.size + len(data), _OUTPUT_KIND, process, offset) + data


def unpack(frame: Frame) -> Message:
    """Return the message in a frame. Raises MalformedFrame."""
    cls = _KINDS.get(frame.kind)
    if cls is None:
        raise MalformedFrame(f"an unknown kind of frame: {frame.kind}")
    try:
        message: Message = _BINARY[cls](*frame[1:]) if cls in _BINARY else _from_json(cls, *frame[1:])
    except (ValueError, TypeError, RecursionError, struct.error) as error:
        raise MalformedFrame(f"a bad {cls.__name__}: {error}") from None
    return message


def memo_text(memo: bytes) -> str:
    return base64.b64encode(memo).decode("ascii")


def memo_bytes(text: str) -> bytes:
    return base64.b64decode(text)


def is_strings(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def is_size(size: list[Any]) -> bool:
    """Return whether this is a number of columns and of rows that a terminal can have."""
    return len(size) == 2 and all(isinstance(value, int) and 0 < value < 1 << 16 for value in size)


def _from_json(cls: type[Any], process: int, payload: bytes) -> Any:
    if cls is SpawnRequest and len(payload) > MAX_SPAWN:
        raise ValueError(f"{len(payload)} bytes")
    fields = json.loads(payload)
    if "process" in cls._fields:
        fields["process"] = process
    message = cls(**fields)
    for name, kind in cls.__annotations__.items():
        value = fields[name]
        if not isinstance(value, _plain(kind)):
            raise TypeError(f"{name} is {type(value).__name__}")
        if kind is float and not 0 <= value <= MAX_SECONDS:  # all of them are seconds
            raise ValueError(f"{name} is out of range")
    return message


def _plain(kind: Any) -> Any:
    """Return the type that `isinstance` knows. A whole number is a number of seconds too."""
    if isinstance(kind, UnionType):
        return tuple(map(_plain, get_args(kind)))
    return (int, float) if kind is float else get_origin(kind) or kind


def _output(process: int, payload: bytes) -> Output:
    return Output(process, _OFFSET.unpack_from(payload)[0], payload[_OFFSET.size :])


def _taken(process: int, payload: bytes) -> Taken:
    return Taken(process, *_OFFSET.unpack(payload))


def _ack(process: int, payload: bytes) -> Ack:
    offset, has_memo = _ACK.unpack_from(payload)
    if len(payload) > MAX_MEMO + _ACK.size:
        raise ValueError(f"a memo of {len(payload)} bytes")
    return Ack(process, offset, payload[_ACK.size :] if has_memo else None)


def _write(process: int, payload: bytes) -> WriteInput:
    number, size = _WRITE.unpack_from(payload)
    start = _WRITE.size + size
    if size > MAX_KEY or start > len(payload):
        raise ValueError(f"a key of {size} bytes")
    key = payload[_WRITE.size : start].decode("utf-8", "surrogatepass")
    return WriteInput(process, number, key, payload[start:])


def _wrote(process: int, payload: bytes) -> Wrote:
    return Wrote(process, *_WROTE.unpack(payload))


_BINARY: Final[dict[type[Any], Callable[[int, bytes], Message]]] = {
    Output: _output,
    Taken: _taken,
    Ack: _ack,
    WriteInput: _write,
    Wrote: _wrote,
    Stderr: Stderr,
    OfferInput: OfferInput,
}
