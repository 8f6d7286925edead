"""The messages between a shim and the gateway: one JSON object per line, several lines in one WebSocket message. Pure.

The shim sends copies of the lines of the CLI and of its caller, each with a number. The gateway confirms a number when
everything up to it is stored; after a disconnection the shim resends the rest. The gateway numbers its input for the
CLI in the same way, and the shim skips input that it has seen.
"""

from typing import Final

import msgspec


class ShimFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """A message of the shim."""

    n: int


class CliLine(ShimFrame, frozen=True, kw_only=True, tag="cli"):
    """A line that the CLI wrote."""

    line: msgspec.Raw


class CallerLine(ShimFrame, frozen=True, kw_only=True, tag="caller"):
    """A line of the caller that the gateway should know: a prompt, an interrupt, the answer to a permission request.
    An answer waits in the shim for the gateway's word; the others are on their way to the CLI."""

    line: msgspec.Raw


class CliExit(ShimFrame, frozen=True, kw_only=True, tag="exit"):
    """The CLI has exited: with a code, or by a signal."""

    code: int | None = None
    signal: int | None = None


class LinesLost(ShimFrame, frozen=True, kw_only=True, tag="lost"):
    """The lines up to this number were dropped: the shim was disconnected for too long."""


class CliInput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="input"):
    """A line for the CLI."""

    n: int
    line: msgspec.Raw


class Stored(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="stored"):
    """Everything up to this number is stored."""

    n: int


class AnswerAccepted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="accepted"):
    """The caller's answer to this request counts."""

    request: str


class EndCli(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="end"):
    """A person wants the process to end."""

    reason: str


FromShim = CliLine | CallerLine | CliExit | LinesLost
FromGateway = CliInput | Stored | AnswerAccepted | EndCli

_from_shim: Final[msgspec.json.Decoder[FromShim]] = msgspec.json.Decoder(FromShim)
_from_gateway: Final[msgspec.json.Decoder[FromGateway]] = msgspec.json.Decoder(FromGateway)
_encoder: Final = msgspec.json.Encoder()
_QUOTE: Final = b'"'


def decode_from_shim(line: bytes) -> FromShim:
    """Raises msgspec.DecodeError."""
    return _from_shim.decode(line)


def decode_from_gateway(line: bytes) -> FromGateway:
    """Raises msgspec.DecodeError."""
    return _from_gateway.decode(line)


def encode_frame(frame: FromShim | FromGateway) -> bytes:
    return _encoder.encode(frame) + b"\n"


def pack(line: bytes) -> msgspec.Raw:
    """A line as a part of a frame. A line that cannot be a JSON object, such as a warning, is packed as a string."""
    text = line.strip()
    if text.startswith(b"{") and text.endswith(b"}") and b"\n" not in text:
        return msgspec.Raw(text)
    return msgspec.Raw(_encoder.encode(text.decode("utf-8", "replace")))


def unpack(packed: msgspec.Raw) -> bytes:
    raw = bytes(packed)
    return msgspec.json.decode(raw, type=str).encode() if raw.startswith(_QUOTE) else raw
