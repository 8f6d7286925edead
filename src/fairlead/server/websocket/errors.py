"""WebSocket errors, as one tree. Errors carry data; drivers turn them into responses."""

from typing import ClassVar


class WebSocketError(Exception):
    pass


class FrameError(WebSocketError):
    """The peer broke RFC 6455; `code` is the close code that it gets."""

    code: ClassVar[int]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProtocolViolation(FrameError):
    code = 1002


class InvalidText(FrameError):
    code = 1007


class MessageTooBig(FrameError):
    code = 1009

    def __init__(self, limit: int) -> None:
        super().__init__(f"a message may have {limit} bytes")
        self.limit = limit


class BadHandshake(WebSocketError):
    """The request head is not a WebSocket handshake; `status` and `headers` are the response."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


class PeerGone(WebSocketError, OSError):
    """An ASGI application sends to a peer that has left. An OSError, as ASGI requires."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the peer has left (close code {code}); stop sending")
        self.code = code


class Misuse(WebSocketError, RuntimeError):
    """Our own code made calls in the wrong order."""
