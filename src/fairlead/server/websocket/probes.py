"""Pings with a callback for their pong: bytes sent before such a ping have then reached the peer. No sockets here."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False, repr=False, slots=True)
class Probes:
    """The open probes. A pong answers its ping and all earlier ones: a peer may answer only the newest ping."""

    _next: int = 1
    _waiting: deque[tuple[bytes, Callable[[], None]]] = field(default_factory=deque)

    def begin(self, answered: Callable[[], None]) -> bytes:
        """Add a probe; returns the payload of the ping to send."""
        payload = self._next.to_bytes(8, "big")
        self._next += 1
        self._waiting.append((payload, answered))
        return payload

    def answered(self, payload: bytes) -> None:
        """Handle a pong; ignore it if it matches none of the open probes."""
        if not any(waiting == payload for waiting, _ in self._waiting):
            return
        while True:
            waiting, answered = self._waiting.popleft()
            answered()
            if waiting == payload:
                return
