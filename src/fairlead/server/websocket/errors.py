"""Errors of the WebSocket driver. They carry data; the driver turns them into responses."""


class FrameError(Exception):
    """The peer broke RFC 6455; `code` is the close code that it gets."""

    def __init__(self, reason: str, code: int = 1002) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


class BadHandshake(Exception):
    """The request head is not a WebSocket handshake; `status` and `headers` are the response."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers


class PeerGone(OSError):
    """An ASGI application sends to a peer that has left. An OSError, as ASGI requires."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the peer has left (close code {code}); stop sending")
        self.code = code


class Misuse(RuntimeError):
    """Our own code made calls in the wrong order."""
