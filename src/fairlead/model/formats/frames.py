"""Builds and splits the WebSocket frames of encoders, whose bytes go to the socket of every subscription unchanged;
decodes messages.

Client protocols may not import the server's driver, so the functions that they need are in the model.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_json = msgspec.json.Encoder()
_msgpack = msgspec.msgpack.Encoder()


def text_frame(payload: bytes) -> bytes:
    """One unmasked text message; `payload` is UTF-8 and is not checked, every caller has just encoded it."""
    return build_frame(0x81, payload)


def json_frame(message: Any) -> bytes:
    return text_frame(_json.encode(message))


def decode_message(data: bytes) -> Any:
    """A message as JSON; None if it is not JSON."""
    return decode_or_none(msgspec.json.decode, data)


def decode_or_none(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """The data as `decode` reads it; None if it is not in that form."""
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def binary_frame(payload: bytes) -> bytes:
    return build_frame(0x82, payload)


def packed_frame(message: Any) -> bytes:
    """One binary message in MessagePack."""
    try:
        return binary_frame(_msgpack.encode(message))
    except OverflowError:
        # JSON has integers of any length, MessagePack 64 bits: an agent's output must not stop an encoder.
        return binary_frame(_msgpack.encode(_narrowed(message)))


def _narrowed(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 10**308 else str(value)
    if isinstance(value, dict):
        return {key: _narrowed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_narrowed(item) for item in value]
    return value


def build_frame(head: int, payload: bytes) -> bytes:
    """One unmasked frame; `head` is the whole first byte (FIN, reserved bits, opcode)."""
    length = len(payload)
    if length < 126:
        return bytes((head, length)) + payload
    if length < 65536:
        return bytes((head, 126, length >> 8, length & 255)) + payload
    return bytes((head, 127)) + length.to_bytes(8, "big") + payload


def split_frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the (head, payload) pairs of complete unmasked frames joined together: the inverse of build_frame."""
    offset = 0
    while offset < len(data):
        head = data[offset]
        length = data[offset + 1] if offset + 1 < len(data) else 0
        start = offset + 2
        if length == 126:
            start = offset + 4
            length = int.from_bytes(data[offset + 2 : start], "big")
        elif length == 127:
            start = offset + 10
            length = int.from_bytes(data[offset + 2 : start], "big")
        offset = start + length
        if offset > len(data):
            raise ValueError("not a sequence of whole unmasked frames")
        yield head, data[start:offset]
