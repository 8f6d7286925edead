"""Pings whose pongs somebody waits for: what was sent before one of them has reached the peer. No sockets here."""

from collections import deque
from collections.abc import Callable


class Probes:
    """A pong answers its ping and all before it: a peer may leave out those that a newer one has overtaken."""

    __slots__ = ("_next", "_waiting")

    def __init__(self) -> None:
        self._next = 1
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()

    def begin(self, answered: Callable[[], None]) -> bytes:
        """The payload of the ping to send."""
        payload = self._next.to_bytes(8, "big")
        self._next += 1
        self._waiting.append((payload, answered))
        return payload

    def answered(self, payload: bytes) -> None:
        """A pong came; one that fits no ping of ours is none of our business."""
        if not any(waiting == payload for waiting, _ in self._waiting):
            return
        while True:
            waiting, answered = self._waiting.popleft()
            answered()
            if waiting == payload:
                return
