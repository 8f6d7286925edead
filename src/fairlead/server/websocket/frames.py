"""RFC 6455 frames, the sending half: bytes in, bytes out. Pure; the receiving half is parser.py.

A frame is built once and the same bytes go to every subscriber, so nothing here knows a connection.
"""

from typing import Final

from fairlead.model.formats.frames import build_frame

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

FIN: Final = 0x80
RSV1: Final = 0x40
"""Set on the first frame of a message that permessage-deflate compressed."""

MAX_CONTROL_PAYLOAD: Final = 125
_MAX_REASON: Final = MAX_CONTROL_PAYLOAD - 2

NO_STATUS: Final = 1005
"""A close frame without a code. Reported, never sent as a number."""
ABNORMAL: Final = 1006
"""The connection ended without a close frame. Reported, never sent."""


def ping_frame(payload: bytes = b"") -> bytes:
    return _control_frame(PING, payload)


def pong_frame(payload: bytes = b"") -> bytes:
    return _control_frame(PONG, payload)


def close_frame(code: int, reason: str = "") -> bytes:
    """Build a close frame. A reason too long for a control frame is cut between characters. For 1005 the frame has no
    code and no reason."""
    if code == NO_STATUS:
        return _control_frame(CLOSE, b"")
    if not is_sendable_close_code(code):
        raise ValueError(f"{code} may not be sent in a close frame; use 1000 or 3000 to 4999")
    text = reason.encode()
    if len(text) > _MAX_REASON:
        text = text[:_MAX_REASON].decode(errors="ignore").encode()
    return _control_frame(CLOSE, code.to_bytes(2, "big") + text)


def is_sendable_close_code(code: int) -> bool:
    """Apply RFC 6455 section 7.4 and its registry: 1004 to 1006 and 1015 exist only in reports."""
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999


def _control_frame(opcode: int, payload: bytes) -> bytes:
    if len(payload) > MAX_CONTROL_PAYLOAD:
        raise ValueError(f"a control frame carries at most {MAX_CONTROL_PAYLOAD} bytes, not {len(payload)}")
    return build_frame(FIN | opcode, payload)
