"""The opening handshake as bytes: parses a request head and builds the responses. Pure.

Checks only that the request is a WebSocket handshake; the gate decides who may connect.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha1
from http import HTTPStatus
from typing import Final

from fairlead.server.websocket.errors import BadHandshake, Misuse

Headers = list[tuple[bytes, bytes]]

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_VERSION: Final = b"13"


@dataclass(frozen=True, slots=True)
class RequestHead:
    path: bytes
    """As sent, still percent-encoded."""
    query: bytes
    headers: Headers
    """Names in lower case, in the order sent."""
    key: bytes

    def all(self, name: bytes) -> list[bytes]:
        return _values(self.headers, name)

    @property
    def subprotocols(self) -> list[str]:
        values = b",".join(self.all(b"sec-websocket-protocol")).decode("latin-1")
        return [token for token in (part.strip() for part in values.split(",")) if token]


def parse_head(data: bytes) -> RequestHead:
    """Parse a request head. Raises BadHandshake, which contains the response."""
    head, end, _ = data.partition(b"\r\n\r\n")
    request_line, *lines = head.split(b"\r\n")
    parts = request_line.split(b" ")
    if not end or len(parts) != 3 or parts[0] != b"GET":
        raise BadHandshake(400, "a WebSocket handshake is a GET request with a whole head")
    headers: Headers = []
    for line in lines:
        name, _, value = line.partition(b":")
        headers.append((name.lower(), value.strip()))
    if _values(headers, b"sec-websocket-version") != [_VERSION]:
        raise BadHandshake(426, "WebSocket version 13 only", ((b"sec-websocket-version", _VERSION),))
    keys = _values(headers, b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise BadHandshake(400, "Sec-WebSocket-Key must be 16 bytes in base64, once")
    path, _, query = parts[1].partition(b"?")
    return RequestHead(path, query, headers, keys[0])


def accept_response(key: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    accept = b64encode(sha1(key + _GUID, usedforsecurity=False).digest())
    own = ((b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-accept", accept))
    return b"HTTP/1.1 101 Switching Protocols\r\n" + _serialise((*own, *headers))


def refusal_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Build the head of a response other than 101; the connection ends after its body."""
    try:
        phrase = HTTPStatus(status).phrase.encode()
    except ValueError:
        phrase = b""
    kept = [(name, value) for name, value in headers if name.lower() != b"connection"]
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase) + _serialise((*kept, (b"connection", b"close")))


def refusal(status: int, reason: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """Build a complete rejection with a line of plain text."""
    body = reason.encode() + b"\n"
    kind = (b"content-type", b"text/plain; charset=utf-8")
    return refusal_head(status, (*headers, kind, (b"content-length", b"%d" % len(body)))) + body


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def _is_key(key: bytes) -> bool:
    try:
        return len(b64decode(key, validate=True)) == 16
    except binascii.Error:
        return False


def _serialise(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    lines = bytearray()
    for name, value in headers:
        if b"\r" in name + value or b"\n" in name + value:
            raise Misuse(f"header {name!r} contains a line break")
        lines += name + b": " + value + b"\r\n"
    return bytes(lines + b"\r\n")
