"""RFC 6455 frames, the receiving half: a sans-I/O parser of a client's bytes, without sockets and event loop.

Speed comes first here: a complete small text message costs one pass, one unmasking and one call, and creates no object
besides its payload. All rarer cases leave the loop through a method.
"""

import zlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Protocol

from fairlead.server.websocket.errors import FrameError
from fairlead.server.websocket.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FIN,
    MAX_CONTROL_PAYLOAD,
    NO_STATUS,
    PING,
    PONG,
    RSV1,
    TEXT,
    is_sendable_close_code,
)

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without the compiled helper: slower, the same bytes
    from websockets.utils import apply_mask

DEFAULT_MAX_MESSAGE: Final = 8 * 1024 * 1024
"""The design's limit for an inbound frame."""

_WHOLE_TEXT: Final = FIN | TEXT
_WHOLE_BINARY: Final = FIN | BINARY
_CONTROL_BIT: Final = 0x08
_OPCODE: Final = 0x0F
_RESERVED: Final = 0x70
_OPCODES: Final = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
_DEFLATE_TAIL: Final = b"\x00\x00\xff\xff"

Deliver = Callable[[bytes, bool], object]


class ControlHandler(Protocol):
    """Receives control frames."""

    def on_ping(self, payload: bytes) -> None: ...

    def on_pong(self, payload: bytes) -> None: ...

    def on_peer_close(self, code: int, payload: bytes) -> None:
        """`payload` is the frame's payload, to be echoed; the parser ignores all input after it."""


@dataclass(eq=False, repr=False, slots=True)
class FrameParser:
    """Turns reads, cut anywhere, into calls: `deliver(data, is_text)` per message, the handler per control frame.

    `deliver` may be replaced at any time, also from inside a call. When `feed` raises, the connection is
    over and the parser must not be fed again; the messages before the error have been delivered.
    """

    deliver: Deliver
    _handler: ControlHandler
    _: KW_ONLY
    max_message: int = DEFAULT_MAX_MESSAGE
    inflate: bool = False
    _ended: bool = False
    _held: bytearray | None = None
    """The bytes of an incomplete frame; `_need` is the number of bytes required to continue."""
    _need: int = 0
    _message: bytearray | None = None
    """The fragments so far: one buffer, because a list would grow with every empty fragment."""
    _room: int = field(init=False)
    _text: bool = False
    _inflater: "zlib._Decompress | None" = None

    def __post_init__(self) -> None:
        self._room = self.max_message

    def feed(self, data: bytes) -> None:
        if self._ended:
            return
        held = self._held
        if held is not None:
            held += data
            if len(held) < self._need:
                return
            data = bytes(held)
            self._held = None
        offset = 0
        need = 2
        end = len(data)
        while end - offset >= 2:
            head = data[offset]
            length = data[offset + 1] - 128
            if length < 0:
                raise FrameError("a client's frames must be masked")
            key = offset + 2
            if length == 126:
                key += 2
                if end < key:
                    need = 4
                    break
                length = data[key - 2] << 8 | data[key - 1]
            elif length == 127:
                key += 8
                if end < key:
                    need = 10
                    break
                length = int.from_bytes(data[key - 8 : key], "big")
            if head != _WHOLE_TEXT:
                self._check_head(head, length)
            if length > self._room and not head & _CONTROL_BIT:
                raise FrameError(f"a message may have {self.max_message} bytes", 1009)
            start = key + 4
            stop = start + length
            if stop > end:
                need = stop - offset
                break
            payload = apply_mask(data[start:stop], data[key:start])
            offset = stop
            if head == _WHOLE_TEXT and self._message is None:
                if not payload.isascii():
                    _check_utf8(payload)
                self.deliver(payload, True)
            elif head == _WHOLE_BINARY and self._message is None:
                self.deliver(payload, False)
            elif head & _CONTROL_BIT:
                if self._on_control(head & _OPCODE, payload):
                    return
            else:
                self._on_fragment(head, payload)
        if offset < end:
            self._held = bytearray(data[offset:])
            self._need = need

    def _check_head(self, head: int, length: int) -> None:
        opcode = head & _OPCODE
        if opcode not in _OPCODES:
            raise FrameError(f"opcode {opcode} is reserved")
        reserved = head & _RESERVED
        if reserved and not (reserved == RSV1 and self.inflate and opcode in (TEXT, BINARY)):
            raise FrameError("a reserved bit is set")
        if opcode & _CONTROL_BIT and (length > MAX_CONTROL_PAYLOAD or not head & FIN):
            raise FrameError("a control frame must be whole and at most 125 bytes")

    def _on_control(self, opcode: int, payload: bytes) -> bool:
        """Handle a control frame. Returns True if this was the peer's last frame."""
        if opcode == PING:
            self._handler.on_ping(payload)
        elif opcode == PONG:
            self._handler.on_pong(payload)
        else:
            code = _close_code(payload)
            self._ended = True
            self._handler.on_peer_close(code, payload)
        return self._ended

    def _on_fragment(self, head: int, payload: bytes) -> None:
        opcode = head & _OPCODE
        if opcode == CONTINUATION:
            if self._message is None:
                raise FrameError("a continuation without a message")
        elif self._message is not None:
            raise FrameError("a new message inside a fragmented one")
        else:
            self._message = bytearray()
            self._text = opcode == TEXT
            # Without context takeover every message has its own window; 15 bits work with any client's choice.
            self._inflater = zlib.decompressobj(-15) if head & RSV1 else None
        final = head & FIN
        if self._inflater is not None:
            payload = self._inflate(self._inflater, payload + _DEFLATE_TAIL if final else payload)
        message = self._message
        message += payload
        if not final:
            self._room -= len(payload)
            return
        self._message = None
        self._inflater = None
        self._room = self.max_message
        data = bytes(message)
        if self._text:
            _check_utf8(data)
        self.deliver(data, self._text)

    def _inflate(self, inflater: "zlib._Decompress", payload: bytes) -> bytes:
        # Ask for one byte more than allowed, so that a decompression bomb is detected without being unpacked.
        try:
            data = inflater.decompress(payload, self._room + 1)
        except zlib.error as error:
            raise FrameError("compressed data is damaged") from error
        if len(data) > self._room:
            raise FrameError(f"a message may have {self.max_message} bytes", 1009)
        return data


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise FrameError("a text message must be UTF-8", 1007) from None


def _close_code(payload: bytes) -> int:
    if not payload:
        return NO_STATUS
    if len(payload) == 1:
        raise FrameError("a close code of one byte")
    _check_utf8(payload[2:])
    code = int.from_bytes(payload[:2], "big")
    if not is_sendable_close_code(code):
        raise FrameError(f"close code {code} may not be sent")
    return code
